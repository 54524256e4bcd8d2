"""The section `sink` of a definition: the table or the topic that is written."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from highwater.pipeline.decode import Decoding
from highwater.pipeline.landing.options import FORMATS
from highwater.pipeline.secrecy import is_secured
from highwater.pipeline.sections import Mistake, Section

SINK = ("table", "path", "name", "partition_by", "merge_schema", "topic", "bootstrap_servers", "options")


def sink_options(section: Section, source: Mapping[str, str], folder: Path) -> tuple[str, dict[str, str]]:
    table, topic = section.text("table"), section.text("topic")
    if (table is None) == (topic is None):
        what = "table and topic exclude each other" if table else f"table ({', '.join(FORMATS)}) or topic is missing"
        raise Mistake((*section.place, "topic") if table else section.place, what)
    if topic is not None:
        for key in ("path", "name", "partition_by", "merge_schema"):
            if key in section:
                raise Mistake((*section.place, key), "is of a table, and the sink is a topic")
        servers = section.text("bootstrap_servers")
        options = {"kafka.bootstrap.servers": servers or source["kafka.bootstrap.servers"], "topic": topic}
        section.add_options(options)
        if servers is None and not is_secured(options):
            options |= {name: value for name, value in source.items() if is_secured([name])}
        return "highwater", options
    assert table is not None
    if table not in FORMATS:
        raise Mistake((*section.place, "table"), f"is {table!r}: it must be one of {', '.join(FORMATS)}")
    options = {"table": table}
    if (path := section.text("path")) is not None:
        options["path"] = path if "://" in path else absolute(path, folder)
    elif table != "iceberg":
        raise Mistake(section.place, f"path is missing: the folder of the {table} table")
    if (name := section.text("name")) is not None:
        options["name"] = name
    if partitions := section.texts("partition_by"):
        options["partitionBy"] = ",".join(partitions)
    if (merges := section.take("merge_schema", bool, "true or false")) is not None:
        options["mergeSchema"] = str(merges).lower()
    section.add_options(options)
    return "highwater-table", options


def place_decoding(decoding: Decoding | None, mode: str, source: dict[str, str], sink: dict[str, str]) -> None:
    """The part that reads the records also decodes them: the sink in direct mode, the source otherwise."""
    if mode == "direct":
        source["emit"] = "ranges"
    if decoding is None:
        return
    target = sink if mode == "direct" else source
    target["decode"] = decoding.kind
    for option, value in (
        ("schema", decoding.ddl),
        ("keep", ",".join(decoding.keep)),
        ("nullValues", str(decoding.null_values) if decoding.kind == "json" else ""),
        ("deadLetterTopic", decoding.dead_letter_topic or ""),
    ):
        if value:
            target[option] = value


def absolute(path: str, folder: Path) -> str:
    return str((folder / path).absolute()) if "://" not in path else path
