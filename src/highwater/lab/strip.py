"""The log of one replica as a strip of characters, on a scale that all lanes of a frame share. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from highwater.lab.frame import Lane

COMMITTED = "green"
UNCOMMITTED = "yellow"
WATERMARK = "bold cyan"
EPOCH = "magenta"
DIM = "dim"


class Scale:
    """The columns of each offset. With few records every one has a cell with its number, `[3]` below the high watermark
    and `(4)` above it; an epoch's first cell has its name before it. With many, one character is several records."""

    def __init__(self, lanes: Sequence[Lane], width: int) -> None:
        self.first = min((lane.log_start for lane in lanes), default=0)
        self.end = max((max(lane.log_end, lane.high_watermark) for lane in lanes), default=0)
        starts = {start for lane in lanes for _, start in lane.epochs if lane.log_start <= start}
        self._names = {start: max(len(_name(epoch)) for lane in lanes for epoch, at in lane.epochs if at == start)
                       for start in starts}  # fmt: skip
        self._marks = {lane.high_watermark for lane in lanes}
        self._digits = len(str(max(self.end - 1, 0)))
        cells = (self.end - self.first) * (self._digits + 2)
        self.has_cells = cells + sum(self._names.values()) + len(self._marks) <= width
        self._each = max(1, -(-(self.end - self.first) // max(width - 2, 1)))

    def strip(self, lane: Lane) -> Text:
        return self._cells(lane) if self.has_cells else self._bar(lane)

    def _cells(self, lane: Lane) -> Text:
        text = Text(no_wrap=True)
        named = {start: _name(epoch) for epoch, start in lane.epochs}
        for offset in range(self.first, self.end + 1):
            if offset in self._marks:
                text.append("┃" if offset == lane.high_watermark else " ", WATERMARK)
            if offset in self._names:
                shown = named.get(offset, "") if lane.log_start <= offset <= lane.log_end else ""
                text.append(shown.rjust(self._names[offset]), EPOCH)
            if offset < self.end:
                text.append_text(self._cell(lane, offset))
        text.rstrip()
        return text

    def _cell(self, lane: Lane, offset: int) -> Text:
        number = str(offset).rjust(self._digits)
        if offset < lane.log_start:
            return Text(f" {'·' * self._digits} ", DIM)
        if offset >= lane.log_end:
            return Text(" " * (self._digits + 2))
        return Text(f"[{number}]", COMMITTED) if offset < lane.high_watermark else Text(f"({number})", UNCOMMITTED)

    def _bar(self, lane: Lane) -> Text:
        text = Text(no_wrap=True)
        marked = False
        for offset in range(self.first, self.end + self._each, self._each):
            if not marked and offset >= lane.high_watermark:
                text.append("┃", WATERMARK)
                marked = True
            if offset >= lane.log_end:
                break
            if offset < lane.log_start:
                text.append("·", DIM)
            elif offset < lane.high_watermark:
                text.append("█", COMMITTED)
            else:
                text.append("░", UNCOMMITTED)
        return text


def _name(epoch: int) -> str:
    return f"e{epoch}"
