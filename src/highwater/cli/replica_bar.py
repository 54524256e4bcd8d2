"""The end of a replica's log as a bar of characters. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from rich.text import Text

COMMITTED, UNCOMMITTED, WATERMARK, LEADER, OUT, DEAD = "green", "yellow", "bold cyan", "bold yellow", "red", "bold red"
_STEPS: Final = (500, 1_000, 2_000)


def window_for(behind: Iterable[int]) -> int:
    """How many of the last records a bar shows: as many as the replica needs that is furthest behind, in round steps,
    so that the scale does not change with each record."""
    most = max(behind, default=0)
    scale = 1
    while True:
        for step in _STEPS:
            if most * 1.2 <= step * scale:
                return step * scale
        scale *= 10


def bar(high_watermark: int, log_end: int, end: int, window: int, room: int) -> Text:
    """The last `window` records before `end`, the end of the partition. The mark of the high watermark takes the place
    of one character. A log that is shorter fills the bar, too."""
    window = min(window, max(end, 1))
    first = end - window if end else 0
    cells = room - 1

    def column(offset: int) -> int:
        return min(cells, max(0, round((offset - first) * cells / window)))

    mark, last = column(min(high_watermark, log_end)), column(log_end)
    text = Text("█" * mark, COMMITTED, no_wrap=True)
    text.append("┃", WATERMARK)
    text.append("░" * max(0, last - mark), UNCOMMITTED)
    text.append(" " * (room - len(text)))
    return text
