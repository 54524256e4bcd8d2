"""The options of the reader: those of Spark's Kafka connector and a few of our own, checked before anything runs."""

from __future__ import annotations

import difflib
import json
import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from highwater.client.client import parse_bootstrap_servers
from highwater.client.security import SETTINGS as SECURITY_SETTINGS
from highwater.client.security import Security
from highwater.model import TopicPartition
from highwater.pipeline.decode.decoding import OPTIONS as DECODE_OPTIONS
from highwater.pipeline.offsets import Position, TableEnd
from highwater.pipeline.ranges import Skipped
from highwater.pipeline.reading import Reading
from highwater.pipeline.secrecy import PREFIX, may_be_secret, security_of
from highwater.pipeline.selection import (
    EARLIEST,
    LATEST,
    AtOffsets,
    AtTime,
    AtTimes,
    BadOption,
    Bound,
    Everywhere,
    Selection,
    parse_assign,
    parse_offsets,
    parse_pattern,
    parse_subscribe,
    parse_times,
)

_log = logging.getLogger(__name__)

_SELECTIONS: dict[str, Callable[[str], Selection]] = {
    "assign": parse_assign,
    "subscribe": parse_subscribe,
    "subscribePattern": parse_pattern,
}
_STARTING = ("startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets")
_ENDING = ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")
_PER_TRIGGER = ("minOffsetsPerTrigger", "maxOffsetsPerTrigger", "maxBytesPerTrigger", "maxTriggerDelay")
KNOWN = (
    *_SELECTIONS,
    *_STARTING,
    *_ENDING,
    *_PER_TRIGGER,
    "startingOffsetsByTimestampStrategy",
    "minPartitions",
    "maxRecordsPerPartition",
    "failOnDataLoss",
    "includeHeaders",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "groupIdPrefix",
    "emit",
    "resumeFrom",
    "skipped",
    *DECODE_OPTIONS,
    "kafka.bootstrap.servers",
    "kafka.check.crcs",
    "kafka.client.id",
    "kafka.default.api.timeout.ms",
    "kafka.fetch.max.bytes",
    "kafka.fetch.max.wait.ms",
    "kafka.fetch.min.bytes",
    "kafka.group.id",
    "kafka.isolation.level",
    "kafka.max.partition.fetch.bytes",
    "kafka.request.timeout.ms",
    *(f"{PREFIX}{name}" for name in SECURITY_SETTINGS),
)
_REFUSED = {
    "topic": "it says where rows are written; subscribe names the topics to read",
    "kafka.auto.offset.reset": "say with startingOffsets where a new query begins; a running one goes on where it was",
    "kafka.key.deserializer": "keys come as bytes; decode them with DataFrame operations",
    "kafka.value.deserializer": "values come as bytes; decode them with DataFrame operations, or with decode=json",
    "kafka.enable.auto.commit": "progress is Spark's; it is committed after each batch where kafka.group.id is given",
    "kafka.interceptor.classes": "there are no Java classes to call",
}
_UNITS = {"us": 1e-6, "ms": 1e-3, "": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


@dataclass(frozen=True)
class SourceOptions:
    selection: Selection
    starting: Bound
    ending: Bound
    """Of a batch; a stream has no end."""
    latest_if_no_match: bool
    min_offsets: int | None
    max_offsets: int | None
    max_bytes: int | None
    max_delay: float
    min_partitions: int | None
    max_records: int | None
    include_headers: bool
    emit_ranges: bool
    group_id: str | None
    offset_attempts: int
    offset_retry_seconds: float
    api_timeout: float
    reading: Reading
    table_ends: tuple[TableEnd, ...] = ()
    """Where a stream without a checkpoint goes on, before `starting` is asked."""

    @classmethod
    def parse(cls, options: Mapping[str, str], *, streaming: bool) -> SourceOptions:
        """Names count in any case, as everywhere in Spark. Raises BadOption."""
        given = _Given(options)
        given.check_names()
        starting = _bound(given, _STARTING, Everywhere.LATEST if streaming else Everywhere.EARLIEST)
        ending = _bound(given, _ENDING, Everywhere.LATEST)
        if streaming:
            _check_stream(given)
        else:
            _check_batch(given, starting, ending)
        group_id = given.text("kafka.group.id")
        if starting is Everywhere.GROUP and not group_id:
            raise BadOption("option startingOffsets is 'group', which needs kafka.group.id to say of which group")
        smallest, largest = given.number("minOffsetsPerTrigger", 1), given.number("maxOffsetsPerTrigger", 1)
        if smallest is not None and largest is not None and smallest > largest:
            raise BadOption(f"minOffsetsPerTrigger is {smallest}, more than maxOffsetsPerTrigger, which is {largest}")
        return cls(
            selection=_selection(given),
            starting=starting,
            ending=ending,
            latest_if_no_match=given.choice("startingOffsetsByTimestampStrategy", ("error", "latest")) == "latest",
            min_offsets=smallest,
            max_offsets=largest,
            max_bytes=given.number("maxBytesPerTrigger", 1),
            max_delay=given.duration("maxTriggerDelay", "15m"),
            min_partitions=given.number("minPartitions", 1),
            max_records=given.number("maxRecordsPerPartition", 1),
            include_headers=includes_headers(options),
            emit_ranges=given.choice("emit", ("rows", "ranges")) == "ranges",
            group_id=group_id,
            offset_attempts=given.number("fetchOffset.numRetries", 1, 3),
            offset_retry_seconds=given.number("fetchOffset.retryIntervalMs", 0, 1000) / 1000,
            api_timeout=given.number("kafka.default.api.timeout.ms", 1, 60_000) / 1000,
            reading=_reading(given),
            table_ends=_table_ends(given),
        )


def includes_headers(options: Mapping[str, str]) -> bool:
    """Asked before all the rest: the schema follows from it. Raises BadOption."""
    return _Given(options).flag("includeHeaders", False)


class _Given:
    """The options by their proper names."""

    def __init__(self, options: Mapping[str, str]) -> None:
        proper = {name.lower(): name for name in (*KNOWN, *_REFUSED)}
        self._values = {proper.get(name.lower(), name): value for name, value in options.items()}

    def check_names(self) -> None:
        for name, value in self._values.items():
            if name in _REFUSED:
                raise BadOption(f"option {name} (given: {value!r}) is not supported: {_REFUSED[name]}")
            if name not in KNOWN:
                said = "" if may_be_secret(name) else f" (given: {value!r})"
                raise BadOption(f"option {name}{said} is not known{_nearest(name)}")

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def text(self, name: str) -> str | None:
        return self._values.get(name)

    def security(self) -> Security:
        try:
            return security_of(self._values)
        except ValueError as error:
            raise BadOption(f"option {error}") from None

    def choice(self, name: str, allowed: tuple[str, ...]) -> str:
        """One of `allowed`, the first by default."""
        value = self._values.get(name, allowed[0])
        if value.strip().lower() not in allowed:
            raise BadOption(f"option {name} is {value!r}: expected {' or '.join(allowed)}")
        return value.strip().lower()

    def flag(self, name: str, default: bool) -> bool:
        return self.choice(name, ("true", "false") if default else ("false", "true")) == "true"

    def number(self, name: str, at_least: int, default: int | None = None) -> Any:
        value = self._values.get(name)
        if value is None:
            return default
        if not re.fullmatch(r"\s*[+-]?\d{1,18}\s*", value, re.ASCII) or int(value) < at_least:
            raise BadOption(f"option {name} is {value!r}: expected a whole number of at least {at_least}")
        return int(value)

    def duration(self, name: str, default: str) -> float:
        """In seconds; a number without a unit is one of milliseconds."""
        value = self._values.get(name, default)
        parsed = re.fullmatch(r"\s*(\d{1,18})\s*([a-z]*)\s*", value.lower(), re.ASCII)
        if parsed is None or parsed[2] not in _UNITS:
            raise BadOption(f"option {name} is {value!r}: expected e.g. 500ms, 30s, 15m, 1h")
        return int(parsed[1]) * _UNITS[parsed[2]]


def _nearest(name: str) -> str:
    proper = {each.lower(): each for each in KNOWN}
    found = difflib.get_close_matches(name.lower(), proper, 1, cutoff=0.8)
    if found:
        return f"; did you mean {proper[found[0]]}?"
    if name.lower().startswith("kafka."):
        return f"; of Kafka's settings there are {', '.join(each for each in KNOWN if each.startswith(PREFIX))}"
    return ""


def _selection(given: _Given) -> Selection:
    named = [name for name in _SELECTIONS if name in given]
    if len(named) != 1:
        which = f"given: {', '.join(named)}" if named else "none is given"
        raise BadOption(f"exactly one of the options {', '.join(_SELECTIONS)} says what to read; {which}")
    return _SELECTIONS[named[0]](given.text(named[0]) or "")


def _bound(given: _Given, names: tuple[str, str, str], default: Everywhere) -> Bound:
    """The first of the three that is given, as Spark's connector has it: a time, times, offsets."""
    time, times, offsets = names
    if time in given:
        return AtTime(given.number(time, 0, 0))
    if (value := given.text(times)) is not None:
        return parse_times(times, value)
    value = given.text(offsets)
    if value is None:
        return default
    word = value.strip().lower()
    if word in ("earliest", "latest") or (word == "group" and names is _STARTING):
        return Everywhere(word)
    return parse_offsets(offsets, value)


def _table_ends(given: _Given) -> tuple[TableEnd, ...]:
    try:
        ends = json.loads(given.text("resumeFrom") or "[]")
        return tuple(TableEnd(topic, id_, partition, Position(*at)) for topic, id_, partition, at in ends)
    except (TypeError, ValueError) as error:
        raise BadOption(f"option resumeFrom is no position of a table: {error}") from error


def _skipped(given: _Given) -> tuple[Skipped, ...]:
    try:
        return tuple(Skipped(*each) for each in json.loads(given.text("skipped") or "[]"))
    except (TypeError, ValueError) as error:
        raise BadOption(f"option skipped is no list of what a table passes over: {error}") from error


def _check_stream(given: _Given) -> None:
    for name in _ENDING:
        if name in given:
            raise BadOption(
                f"option {name} (given: {given.text(name)!r}) is not for streaming queries: they do not end"
            )


def _check_batch(given: _Given, starting: Bound, ending: Bound) -> None:
    if starting is Everywhere.LATEST:
        raise BadOption("option startingOffsets is 'latest', with which a batch query would read nothing")
    if ending is Everywhere.EARLIEST:
        raise BadOption("option endingOffsets is 'earliest', with which a batch query would read nothing")
    for name, bound, word, number in (
        ("startingOffsets", starting, "latest", LATEST),
        ("endingOffsets", ending, "earliest", EARLIEST),
    ):
        if isinstance(bound, AtOffsets):
            for partition, offset in bound.by_partition.items():
                if offset == number:
                    raise BadOption(f"option {name} has {number} ({word}) for {partition}: not in a batch query")
    for kind in (AtOffsets, AtTimes):
        if isinstance(starting, kind) and isinstance(ending, kind):
            _check_order(starting.by_partition, ending.by_partition)
    for name in _PER_TRIGGER:
        if name in given:
            _log.warning("option %s has no effect on a batch query, which has no triggers", name)


def _check_order(starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> None:
    if starts.keys() != ends.keys():
        odd = ", ".join(map(str, sorted(starts.keys() ^ ends.keys())))
        raise BadOption(f"the starting and the ending bounds must name the same partitions; only one names {odd}")
    for partition, start in starts.items():
        if 0 <= ends[partition] < start:
            raise BadOption(f"{partition} is to be read from {start} to {ends[partition]}, which lies before it")


def _reading(given: _Given) -> Reading:
    servers = given.text("kafka.bootstrap.servers")
    if servers is None:
        raise BadOption("option kafka.bootstrap.servers is missing: it says where the cluster is, e.g. host:9092")
    try:
        parse_bootstrap_servers(servers)
    except ValueError as error:
        raise BadOption(f"option kafka.bootstrap.servers is {servers!r}: {error}") from error
    isolation = given.choice("kafka.isolation.level", ("read_uncommitted", "read_committed"))
    usual = Reading(servers)
    return Reading(
        bootstrap_servers=servers,
        read_committed=isolation == "read_committed",
        fail_on_data_loss=given.flag("failOnDataLoss", True),
        deadline_seconds=given.number("kafkaConsumer.pollTimeoutMs", 1, 120_000) / 1000,
        client_id=given.text("kafka.client.id") or given.text("groupIdPrefix") or usual.client_id,
        max_partition_bytes=given.number("kafka.max.partition.fetch.bytes", 1, usual.max_partition_bytes),
        max_bytes=given.number("kafka.fetch.max.bytes", 1, usual.max_bytes),
        min_bytes=given.number("kafka.fetch.min.bytes", 0, usual.min_bytes),
        max_wait_seconds=given.number("kafka.fetch.max.wait.ms", 0, 500) / 1000,
        request_timeout_seconds=given.number("kafka.request.timeout.ms", 1, 30_000) / 1000,
        check_crcs=given.flag("kafka.check.crcs", True),
        security=given.security(),
        skipped=_skipped(given),
    )
