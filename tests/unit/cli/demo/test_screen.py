"""What a newcomer sees, on a terminal and elsewhere."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from highwater.cli.demo.plan import Plan
from highwater.cli.demo.progress import DemoProgress
from highwater.cli.demo.replicas import PartitionState, Replica
from highwater.cli.demo.screen import Screen

CAUSE = "Broker 2 died → the controller chose 1 → epoch 0 → 1 → next write acknowledged after 0.11 s"
RETURN = "Broker 2 is in sync again, 12.52 s after its death → it fetched 12,345 records"


def under_way() -> DemoProgress:
    """A run in which broker 2 is dead, and the table a little behind."""
    progress = DemoProgress(acked=300, acked_seen=300)
    progress.brokers = {1: "alive", 2: "dead", 3: "alive"}
    ends = ((1, 120), (3, 100), (1, 80))
    progress.partitions = tuple(
        PartitionState(leader, 1, (1, 3), end, {broker: Replica(1, end, end) for broker in (1, 2, 3)})
        for leader, end in ends
    )
    progress.arrivals.batch, progress.arrivals.rows = 4, 250
    progress.revenue = {each: 12_345_678 for each in ("apples", "bread", "coffee", "honey", "olives")} | {
        "tea": 123_450
    }
    progress.caption = [CAUSE, RETURN]
    for number in range(20):
        progress.add_event(f"event {number}")
    return progress


def shown(*, terminal: bool, with_spark: bool = True, width: int = 80, height: int = 24) -> str:
    output = io.StringIO()
    console = Console(file=output, width=width, height=height, force_terminal=terminal, color_system=None)
    screen = Screen(console, under_way(), 90.0, with_spark, has_keys=terminal)
    screen.introduce(3)
    with screen:
        screen.refresh(now=True)
    return output.getvalue()


def picture(width: int, height: int = 24) -> list[str]:
    console = Console(file=io.StringIO(), width=width, height=height, color_system=None)
    screen = Screen(console, under_way(), 90.0, with_spark=True, has_keys=True)
    with console.capture() as captured:
        console.print(screen.picture())
    return captured.get().splitlines()


def test_a_terminal_shows_lanes_counts_revenue_keys_and_the_last_events() -> None:
    text = shown(terminal=True)
    for part in ("broker 2", "DEAD", "orders-1 ★", "120", "batch 4", "250 landed", "50 to go", "tea 1,234", " k  kill"):
        assert part in text
    assert "event 19" in text and "event 9 " not in text


@pytest.mark.parametrize("width", [60, 80, 100])
def test_the_picture_fits_a_small_terminal_and_the_whole_caption_is_in_it(width: int) -> None:
    lines = picture(width)
    assert len(lines) <= 23 and max(map(len, lines)) <= width
    said = " ".join(line.removeprefix("▌ ").strip() for line in lines if line.startswith("▌"))
    assert said.strip() == f"{CAUSE} {RETURN}"
    assert "q end" in " ".join("".join(lines).split())
    assert not any("…" in line for line in lines) and "tea 1,234" in " ".join(lines)


def test_a_higher_terminal_shows_more_events() -> None:
    def events(height: int) -> int:
        return sum("event " in line for line in picture(100, height))

    assert 1 <= events(24) < events(30) < events(60) == 20


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
        assert plan.kill_by + plan.notice_seconds <= seconds
    assert not Plan(None).is_over(1e9)


def test_the_kill_waits_for_landed_orders_but_not_for_ever() -> None:
    plan = Plan(90.0)
    assert not plan.wants_kill(plan.kill_at - 0.1, True) and plan.wants_kill(plan.kill_at, True)
    assert not plan.wants_kill(plan.kill_by - 0.1, False) and plan.wants_kill(plan.kill_by, False)
    assert not Plan(None).wants_kill(1e9, False) and Plan(None).wants_kill(10.0, True)
