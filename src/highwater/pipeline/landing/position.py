"""A table's position: which offsets of which topics it has, kept by the table itself in the commits that bring rows.

It is the table's alone: a checkpoint may be lost, copied or put back, and the table still knows what it has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from typing import Any, NamedTuple

from highwater.pipeline.offsets import Position as Offset
from highwater.pipeline.offsets import Positions
from highwater.pipeline.ranges import NO_EPOCH, OffsetRange

VERSION = 1
_BEGINNING = Offset(0)


class Log(NamedTuple):
    """One life of a partition: a topic that is created again under its name has another id."""

    topic: str
    topic_id: str
    """"" where the cluster has no topic ids."""
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Interval(NamedTuple):
    """Offsets [begin, end) that the table has; `epoch` as known of the record before `end`, else NO_EPOCH."""

    begin: int
    end: int
    epoch: int = NO_EPOCH


class Reach(NamedTuple):
    """Offsets [start, end) of a log that a batch brings."""

    log: Log
    start: int
    end: int
    epoch: int = NO_EPOCH
    """Of the record before `end`."""
    epoch_before: int = NO_EPOCH
    """Of the record before `start`; where the log was cut, of what was read beyond the cut."""
    is_cut: bool = False
    """The log was cut back to `start` and written anew, and the reader may go on: what was read beyond is of no log."""


class Skip(NamedTuple):
    """Offsets [begin, end) that a person has decided not to land."""

    begin: int
    end: int
    reason: str


class Lost(NamedTuple):
    """Offsets [begin, end) that were gone before they could be landed, where the pipeline may go on all the same."""

    begin: int
    end: int
    reason: str


@dataclass(frozen=True)
class Position:
    seq: int = 0
    """One more with every commit."""
    drivers: Mapping[str, int] = field(default_factory=dict)
    """By the id of Spark's query, which a checkpoint has for life: one more with each that began without one."""
    at: Mapping[Log, tuple[Interval, ...]] = field(default_factory=dict)
    """In order; one interval for a log from which nothing was left out."""
    skipped: Mapping[Log, tuple[Skip, ...]] = field(default_factory=dict)
    """Within those intervals or still before them: offsets whose records are not in the table."""
    lost: Mapping[Log, tuple[Lost, ...]] = field(default_factory=dict)
    """The same, of records that nobody has any more."""

    @property
    def driver(self) -> int:
        return max(self.drivers.values(), default=0)

    def to_json(self) -> dict[str, Any]:
        logs = [[*log, [list(interval) for interval in intervals]] for log, intervals in sorted(self.at.items())]
        stored = {"version": VERSION, "seq": self.seq, "drivers": dict(self.drivers), "logs": logs}
        if self.skipped:
            stored["skipped"] = [[*log, [list(skip) for skip in skips]] for log, skips in sorted(self.skipped.items())]
        if self.lost:
            stored["lost"] = [[*log, [list(each) for each in lost]] for log, lost in sorted(self.lost.items())]
        return stored

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Position:
        """Raises ValueError for a form of a later version."""
        if stored["version"] != VERSION:
            raise ValueError(f"a position of version {stored['version']}, of which only {VERSION} is known")
        at = {
            Log(topic, topic_id, partition): tuple(Interval(*each) for each in intervals)
            for topic, topic_id, partition, intervals in stored["logs"]
        }
        skipped = {
            Log(topic, topic_id, partition): tuple(Skip(*each) for each in skips)
            for topic, topic_id, partition, skips in stored.get("skipped", [])
        }
        lost = {
            Log(topic, topic_id, partition): tuple(Lost(*each) for each in found)
            for topic, topic_id, partition, found in stored.get("lost", [])
        }
        return cls(stored["seq"], stored["drivers"], at, skipped, lost)


def reaches(ranges: Iterable[OffsetRange]) -> tuple[Reach, ...]:
    """What tasks have read, by log. A range that was cut up for several tasks is whole again; a part that is missing
    raises ValueError."""
    found = []
    for log, group in groupby(sorted(ranges, key=_by_log), key=lambda each: Log(*_by_log(each)[:3])):
        parts = list(group)
        first, last = parts[0], parts[-1]
        if any(after.start != before.end for before, after in pairwise(parts)):
            raise ValueError(f"the offsets {first.start} to {last.end} of {log} were planned, and not all were read")
        is_cut = any(part.cut for part in parts)
        found.append(Reach(log, first.start, last.end, last.end_epoch, first.leader_epoch, is_cut))
    return tuple(found)


def log_of(range_: OffsetRange) -> Log:
    return Log(range_.topic, range_.topic_id, range_.partition)


def _by_log(range_: OffsetRange) -> tuple[str, str, int, int]:
    return range_.topic, range_.topic_id, range_.partition, range_.start


def between(before: Positions | None, after: Positions) -> tuple[Reach, ...]:
    """What a batch of a source has read, by the offsets that Spark keeps of its end and of the one before."""
    if before is None and after.topic_ids:
        return ()  # our first batch only says where to begin
    known = before or Positions({}, {})
    found = []
    for partition, (end, epoch) in sorted(after.at.items()):
        log = Log(partition.topic, after.topic_id(partition.topic), partition.partition)
        was = known.topic_id(partition.topic)
        is_same = not was or not log.topic_id or was == log.topic_id
        # What was not read before is read from its beginning.
        start, epoch_before = known.at.get(partition, _BEGINNING) if is_same else _BEGINNING
        if end < start:
            found.append(Reach(log, end, end, epoch, epoch_before, is_cut=True))
        elif end > start:
            found.append(Reach(log, start, end, epoch, epoch_before))
    return tuple(found)
