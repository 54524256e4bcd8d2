"""Lanes fit the width, stand below each other, and show who is behind."""

from __future__ import annotations

import pytest

from highwater.cli.demo.lanes import lanes, legend, window_of
from highwater.cli.demo.replicas import PartitionState, Replica
from highwater.cli.replica_bar import bar

STATES = {1: "alive", 2: "dead", 3: "paused"}


def states(behind: int = 0) -> tuple[PartitionState, ...]:
    """Broker 2 is dead and `behind`; broker 1 leads."""
    replicas = {
        1: Replica(1, 9_990, 10_000),
        2: Replica(0, 10_000 - behind, 10_000 - behind),
        3: Replica(1, 9_900, 9_990),
    }
    return tuple(PartitionState(1, 1, (1, 3), 9_990, replicas) for _ in range(3))


@pytest.mark.parametrize("width", [60, 80, 100, 140])
def test_every_line_is_as_wide_as_the_terminal_and_numbers_end_in_one_column(width: int) -> None:
    lines = lanes(STATES, {3: "cut"}, states(700), 2, width)
    assert len(lines) == 10
    assert {line.cell_len for line in lines} == {width}
    assert legend(width).cell_len <= width


def test_leader_chosen_dead_paused_cut_and_out_of_sync_are_marked_without_colours() -> None:
    text = [line.plain for line in lanes(STATES, {3: "cut"}, states(), 2, 100)]
    assert "▸broker 2" in text[4] and "▸" not in text[1] and "▸" not in text[7]
    assert "DEAD" in text[5] and "PAUSED" in text[8] and "cut" in text[9]
    assert "orders-0 ★" in text[1] and "orders-0 !" in text[4] and "orders-0  " in text[7]
    assert text[1].split()[-3:] == ["9,990", "10,000", "1"]


def test_a_dead_broker_is_red() -> None:
    line = lanes(STATES, {}, states(), None, 100)[4]
    assert any("red" in str(span.style) and span.end - span.start > 20 for span in line.spans)


def test_the_bar_ends_where_the_log_does_on_a_scale_that_all_replicas_share() -> None:
    assert bar(1_000, 1_000, 1_000, 1_000, 41).plain == "█" * 40 + "┃"
    assert bar(500, 750, 1_000, 1_000, 41).plain == "█" * 20 + "┃" + "░" * 10 + " " * 10
    assert bar(0, 0, 100_000, 1_000, 41).plain == "┃" + " " * 40


def test_a_log_that_is_shorter_than_the_scale_fills_its_bar() -> None:
    assert bar(50, 50, 50, 1_000, 41).plain == "█" * 40 + "┃"
    assert bar(25, 50, 50, 1_000, 41).plain == "█" * 20 + "┃" + "░" * 20
    assert bar(0, 0, 0, 1_000, 41).plain == "┃" + " " * 40


def test_the_scale_grows_in_round_steps_with_the_one_furthest_behind() -> None:
    assert [window_of(states(behind)) for behind in (0, 400, 700, 4_500, 9_000)] == [500, 500, 1_000, 10_000, 20_000]
    assert window_of(()) == 500
