"""The log of one replica as a strip of characters, on a scale that all lanes of a frame share. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from rich.text import Text

from highwater.lab.frame import Lane
from highwater.lab.history import leader_of, parts_at

COMMITTED = "green"
UNCOMMITTED = "yellow"
DIVERGING = "bold red"
WATERMARK = "bold cyan"
EPOCH = "magenta"
DIM = "dim"


class _Look(NamedTuple):
    """How records of one kind are drawn: around a number, as a bar, and in which style."""

    opens: str
    closes: str
    bar: str
    style: str


_DELETED = _Look(" ", " ", "·", DIM)
_ABSENT = _Look(" ", " ", " ", "")
_COMMITTED = _Look("[", "]", "█", COMMITTED)
_UNCOMMITTED = _Look("(", ")", "░", UNCOMMITTED)
_DIVERGING = _Look("{", "}", "x", DIVERGING)


class Scale:
    """The columns of each offset, the same in all lanes.

    With few records every one has a cell with its number: `[3]` below the high watermark, `(4)` above it, `{4}` where
    the leader has another record or none. With many, one character is several records: `█`, `░` and `x`. The high
    watermarks and the names of epochs have columns of their own, so that nothing lies upon anything.
    """

    def __init__(self, lanes: Sequence[Lane], width: int) -> None:
        leader = leader_of(lanes)
        self._parts = {lane: place for lane in lanes if (place := parts_at(lane, leader)) is not None}
        self.first = min((lane.log_start for lane in lanes), default=0)
        self.end = max((max(lane.log_end, lane.high_watermark) for lane in lanes), default=0)
        self._names = {start: max(len(_name(epoch)) for lane in lanes for epoch, at in lane.epochs if at == start)
                       for lane in lanes for _, start in lane.epochs if lane.log_start <= start}  # fmt: skip
        self._marks = {lane.high_watermark for lane in lanes}
        self._digits = len(str(max(self.end - 1, 0)))
        cells = (self.end - self.first) * (self._digits + 2)
        self.has_cells = cells + sum(self._names.values()) + len(self._marks) <= width
        self._pieces = self._single() if self.has_cells else self._many(lanes, width)

    def _single(self) -> list[tuple[int, int]]:
        return [(offset, self._digits + 2) for offset in range(self.first, self.end)]

    def _many(self, lanes: Sequence[Lane], width: int) -> list[tuple[int, int]]:
        """(first offset, columns) of pieces inside which each lane looks the same."""
        places = {self.first, self.end, *self._marks, *self._names, *self._parts.values()}
        places |= {place for lane in lanes for place in (lane.log_start, lane.log_end)}
        spans = list(pairwise(sorted(place for place in places if self.first <= place <= self.end)))
        if len(self._marks) + sum(self._names.values()) + len(spans) > width:
            self._names = {}
        room = max(len(spans), width - len(self._marks) - sum(self._names.values()))
        each = 1
        while sum(-(-(stop - start) // each) for start, stop in spans) > room:
            each += 1 + each // 16
        return [(start, -(-(stop - start) // each)) for start, stop in spans]

    def parts_at(self, lane: Lane) -> int | None:
        return self._parts.get(lane)

    def strip(self, lane: Lane) -> Text:
        text = Text(no_wrap=True)
        named = {start: _name(epoch) for epoch, start in lane.epochs}
        for offset, columns in [*self._pieces, (self.end, 0)]:
            if offset in self._marks:
                text.append("┃" if offset == lane.high_watermark else " ", WATERMARK)
            if offset in self._names:
                shown = named.get(offset, "") if lane.log_start <= offset <= lane.log_end else ""
                text.append(shown.rjust(self._names[offset]), EPOCH)
            if columns:
                text.append_text(self._piece(self._look(lane, offset), offset, columns))
        text.rstrip()
        return text

    def _look(self, lane: Lane, offset: int) -> _Look:
        if offset < lane.log_start:
            return _DELETED
        if offset >= lane.log_end:
            return _ABSENT
        if offset >= self._parts.get(lane, lane.log_end):
            return _DIVERGING
        return _COMMITTED if offset < lane.high_watermark else _UNCOMMITTED

    def _piece(self, look: _Look, offset: int, columns: int) -> Text:
        if not self.has_cells:
            return Text(look.bar * columns, look.style)
        if look in (_DELETED, _ABSENT):
            return Text(look.opens + look.bar * self._digits + look.closes, look.style)
        return Text(look.opens + str(offset).rjust(self._digits) + look.closes, look.style)


def _name(epoch: int) -> str:
    return f"e{epoch}"
