"""The metadata image of everything that is committed, and the batches of the log that are not applied yet."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from highwater.metadata.changes import NOTHING, Changes
from highwater.metadata.cluster import MetadataImage, difference
from highwater.metadata.pieces import Pieces
from highwater.metadata.replay import applying
from highwater.model import Offset
from highwater.raft_node.committed_batch import CommittedBatch


class Committed(NamedTuple):
    changes: Changes
    last: CommittedBatch
    size: int


class Replay:
    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self._pending: deque[CommittedBatch] = deque()
        """Batches in the log that are not applied yet, oldest first."""

    @property
    def is_behind(self) -> bool:
        """Whether the log has batches that are not applied."""
        return bool(self._pending)

    def extend(self, batches: Iterable[CommittedBatch]) -> None:
        """The batches were appended to the log."""
        self._pending.extend(batches)

    def cut(self, end: Offset) -> None:
        """The log was cut to `end`."""
        while self._pending and self._pending[-1].last_offset >= end:
            self._pending.pop()

    def begin_with(self, image: MetadataImage) -> Changes:
        """A snapshot replaces the log. Returns what it changes."""
        self._pending.clear()
        before, self.image = self.image, image
        return difference(before, image)

    def commit(self, high_watermark: Offset) -> Pieces[Committed | None]:
        """Applies every whole batch below the high watermark, in one step. None if there was none."""
        changes, size, last, image = NOTHING, 0, None, self.image
        while self._pending and self._pending[0].last_offset < high_watermark:
            last = self._pending[0]
            size += last.size
            if last.records:
                image, changed = yield from applying(image, last.records, last.last_offset, last.epoch)
                changes = changes.then(changed)
            self._pending.popleft()
        self.image = image
        return None if last is None else Committed(changes, last, size)
