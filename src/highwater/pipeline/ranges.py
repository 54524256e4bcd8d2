"""Offset ranges: what one micro-batch has to read, cut into what one task reads."""

from __future__ import annotations

from dataclasses import dataclass

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
