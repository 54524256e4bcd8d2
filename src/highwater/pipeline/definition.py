"""What a pipeline is: from which topics, decoded how, into what. Checked as a whole, before any Spark is started."""

from __future__ import annotations

import keyword
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from highwater.client.client import parse_bootstrap_servers
from highwater.client.security import Security
from highwater.pipeline.decode import DECODINGS, KEPT_COLUMNS, Decoding, NullValues, kept_beside
from highwater.pipeline.landing.options import FORMATS, Landing
from highwater.pipeline.maintenance import KEYS, Upkeep
from highwater.pipeline.options import SourceOptions
from highwater.pipeline.producing import ProducerSettings
from highwater.pipeline.restarting import Restart
from highwater.pipeline.secrecy import check_references, is_secured, security_of
from highwater.pipeline.sections import Mistake, Place, Section, duration
from highwater.pipeline.selection import Matching, Selection, selects

Transform = Callable[[Any], Any]
"""From the DataFrame that was read to the DataFrame to be written."""

MODES = ("direct", "connector")
AVAILABLE_NOW = "available-now"
DEFAULT_TRIGGER = "1s"
ISOLATION, READ_COMMITTED = "kafka.isolation.level", "read_committed"
USUALLY_KEPT = ("topic", "partition", "offset", "timestamp")
"""What a row in a table keeps of its record where `decode.keep` does not say: an audit goes by it."""

TOP = (
    "name",
    "source",
    "decode",
    "transform",
    "py_files",
    "sink",
    "mode",
    "trigger",
    "checkpoint",
    "restart",
    "metrics",
    "maintenance",
    "spark",
)
SOURCE = ("bootstrap_servers", "topic", "pattern", "group", "starting_offsets", "max_offsets_per_trigger", "options")
DECODE = ("format", "schema", "keep", "dead_letters", "null_values")
SINK = ("table", "path", "name", "topic", "bootstrap_servers", "options")

_KEYS = {
    "kafka.bootstrap.servers": "bootstrap_servers",
    "kafka.group.id": "group",
    "maxOffsetsPerTrigger": "max_offsets_per_trigger",
    "startingOffsets": "starting_offsets",
    "subscribe": "topic",
    "subscribePattern": "pattern",
    "name": "name",
    "path": "path",
    "table": "table",
    "topic": "topic",
}
"""Options that have a key of their own."""

RESERVED = ("highwater", "pyspark", "pyspark_highwater", "pyspark_highwater_table", "pyarrow")
"""Modules that nothing of a user's may hide."""

