"""Offset ranges: what one micro-batch has to read, cut into what one task reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

NO_EPOCH = -1


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Offsets [start, end) of one partition of one life of a topic. Travels to the executors, so it must pickle.

    `topic_id` distinguishes a re-created topic from the one that was planned; "" where the cluster has no topic ids.
    `leader_epoch` is the epoch of the record before `start` as far as known, else NO_EPOCH: a log that was cut and
    written anew below `start` answers it with divergence. `end_epoch` is the same for `end`. `cut`: the log was cut
    back to `start`, behind what had been read, and the reader may go on from there.
    """

    topic: str
    topic_id: str
    partition: int
    start: int
    end: int
    leader_epoch: int = NO_EPOCH
    end_epoch: int = NO_EPOCH
    cut: bool = False

    @property
    def size(self) -> int:
        return self.end - self.start


class Skipped(NamedTuple):
    """Offsets [begin, end) of one life of a partition that a person has decided to pass over."""

    topic: str
    topic_id: str
    partition: int
    begin: int
    end: int

    def is_of(self, range_: OffsetRange) -> bool:
        same_life = "" in (self.topic_id, range_.topic_id) or self.topic_id == range_.topic_id
        return same_life and (self.topic, self.partition) == (range_.topic, range_.partition)


def left(start: int, end: int, holes: Iterable[Skipped]) -> Iterator[tuple[int, int]]:
    """What of [start, end) lies in no hole, in order."""
    for hole in sorted(holes, key=lambda each: each.begin):
        if hole.begin > start:
            yield start, min(hole.begin, end)
        start = max(start, hole.end)
        if start >= end:
            return
    if start < end:
        yield start, end
