"""What a newcomer sees, on a terminal and elsewhere."""

from __future__ import annotations

import io

from rich.console import Console

from highwater.cli.demo.progress import DemoProgress, PartitionState
from highwater.cli.demo.run import Plan
from highwater.cli.demo.screen import Screen


def under_way() -> DemoProgress:
    """A run in which broker 2 is dead, and the table a little behind."""
    progress = DemoProgress(acked=300)
    progress.alive = {1: True, 2: False, 3: True}
    states = ((1, 120), (3, 100), (1, 80))
    progress.partitions = tuple(PartitionState(leader, (1, 3), end) for leader, end in states)
    progress.arrivals.batch, progress.arrivals.rows = 4, 250
    progress.arrivals.reached = {0: 100, 1: 80, 2: 70}
    progress.revenue = {"tea": 123_450, "bread": 99_900}
    for number in range(20):
        progress.add_event(f"event {number}")
    return progress


def shown(*, terminal: bool, with_spark: bool = True) -> str:
    output = io.StringIO()
    console = Console(file=output, width=80, height=24, force_terminal=terminal, color_system=None)
    screen = Screen(console, under_way(), 90.0, with_spark)
    screen.introduce(3)
    with screen:
        screen.refresh(now=True)
    return output.getvalue()


def test_a_terminal_shows_brokers_leaders_watermarks_rate_lag_and_the_last_events() -> None:
    picture = shown(terminal=True)
    for part in ("1 alive", "2 KILLED", "orders-1", "1, 3", "120", "batch 4", "250 orders", "lag 50", "tea 1,234"):
        assert part in picture
    assert "event 13" in picture and "event 12" not in picture
    assert "at least once" in picture


def test_without_a_terminal_every_event_and_every_second_is_one_line() -> None:
    lines = shown(terminal=False).splitlines()
    assert [line.partition("s  ")[2] for line in lines if "event" in line] == [f"event {n}" for n in range(20)]
    assert "acked 300" in lines[-1] and "delivered 250  batch 4  lag 50" in lines[-1]


def test_the_introduction_says_what_reads_the_orders() -> None:
    assert "Delta table" in shown(terminal=False)
    assert "plain consumer" in shown(terminal=False, with_spark=False)


def test_the_kill_comes_early_enough_to_see_the_return_however_short_the_run() -> None:
    for seconds in (5.0, 12.0, 90.0):
        plan = Plan(seconds)
        assert 1.0 <= plan.kill_at < plan.kill_by < seconds
    assert not Plan(None).is_over(1e9)
