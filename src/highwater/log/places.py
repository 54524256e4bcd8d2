"""A cache of batch positions: of the newest batches, and of those that a job has looked up on disk."""

from __future__ import annotations

from typing import NamedTuple

from highwater.model import Offset

RECENT_BATCHES = 512
LOCATED_PLACES = 256


class Place(NamedTuple):
    """The position of a batch: the base offset of its segment, its position there, and its size."""

    segment: Offset
    position: int
    size: int


class Generation:
    """Valid until the log is truncated. File slices that were handed out depend on it."""

    __slots__ = ("valid",)

    def __init__(self) -> None:
        self.valid = True

    def __call__(self) -> bool:
        return self.valid


class Places:
    """Positions by requested offset, limited in number. A position is valid until the log is cut or its segment
    removed."""

    def __init__(self) -> None:
        self._recent: dict[Offset, Place] = {}
        """The newest batches, by base offset: most readers are at the end of the log."""
        self._located: dict[Offset, Place] = {}

    def get(self, offset: Offset) -> Place | None:
        return self._recent.get(offset) or self._located.get(offset)

    def written(self, base_offset: Offset, place: Place) -> None:
        recent = self._recent
        recent[base_offset] = place
        if len(recent) > RECENT_BATCHES:
            for oldest in list(recent)[: RECENT_BATCHES // 2]:
                del recent[oldest]

    def located(self, offset: Offset, place: Place) -> None:
        while len(self._located) >= LOCATED_PLACES:
            del self._located[next(iter(self._located))]
        self._located[offset] = place

    def clear(self) -> None:
        self._recent.clear()
        self._located.clear()