_NAME = re.compile(r"[A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class Definition:
    name: str
    source: Mapping[str, str]
    """Options of `format("highwater")`."""
    sink_format: str
    sink: Mapping[str, str]
    checkpoint: str
    mode: str
    trigger: str
    transform: str | Transform | None = None
    py_files: tuple[Path, ...] = ()
    """Modules and packages that the transform needs on the executors."""
    group: str | None = None
    restart: Restart = field(default_factory=Restart)
    metrics_port: int | None = None
    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    upkeep: Upkeep | None = None
    """Of the table, while the pipeline runs; None: there is none."""
    folder: Path = Path()
    """What relative paths are relative to."""

    def file(self, name: str) -> Path:
        return (self.folder / name).absolute()

    @property
    def bootstrap_servers(self) -> str:
        return self.source["kafka.bootstrap.servers"]

    @property
    def dead_letter_topic(self) -> str | None:
        given = {name.lower(): value for name, value in (*self.source.items(), *self.sink.items())}
        return given.get("deadlettertopic") or None

    @property
    def sink_topic(self) -> str | None:
        return self.sink.get("topic")

    @property
    def sink_servers(self) -> str:
        return self.sink.get("kafka.bootstrap.servers", self.bootstrap_servers)

    @property
    def security(self) -> Security:
        """Of the source."""
        return security_of(self.source)

    @property
    def sink_security(self) -> Security:
        return security_of(self.sink)

    @property
    def sink_is_at_source(self) -> bool:
        """Whether both have an address in common; two clusters may still be one."""
        source = set(parse_bootstrap_servers(self.bootstrap_servers))
        return not source.isdisjoint(parse_bootstrap_servers(self.sink_servers))

    @property
    def trigger_seconds(self) -> float | None:
        """None: all that is there now, then the end."""
        return None if self.trigger == AVAILABLE_NOW else duration(self.trigger)


def define(data: object, folder: Path = Path(), transform: Transform | None = None) -> Definition:
    """Check a definition given as plain data; `transform` stands in for the key. Raises Mistake, for the first one."""
    top = Section(data, (), *TOP)
    name = top.required("name")
    if not _NAME.fullmatch(name):
        raise Mistake(("name",), f"is {name!r}: a name has only letters, digits, dots, dashes and underscores")
    source, group = _source(top.section("source", *SOURCE))
    sink_format, sink = _sink(top.section("sink", *SINK), source, folder)
    decoding = _decoding(top.section("decode", *DECODE), USUALLY_KEPT if sink_format == "highwater-table" else ())
    transform_name = top.text("transform")
    if transform_name is not None and not re.fullmatch(r"[^:]+:\w+", transform_name):
        raise Mistake(("transform",), f"is {transform_name!r}: expected FILE.py:FUNCTION or MODULE:FUNCTION")
    chosen = transform or transform_name
    mode = _mode(top, sink_format, chosen is not None)
    if decoding is not None and decoding.kind == "json" and sink_format == "highwater" and chosen is None:
        raise Mistake(("decode", "format"), "is 'json', but a topic takes a column value: a transform must make one")
    _place_decoding(decoding, mode, source, sink)
    definition = Definition(
        name=name,
        source=source,
        sink_format=sink_format,
        sink=sink,
        checkpoint=_path(top.text("checkpoint") or f"checkpoints/{name}", folder),
        mode=mode,
        trigger=_trigger(top),
        transform=chosen,
        py_files=_py_files(top, folder, chosen is not None),
        group=group,
        restart=_restart(top.section("restart", "attempts", "backoff", "max_backoff")),
        metrics_port=_metrics(top.section("metrics", "port")),
        upkeep=_upkeep(top, sink_format),
        **_spark(top.section("spark", "master", "conf")),
        folder=folder,
    )
    _check_options(definition)
    return definition


def _source(section: Section) -> tuple[dict[str, str], str | None]:
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
    _add_options(section, options)
    if ISOLATION not in {name.lower() for name in options}:
        options[ISOLATION] = READ_COMMITTED
    return options, group


def _add_options(section: Section, options: dict[str, str]) -> None:
    """The rest of a section: options under their own names."""
    for name, value in section.settings("options").items():
        if name.lower() in {known.lower() for known in options}:
            raise Mistake((*section.place, "options", name), f"is already set by a key of {section.place[0]}")
        options[name] = value


def _decoding(section: Section, usually_kept: tuple[str, ...]) -> Decoding | None:
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


def _sink(section: Section, source: Mapping[str, str], folder: Path) -> tuple[str, dict[str, str]]:
    table, topic = section.text("table"), section.text("topic")
    if (table is None) == (topic is None):
        what = "table and topic exclude each other" if table else f"table ({', '.join(FORMATS)}) or topic is missing"
        raise Mistake((*section.place, "topic") if table else section.place, what)
    if topic is not None:
        servers = section.text("bootstrap_servers")
        options = {"kafka.bootstrap.servers": servers or source["kafka.bootstrap.servers"], "topic": topic}
        _add_options(section, options)
        if servers is None and not is_secured(options):
            options |= {name: value for name, value in source.items() if is_secured([name])}
        return "highwater", options
    assert table is not None
    if table not in FORMATS:
        raise Mistake((*section.place, "table"), f"is {table!r}: it must be one of {', '.join(FORMATS)}")
    options = {"table": table}
    if (path := section.text("path")) is not None:
        options["path"] = path if "://" in path else _path(path, folder)
    elif table != "iceberg":
        raise Mistake(section.place, f"path is missing: the folder of the {table} table")
    if (name := section.text("name")) is not None:
        options["name"] = name
    _add_options(section, options)
    return "highwater-table", options


def _mode(top: Section, sink_format: str, transforms: bool) -> str:
    """Direct where it can be: records that no query looks at need not pass through the JVM."""
    can_be_direct = sink_format == "highwater-table" and not transforms
    mode = top.choice("mode", MODES, "direct" if can_be_direct else "connector")
    if mode == "direct" and not can_be_direct:
        why = "a transform needs the rows in Spark" if transforms else "a topic is written from rows in Spark"
        raise Mistake(("mode",), f"is 'direct', but {why}: use connector")
    return mode


def _place_decoding(decoding: Decoding | None, mode: str, source: dict[str, str], sink: dict[str, str]) -> None:
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


def _py_files(top: Section, folder: Path, transforms: bool) -> tuple[Path, ...]:
    if "py_files" in top and not transforms:
        raise Mistake(("py_files",), "is given without a transform: only a transform imports these modules")
    found: dict[str, Path] = {}
    for name in top.texts("py_files"):
        path = (folder / name).absolute()
        if not path.exists():
            raise Mistake(("py_files",), f"names {name!r}: there is no {path}")
        if not path.is_dir() and path.suffix != ".py":
            raise Mistake(("py_files",), f"names {name!r}: expected a file that ends with .py, or a folder")
        module = path.name.removesuffix(".py")
        if not module.isidentifier() or keyword.iskeyword(module):
            raise Mistake(("py_files",), f"names {name!r}: {module!r} is no name that can be imported")
        if module in RESERVED or module in sys.stdlib_module_names:
            raise Mistake(("py_files",), f"names {name!r}: executors have a module {module} already")
        if module in found:
            raise Mistake(("py_files",), f"names {name!r}: {found[module]} is a module {module} already")
        found[module] = path
    return tuple(found.values())


def _trigger(top: Section) -> str:
    trigger = top.text("trigger") or DEFAULT_TRIGGER
    if trigger != AVAILABLE_NOW:
        try:
            duration(trigger)
        except ValueError:
            raise Mistake(("trigger",), f"is {trigger!r}: expected {AVAILABLE_NOW} or a duration such as 1s") from None
    return trigger


def _restart(section: Section) -> Restart:
    attempts = section.number("attempts", 0, 1_000_000)
    usual = Restart()
    return Restart(
        usual.attempts if attempts is None else attempts,
        section.seconds("backoff", usual.backoff_seconds),
        section.seconds("max_backoff", usual.max_backoff_seconds),
    )


def _upkeep(top: Section, sink_format: str) -> Upkeep | None:
    if "maintenance" not in top:
        return None
    if sink_format != "highwater-table":
        raise Mistake(("maintenance",), "is given, but only a table needs it: the sink is a topic")
    return Upkeep.from_section(top.section("maintenance", *KEYS))


def _metrics(section: Section) -> int | None:
    return section.number("port", 1, 65535)


def _spark(section: Section) -> dict[str, Any]:
    return {"master": section.text("master"), "conf": section.settings("conf")}


def _check_options(definition: Definition) -> None:
    """What the parts themselves would refuse once Spark has started."""
    try:
        selection = SourceOptions.parse(definition.source, streaming=True).selection
        check_references(definition.source)
    except ValueError as error:
        raise Mistake(_blamed("source", definition.source, str(error)), str(error)) from None
    try:
        if definition.sink_format == "highwater":
            ProducerSettings.from_options(definition.sink)
            check_references(definition.sink)
        else:
            Landing.from_options(definition.sink)
    except ValueError as error:
        raise Mistake(_blamed("sink", definition.sink, str(error)), str(error)) from None
    _check_loops(definition, selection)


def _check_loops(definition: Definition, selection: Selection) -> None:
    """A pipeline that reads what it writes never ends, and fills its cluster."""
    letters = definition.dead_letter_topic
    if letters is not None and selects(selection, letters):
        raise Mistake(
            ("decode", "dead_letters"),
            f"is {letters!r}, which {_spoken(selection)} selects: the pipeline would read its own dead letters",
        )
    topic = definition.sink_topic
    if topic is not None and selects(selection, topic) and definition.sink_is_at_source:
        raise Mistake(
            ("sink", "topic"),
            f"is {topic!r}, which {_spoken(selection)} selects: the pipeline would read what it wrote",
        )


def _spoken(selection: Selection) -> str:
    match selection:
        case Matching(pattern):
            return f"source.pattern {pattern!r} (it is searched for anywhere in a name; ^{pattern}$ is the whole name)"
        case _:
            return "source.topic"


def _blamed(section: str, options: Mapping[str, str], reason: str) -> Place:
    """The key that gave the option of which a reason speaks."""
    named = [name for name in options if re.search(rf"(?<![\w.]){re.escape(name)}(?![\w.])", reason, re.IGNORECASE)]
    if not named:
        return (section,)
    return (section, _KEYS[named[0]]) if named[0] in _KEYS else (section, "options", named[0])


def _path(path: str, folder: Path) -> str:
    return str((folder / path).absolute()) if "://" not in path else path
