"""A running pipeline on a terminal: its counts, and how throughput, lag and freshness went, as sparklines."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from highwater.pipeline.job import JobStatus

BARS = "▁▂▃▄▅▆▇█"
KEPT = 40
"""Batches that are drawn at most: a row then fits on a terminal of 80 columns."""
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


@dataclass(slots=True)
class Course:
    """How the last batches went, the newest last."""

    rates: deque[float] = field(default_factory=lambda: deque(maxlen=KEPT))
    """Records per second."""
    lags: deque[float] = field(default_factory=lambda: deque(maxlen=KEPT))
    ages: deque[float] = field(default_factory=lambda: deque(maxlen=KEPT))
    """Seconds: how old the table had become before the batch landed."""
    _seen: int = 0
    _fresh_at: float | None = None

    def look(self, status: JobStatus) -> None:
        """Notes a batch that has been finished since the last look."""
        last = status.last
        if last is not None and status.batches != self._seen and status.last_at is not None:
            self._seen = status.batches
            self.rates.append(last.records / last.seconds if last.seconds else 0.0)
            self.lags.append(float(last.lag))
            began = status.started_at if self._fresh_at is None else self._fresh_at
            self.ages.append(max(0.0, status.last_at - began))
        self._fresh_at = status.fresh_at


def dashboard(status: JobStatus, course: Course, now: float | None = None) -> RenderableType:
    moment = time.time() if now is None else now
    rows = Table.grid(padding=(0, 2))
    for justify in ("left", "left", "right"):
        rows.add_column(justify=justify, no_wrap=True)
    rows.add_row("throughput", sparkline(course.rates), _rate(course.rates))
    rows.add_row("lag", sparkline(course.lags), f"{int(course.lags[-1]):,} records" if course.lags else "-")
    rows.add_row("freshness", sparkline(course.ages), _freshness(status, moment))
    lines: list[RenderableType] = [_heading(status, moment), rows, Text(_counts(status))]
    if status.trouble:
        lines.append(Text(f"last trouble: {status.trouble}"))
    return Group(*lines)


def sparkline(values: Iterable[float]) -> str:
    """A bar for each value, from nothing to the largest of them; the lowest bar is nothing."""
    found = list(values)
    largest = max(found, default=0.0)
    return "".join(BARS[_height(value, largest)] for value in found)


def _height(value: float, largest: float) -> int:
    if value <= 0 or largest <= 0:
        return 0
    return max(1, round(value / largest * (len(BARS) - 1)))


def _heading(status: JobStatus, now: float) -> Text:
    parts = [f"{status.name} {status.state}", f"for {_span(now - status.started_at)}"]
    if (last := status.last) is not None:
        parts += [f"batch {last.batch_id}", f"batch time {last.seconds:.2f} s"]
    if status.restarts:
        parts.append(f"{status.restarts} restarts")
    return Text("  ".join(parts), style="bold")


def _counts(status: JobStatus) -> str:
    return "  ".join(_counted(status))


def _counted(status: JobStatus) -> Iterator[str]:
    yield f"{status.records:,} records"
    yield f"{status.rows:,} rows"
    yield f"{status.batches:,} batches"
    yield f"{status.files:,} files"
    yield _size(status.size)
    if status.bad:  # counted in direct mode alone: 0 would be said of others, too
        yield f"{status.bad:,} did not fit"


def _rate(rates: Sequence[float] | deque[float]) -> str:
    return f"{rates[-1]:,.0f} records/s" if rates else "-"


def _freshness(status: JobStatus, now: float) -> str:
    """What was in the topics so long ago is in the table."""
    return "-" if status.fresh_at is None else f"{_span(max(0.0, now - status.fresh_at))} old"


def _span(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = int(seconds // 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"


def _size(bytes_: float) -> str:
    for unit in _UNITS[:-1]:
        if bytes_ < 1024:
            return f"{bytes_:.0f} {unit}" if unit == "B" else f"{bytes_:.1f} {unit}"
        bytes_ /= 1024
    return f"{bytes_:.1f} {_UNITS[-1]}"
