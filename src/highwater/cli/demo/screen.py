"""The screen: a live picture on a terminal, or one line a second elsewhere."""

from __future__ import annotations

import re
import time
from textwrap import wrap
from types import TracebackType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.text import Text

from highwater.cli.demo.key_orders import HELP
from highwater.cli.demo.lanes import NARROW, lanes, legend
from highwater.cli.demo.orders import PARTITIONS, REVENUE_TOPIC, TOPIC
from highwater.cli.demo.progress import DemoProgress

FEWEST_LINES = 1
INDENT = 10
"""Of further lines of an event, or of a number: its time or name stands to the left."""
WIDE = 100
MARK = "▌ "
QUIET = "All is well. Once orders have arrived, a leader is killed."
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

    def __init__(
        self, console: Console, progress: DemoProgress, seconds: float | None, with_spark: bool, has_keys: bool = False
    ) -> None:
        self._console = console
        self._progress = progress
        self._seconds = seconds
        self._with_spark = with_spark
        self._has_keys = has_keys
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
            self._live = Live(self.picture(), console=self._console, auto_refresh=False)
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
            self._live.update(self.picture(), refresh=True)

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

    def picture(self) -> RenderableType:
        """Not higher than the terminal: there are as many events as fit."""
        done, width = self._progress, max(NARROW, self._console.width)
        chosen = done.chosen if self._has_keys else None
        parts: list[RenderableType] = [self._head()]
        parts += lanes(done.brokers, done.links, done.partitions, chosen, width)
        parts += [legend(width), *self._flow(width), *self._caption(width)]
        if self._has_keys:
            parts.append(_help(width))
        used = sum(len(self._console.render_lines(part, self._console.options)) for part in parts)
        return Group(*parts, *self._events(width, max(FEWEST_LINES, self._console.height - used - 1)))

    def _head(self) -> Text:
        end = "Ctrl-C" if self._seconds is None else f"{self._seconds:.0f} s"
        return Text.assemble(
            ("Highwater", "bold"), f" {self._progress.elapsed:6.1f} s  (until {end}, then the verdict)"
        )

    def _flow(self, width: int) -> list[Text]:
        """All numbers are of one moment: acknowledged ≤ committed, and landed + lag = committed."""
        done, arrivals = self._progress, self._progress.arrivals
        rate = f"{done.acked_per_second():,.0f}/s"
        lines = [(f"feed      {done.acked_seen:,} acknowledged ({rate}), {done.committed:,} committed", "")]
        batch = f", batch {arrivals.batch}" if arrivals.batch >= 0 else ""
        where = "landed in the table" if self._with_spark else "read"
        if arrivals.failed:
            lines.append((f"pipeline  {arrivals.failed}", "red"))
        elif not arrivals.rows:
            lines.append((f"pipeline  {arrivals.state}", ""))
        else:
            lines.append((f"pipeline  {arrivals.rows:,} {where}{batch}, {done.lag:,} to go", ""))
        if self._with_spark:
            lines.append((f"{REVENUE_TOPIC:<{INDENT}}{revenue_text(done.revenue)}", ""))
        return [Text(part, style, no_wrap=True) for line, style in lines for part in _wrapped(line, width)]

    def _caption(self, width: int) -> list[Text]:
        """As high with a short caption as with a long one, so that nothing jumps."""
        text = Text("\n".join(self._progress.caption) or QUIET, "bold")
        height = 2 if width >= WIDE else 4
        wrapped = [*text.wrap(self._console, width - len(MARK)), *([Text()] * height)][:height]
        return [Text.assemble((MARK, "bold yellow"), line, no_wrap=True) for line in wrapped]

    def _events(self, width: int, room: int) -> list[Text]:
        """The last ones that there is room for. A long one takes several lines; of the last one, at least the first."""
        lines: list[str] = []
        for event in reversed(self._progress.events):
            wrapped = _wrapped(event, width)
            if lines and len(lines) + len(wrapped) > room:
                break
            lines = [*wrapped, *lines]
        return [Text(line, "dim", no_wrap=True) for line in lines[:room]]


def _wrapped(line: str, width: int) -> list[str]:
    """A number and its seconds stay together."""
    together = re.sub(r"(\d) s\b", "\\1\u00a0s", line)
    return [part.replace("\u00a0", " ") for part in wrap(together, width, subsequent_indent=" " * INDENT)]


def _help(width: int) -> Text:
    text = Text(no_wrap=True)
    for key, words in HELP:
        text.append(f" {key} " if width > NARROW else key, "reverse").append(f" {words} ")
        text.append(" " if width > NARROW else "")
    text.rstrip()
    return text


def revenue_text(revenue: dict[str, int]) -> str:
    sums = [f"{product} {cents / 100:,.0f}" for product, cents in sorted(revenue.items())]
    return ", ".join(sums) or "nothing yet"
