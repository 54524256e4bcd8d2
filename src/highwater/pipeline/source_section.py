"""The sections `source` and `decode` of a definition: what is read, and how records become rows."""

from __future__ import annotations

from highwater.client.client import parse_bootstrap_servers
from highwater.pipeline.decode import DECODINGS, KEPT_COLUMNS, Decoding, NullValues, kept_beside
from highwater.pipeline.sections import Mistake, Section

SOURCE = (
    *("bootstrap_servers", "topic", "pattern", "group", "starting_offsets"),
    *("max_offsets_per_trigger", "max_bytes_per_trigger", "options"),
)
USUAL_BATCH_BYTES = 1 << 30
"""So that the first batch of a long topic is not all of it."""
DECODE = ("format", "schema", "keep", "dead_letters", "null_values")
ISOLATION, READ_COMMITTED = "kafka.isolation.level", "read_committed"


def source_options(section: Section) -> tuple[dict[str, str], str | None]:
    servers = section.required("bootstrap_servers")
    try:
        parse_bootstrap_servers(servers)
    except ValueError as error:
        raise Mistake((*section.place, "bootstrap_servers"), str(error)) from None
    topics, pattern = section.texts("topic"), section.text("pattern")
    if bool(topics) == bool(pattern):
        what = "topic and pattern exclude each other" if topics else "topic is missing (or pattern)"
        raise Mistake((*section.place, "pattern") if topics else section.place, what)
    group = section.text("group")
    starting = section.choice("starting_offsets", ("earliest", "latest", "group"), "earliest")
    if starting == "group" and group is None:
        raise Mistake((*section.place, "starting_offsets"), "is 'group', which needs the key group beside it")
    options = {"kafka.bootstrap.servers": servers, "startingOffsets": starting}
    options |= {"subscribe": ",".join(topics)} if topics else {"subscribePattern": pattern or ""}
    options |= {"kafka.group.id": group} if group else {}
    if (most := section.number("max_offsets_per_trigger", 1, 2**62)) is not None:
        options["maxOffsetsPerTrigger"] = str(most)
    options["maxBytesPerTrigger"] = str(section.number("max_bytes_per_trigger", 1, 2**62) or USUAL_BATCH_BYTES)
    section.add_options(options)
    if ISOLATION not in {name.lower() for name in options}:
        options[ISOLATION] = READ_COMMITTED
    return options, group


def decoding_of(section: Section, usually_kept: tuple[str, ...]) -> Decoding | None:
    kind = section.choice("format", DECODINGS, "raw")
    schema, dead = section.text("schema"), section.text("dead_letters")
    keep = section.texts("keep")
    null_values = section.choice("null_values", tuple(NullValues), NullValues.ROW)
    for name in keep:
        if name not in KEPT_COLUMNS:
            raise Mistake((*section.place, "keep"), f"names {name!r}: it can name {', '.join(KEPT_COLUMNS)}")
    if "format" not in section:
        if "schema" in section:
            raise Mistake((*section.place, "schema"), "is given without format: json")
        if not keep:
            return None
    try:
        if kind == "json" and "keep" not in section:
            keep = kept_beside(schema or "", usually_kept)
        return Decoding(kind, schema or "", tuple(keep), NullValues(null_values), dead)
    except ValueError as error:
        at = next((key for key in ("schema", "dead_letters", "null_values") if key in section), "format")
        raise Mistake((*section.place, at), str(error)) from None
