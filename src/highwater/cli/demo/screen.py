"""The screen: a live picture on a terminal, or one line a second elsewhere."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from highwater.cli.demo.orders import PARTITIONS, REVENUE_TOPIC, TOPIC
from highwater.cli.demo.progress import DemoProgress

EVENTS = 7
LINE_SECONDS = 1.0
DRAWINGS_PER_SECOND = 5

INTRODUCTION = (
    "Highwater is a Kafka-compatible log. The orders of a shop go into topic {topic}: {partitions} partitions, each on "
    "{brokers} brokers, processes on this machine. An order is acknowledged once every replica in sync has it.",
    "{purpose} Meanwhile a broker that leads a partition is killed, and comes back.",
    "The promise: no acknowledged order is lost, and none is there twice. At the end every order is compared.",
)

WITH_SPARK = "Spark lands the orders in a Delta table, and writes the revenue of each product to another topic."
WITHOUT_SPARK = "A plain consumer reads them."


class Screen:
    """Shows the progress at each refresh. Events are never left out, on a terminal or elsewhere."""

    def __init__(self, console: Console, progress: DemoProgress, seconds: float | None, with_spark: bool) -> None:
        self._console = console
        self._progress = progress
        self._seconds = seconds
        self._with_spark = with_spark
        self._shown = 0
        self._last_line = 0.0
        self._live: Live | None = None

    def introduce(self, brokers: int) -> None:
        purpose = WITH_SPARK if self._with_spark else WITHOUT_SPARK
        facts = {"topic": TOPIC, "partitions": len(PARTITIONS), "brokers": brokers, "purpose": purpose}
        text = "\n".join(paragraph.format(**facts) for paragraph in INTRODUCTION)
        framed = Panel(text, title="What you see", title_align="left")
        self._console.print(framed if self._console.is_terminal else text, highlight=False)

    def __enter__(self) -> Screen:
        if self._console.is_terminal:
            self._live = Live(self._picture(), console=self._console, auto_refresh=False)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.refresh(now=True)
        if self._live is not None:
            self._live.stop()
            self._live = None

    def refresh(self, now: bool = False) -> None:
        if self._live is None:
            self._print_lines(now)
        elif now or time.monotonic() - self._last_line >= 1 / DRAWINGS_PER_SECOND:
            self._last_line = time.monotonic()
            self._live.update(self._picture(), refresh=True)

    # Elsewhere than on a terminal

    def _print_lines(self, now: bool) -> None:
        for event in self._progress.events[self._shown :]:
            self._print(event)
        self._shown = len(self._progress.events)
        if self._progress.partitions and (now or time.monotonic() - self._last_line >= LINE_SECONDS):
            self._last_line = time.monotonic()
            self._print(self._line())

    def _print(self, text: str) -> None:
        self._console.print(text, highlight=False, soft_wrap=True, markup=False)

    def _line(self) -> str:
        done, arrivals = self._progress, self._progress.arrivals
        batch = f"  batch {arrivals.batch}" if arrivals.batch >= 0 else ""
        rate = done.acked_per_second()
        counts = f"acked {done.acked} ({rate:,.0f}/s)  delivered {arrivals.rows}{batch}  lag {done.lag}"
        return f"{done.elapsed:6.1f} s  {counts}"

    # On a terminal

    def _picture(self) -> RenderableType:
        end = "Ctrl-C" if self._seconds is None else f"{self._seconds:.0f} s or Ctrl-C"
        head = Text.assemble(
            ("Highwater", "bold"), f" {self._progress.elapsed:6.1f} s  (orders until {end}, then the verdict)"
        )
        return Group(head, self._brokers(), self._partitions(), self._flow(), self._events())

    def _brokers(self) -> RenderableType:
        line = Text("brokers  ")
        for broker, is_alive in sorted(self._progress.alive.items()):
            line.append(f" {broker} alive " if is_alive else f" {broker} KILLED ", "green" if is_alive else "bold red")
        return line

    def _partitions(self) -> RenderableType:
        table = Table(box=None, padding=(0, 2), header_style="dim")
        for name in ("partition", "leader", "in sync", "high watermark"):
            table.add_column(name, justify="right" if name == "high watermark" else "left")
        for partition, state in zip(PARTITIONS, self._progress.partitions, strict=False):
            whole = len(state.in_sync) >= len(self._progress.alive)
            in_sync = Text(", ".join(map(str, state.in_sync)), "" if whole else "yellow")
            leader = Text("none", "red") if state.leader < 0 else Text(str(state.leader))
            table.add_row(str(partition), leader, in_sync, f"{state.high_watermark:,}")
        return table

    def _flow(self) -> RenderableType:
        done, arrivals = self._progress, self._progress.arrivals
        table = Table.grid(padding=(0, 2))
        table.add_row("feed", f"{done.acked:,} orders acknowledged, {done.acked_per_second():,.0f} a second")
        table.add_row("pipeline", Text(arrivals.failed or arrivals.state, "red" if arrivals.failed else ""))
        batch = f", batch {arrivals.batch}" if arrivals.batch >= 0 else ""
        where = "landed in the table" if self._with_spark else "read"
        table.add_row("", f"{arrivals.rows:,} orders {where}{batch}, lag {done.lag:,}")
        if self._with_spark:
            table.add_row(REVENUE_TOPIC, f"{revenue_text(done.revenue)}  (topic, written at least once)")
        return table

    def _events(self) -> RenderableType:
        shown = self._progress.events[-EVENTS:]
        return Panel(Text("\n".join(shown), overflow="ellipsis", no_wrap=True), title="events", title_align="left")


def revenue_text(revenue: dict[str, int]) -> str:
    sums = [f"{product} {cents / 100:,.0f}" for product, cents in sorted(revenue.items())]
    return ", ".join(sums) or "nothing yet"
