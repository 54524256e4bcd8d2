"""What a table must have: which offsets its position covers, and which of them the topic still has."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from highwater.model import TopicPartition
from highwater.pipeline.landing.position import Log, Position
from highwater.pipeline.ranges import Skipped, left


class Segment(NamedTuple):
    """Offsets [begin, end) of a partition."""

    topic: str
    partition: int
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Present:
    """What the cluster has of a partition now."""

    topic_id: str
    first: int
    end: int
    is_compacted: bool


@dataclass(frozen=True, slots=True)
class Scope:
    covered: dict[Segment, int]
    """Disjoint: all that the positions of the table cover, and how often a record of it may be there."""
    compared: dict[Segment, bool]
    """Disjoint: what of the pipeline's position the topic still has, and whether each row of it must have a record."""
    skipped: tuple[Skipped, ...]
    notes: tuple[str, ...]
    """What cannot be compared, and why."""


def scope(position: Position, positions: Iterable[Position], present: Mapping[TopicPartition, Present]) -> Scope:
    covers = [
        Segment(log.topic, log.partition, interval.begin, interval.end)
        for each in positions
        for log, intervals in each.at.items()
        for interval in intervals
    ]
    skipped = tuple(
        Skipped(*log, skip.begin, skip.end) for log, skips in sorted(position.skipped.items()) for skip in skips
    )
    compared: dict[Segment, bool] = {}
    notes: list[str] = []
    lives = Counter((log.topic, log.partition) for each in positions for log in each.at)
    for log, intervals in sorted(position.at.items()):
        now = present.get(TopicPartition(log.topic, log.partition))
        if now is None or (log.topic_id and now.topic_id and log.topic_id != now.topic_id):
            became = "is gone" if now is None else "was deleted and created again"
            notes.append(
                f"{log} {became} since it was landed (topic id {log.topic_id or 'unknown'}): it is not compared"
            )
            continue
        is_whole = not now.is_compacted and lives[log.topic, log.partition] == 1
        for interval in intervals:
            notes += _unreadable(log, interval.begin, interval.end, now)
            holes = [hole for hole in skipped if (hole.topic, hole.partition) == (log.topic, log.partition)]
            for begin, end in left(max(interval.begin, now.first), min(interval.end, now.end), holes):
                compared[Segment(log.topic, log.partition, begin, end)] = is_whole
        if now.is_compacted:
            notes.append(f"{log} is compacted: a row whose record is gone from it is not foreign")
    return Scope(dict(times(covers)), compared, skipped, tuple(notes))


def _unreadable(log: Log, begin: int, end: int, now: Present) -> Iterator[str]:
    if begin < now.first:
        yield f"{log} begins at {now.first} now: the offsets {begin} to {min(end, now.first)} are not compared"
    if end > now.end:
        yield f"{log} ends at {now.end}, and the table has it to {end}: the log was cut back"


def times(covers: Iterable[Segment]) -> Iterator[tuple[Segment, int]]:
    """Disjoint segments, and how many of `covers` each lies in."""
    steps: dict[tuple[str, int], Counter[int]] = defaultdict(Counter)
    for cover in covers:
        if cover.begin < cover.end:
            steps[cover[:2]][cover.begin] += 1
            steps[cover[:2]][cover.end] -= 1
    for (topic, partition), changes in sorted(steps.items()):
        depth, since = 0, 0
        for at in sorted(changes):
            if depth:
                yield Segment(topic, partition, since, at), depth
            depth, since = depth + changes[at], at
