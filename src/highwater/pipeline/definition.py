"""What a pipeline is: from which topics, decoded how, into what. Checked as a whole, before any Spark is started."""

from __future__ import annotations

import keyword
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from highwater.client.client import parse_bootstrap_servers
from highwater.client.security import Security
from highwater.pipeline.coherence import check_options
from highwater.pipeline.maintenance import KEYS, Upkeep
from highwater.pipeline.restarting import Restart
from highwater.pipeline.secrecy import security_of
from highwater.pipeline.sections import Mistake, Section, duration
from highwater.pipeline.sink_section import SINK, absolute, place_decoding, sink_options
from highwater.pipeline.source_section import DECODE, SOURCE, decoding_of, source_options

Transform = Callable[[Any], Any]
"""From the DataFrame that was read to the DataFrame to be written."""

LOOPBACK = "127.0.0.1"
MODES = ("direct", "connector")
AVAILABLE_NOW = "available-now"
DEFAULT_TRIGGER = "60s"
"""A batch is at least one file of the table: every second is for trying things out."""
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
    metrics_address: str = LOOPBACK
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
    source, group = source_options(top.section("source", *SOURCE))
    sink_format, sink = sink_options(top.section("sink", *SINK), source, folder)
    decoding = decoding_of(top.section("decode", *DECODE), USUALLY_KEPT if sink_format == "highwater-table" else ())
    transform_name = top.text("transform")
    if transform_name is not None and not re.fullmatch(r"[^:]+:\w+", transform_name):
        raise Mistake(("transform",), f"is {transform_name!r}: expected FILE.py:FUNCTION or MODULE:FUNCTION")
    chosen = transform or transform_name
    mode = _mode(top, sink_format, chosen is not None)
    if decoding is not None and decoding.kind == "json" and sink_format == "highwater" and chosen is None:
        raise Mistake(("decode", "format"), "is 'json', but a topic takes a column value: a transform must make one")
    place_decoding(decoding, mode, source, sink)
    definition = Definition(
        name=name,
        source=source,
        sink_format=sink_format,
        sink=sink,
        checkpoint=absolute(top.text("checkpoint") or f"checkpoints/{name}", folder),
        mode=mode,
        trigger=_trigger(top),
        transform=chosen,
        py_files=_py_files(top, folder, chosen is not None),
        group=group,
        restart=_restart(top.section("restart", "attempts", "backoff", "max_backoff")),
        **_metrics(top.section("metrics", "port", "address")),
        upkeep=_upkeep(top, sink_format),
        **_spark(top.section("spark", "master", "conf")),
        folder=folder,
    )
    check_options(definition)
    return definition


def _mode(top: Section, sink_format: str, transforms: bool) -> str:
    """Direct where it can be: records that no query looks at need not pass through the JVM."""
    can_be_direct = sink_format == "highwater-table" and not transforms
    mode = top.choice("mode", MODES, "direct" if can_be_direct else "connector")
    if mode == "direct" and not can_be_direct:
        why = "a transform needs the rows in Spark" if transforms else "a topic is written from rows in Spark"
        raise Mistake(("mode",), f"is 'direct', but {why}: use connector")
    return mode


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


def _metrics(section: Section) -> dict[str, Any]:
    address = section.text("address")
    try:
        ip_address(address or LOOPBACK)
    except ValueError:
        raise Mistake((*section.place, "address"), f"is {address!r}: expected an IP address, such as 0.0.0.0") from None
    return {"metrics_port": section.number("port", 1, 65535), "metrics_address": address or LOOPBACK}


def _spark(section: Section) -> dict[str, Any]:
    return {"master": section.text("master"), "conf": section.settings("conf")}
