"""The progress of a pipeline for people: a small dashboard on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rich.console import Console, RenderableType
from rich.live import Live
from rich.text import Text

from highwater.pipeline.dashboard import Course, dashboard

if TYPE_CHECKING:
    from highwater.pipeline.job import JobStatus

PLAIN_SECONDS = 1.0
"""Plain lines come at most so often while all goes well."""
PER_SECOND = 2
"""How often the dashboard is drawn: its clock goes on between two batches."""


class Display:
    """Use as a context."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._course = Course()
        self._status: JobStatus | None = None
        self._live: Live | None = None
        if console.is_terminal:
            self._live = Live(console=console, get_renderable=self._drawn, refresh_per_second=PER_SECOND)
        self._state = ""
        self._shown_at = 0.0
        self._shown_records = -1

    def __enter__(self) -> Display:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, status: JobStatus) -> None:
        self._course.look(status)
        self._status = status
        if self._live is not None:
            return
        now = time.monotonic()
        news = status.records != self._shown_records and now - self._shown_at >= PLAIN_SECONDS
        if status.state != self._state or news:
            self._state, self._shown_at, self._shown_records = status.state, now, status.records
            self.console.print(line(status), markup=False, highlight=False, soft_wrap=True)

    def trouble(self, text: str) -> None:
        console = self._live.console if self._live is not None else self.console
        console.print(text, markup=False, highlight=False, soft_wrap=True)

    def _drawn(self) -> RenderableType:
        return Text("") if self._status is None else dashboard(self._status, self._course)


def line(status: JobStatus) -> str:
    parts = [f"{status.name} {status.state}"]
    if (last := status.last) is not None:
        rate = last.records / last.seconds if last.seconds else 0.0
        parts += [
            f"batch {last.batch_id}",
            f"{status.records:,} records",
            f"{status.rows:,} rows",
            f"{rate:,.0f} records/s",
            f"lag {last.lag:,}",
            f"batch time {last.seconds:.2f} s",
        ]
    if status.restarts:
        parts.append(f"{status.restarts} restarts")
    return "  ".join(parts)
