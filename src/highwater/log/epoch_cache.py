"""Which leader epoch began at which offset: what truncation is decided by (KIP-101, KIP-279). Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from highwater.model import Epoch, Offset

UNDEFINED = (-1, -1)


class EpochCache:
    """Entries (epoch, first offset), both strictly rising by epoch and rising by offset."""

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
        """-1 where no epoch is known."""
        return self._epochs[-1] if self._epochs else -1

    def assign(self, epoch: Epoch, start: Offset) -> bool:
        """Record that `epoch` begins at `start`; entries that contradict it go. True if anything changed.

        A leader assigns on election, with nothing appended yet (KAFKA-7415).
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
        """A batch of `epoch` lies at `offset`: a later epoch cannot have begun before it. True if anything changed.

        A leader that starts again with less than it had assigns its epoch too early, and learns better as a follower.
        """
        before = len(self._epochs)
        while self._epochs and self._epochs[-1] > epoch:
            self._epochs.pop()
            self._starts.pop()
        return (epoch >= 0 and self.assign(epoch, offset)) or len(self._epochs) != before

    def end_of(self, epoch: Epoch, log_end: Offset) -> tuple[Epoch, Offset]:
        """The largest epoch not above `epoch`, and where it ends. (-1, -1) where that cannot be told."""
        if epoch < 0 or not self._epochs or epoch > self._epochs[-1]:
            return UNDEFINED
        if epoch == self._epochs[-1]:
            return epoch, log_end
        after = bisect_right(self._epochs, epoch)
        if after == 0:
            return epoch, self._starts[0]
        return self._epochs[after - 1], self._starts[after]

    def epoch_at(self, offset: Offset) -> Epoch:
        """The epoch of the record at `offset`, -1 where it is older than all entries."""
        at = bisect_right(self._starts, offset)
        return self._epochs[at - 1] if at else -1

    def truncate_end(self, end: Offset) -> bool:
        """Forget epochs that begin at or after `end`: also where the log itself lost nothing (KAFKA-10706)."""
        before = len(self._epochs)
        while self._starts and self._starts[-1] >= end:
            self._epochs.pop()
            self._starts.pop()
        return len(self._epochs) != before

    def truncate_start(self, start: Offset) -> bool:
        """Forget epochs that end at or before `start`; the one that spans it now begins there."""
        at = bisect_right(self._starts, start)
        if at == 0 or (at == 1 and self._starts[0] == start):
            return False
        del self._epochs[: at - 1], self._starts[: at - 1]
        self._starts[0] = start
        return True

    def clear(self) -> None:
        self._epochs.clear()
        self._starts.clear()
