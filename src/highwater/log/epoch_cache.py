"""The first offset of each leader epoch. Truncation is decided by it (KIP-101, KIP-279). Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from highwater.model import Epoch, Offset

UNDEFINED = (-1, -1)


class EpochCache:
    """Entries (epoch, first offset). Both rise strictly."""

    def __init__(self, entries: Iterable[tuple[Epoch, Offset]] = ()) -> None:
        self._epochs: list[Epoch] = []
        self._starts: list[Offset] = []
        for epoch, start in entries:
            self.assign(epoch, start)

    @property
    def entries(self) -> list[tuple[Epoch, Offset]]:
        return list(zip(self._epochs, self._starts, strict=True))

    @property
    def latest(self) -> Epoch:
        """The latest epoch; -1 if none is known."""
        return self._epochs[-1] if self._epochs else -1

    def assign(self, epoch: Epoch, start: Offset) -> bool:
        """`epoch` begins at `start`. Entries that contradict this are removed. True if anything changed.

        A leader assigns its epoch when it is elected, before it appends anything (KAFKA-7415).
        """
        if epoch < 0 or start < 0:
            raise ValueError(f"epoch {epoch} at {start}")
        if self._epochs and epoch == self._epochs[-1] and start >= self._starts[-1]:
            return False
        while self._epochs and (self._epochs[-1] >= epoch or self._starts[-1] >= start):
            self._epochs.pop()
            self._starts.pop()
        self._epochs.append(epoch)
        self._starts.append(start)
        return True

    def follow(self, epoch: Epoch, offset: Offset) -> bool:
        """A batch of `epoch` is at `offset`, so no later epoch has begun before it. True if anything changed.

        A leader that restarted with fewer records than before may have assigned its epoch to a too small offset. As a
        follower it corrects that here.
        """
        before = len(self._epochs)
        while self._epochs and self._epochs[-1] > epoch:
            self._epochs.pop()
            self._starts.pop()
        return (epoch >= 0 and self.assign(epoch, offset)) or len(self._epochs) != before

    def end_of(self, epoch: Epoch, log_end: Offset) -> tuple[Epoch, Offset]:
        """The largest epoch that is not above `epoch`, and its end. (-1, -1) if that is unknown."""
        if epoch < 0 or not self._epochs or epoch > self._epochs[-1]:
            return UNDEFINED
        if epoch == self._epochs[-1]:
            return epoch, log_end
        after = bisect_right(self._epochs, epoch)
        if after == 0:
            return epoch, self._starts[0]
        return self._epochs[after - 1], self._starts[after]

    def epoch_at(self, offset: Offset) -> Epoch:
        """The epoch of the record at `offset`; -1 if the record is older than all entries."""
        at = bisect_right(self._starts, offset)
        return self._epochs[at - 1] if at else -1

    def truncate_end(self, end: Offset) -> bool:
        """Forgets epochs that begin at or after `end`, even if the log itself lost nothing (KAFKA-10706)."""
        before = len(self._epochs)
        while self._starts and self._starts[-1] >= end:
            self._epochs.pop()
            self._starts.pop()
        return len(self._epochs) != before

    def truncate_start(self, start: Offset) -> bool:
        """Forgets epochs that end at or before `start`. The epoch that contains `start` now begins there."""
        at = bisect_right(self._starts, start)
        if at == 0 or (at == 1 and self._starts[0] == start):
            return False
        del self._epochs[: at - 1], self._starts[: at - 1]
        self._starts[0] = start
        return True

    def clear(self) -> None:
        self._epochs.clear()
        self._starts.clear()
