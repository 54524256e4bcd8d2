"""The lines of `highwater top`: they fit every screen, trouble first, and groups at the end."""

from __future__ import annotations

import io
from typing import Any

import pytest
from click.testing import CliRunner
from rich.console import Console

from highwater.cli import main
from highwater.cli.silent_nodes import Remedy
from highwater.cli.status_tables import nodes
from highwater.cli.status_topics import Address, Answer, are_fenced_unawares
from highwater.cli.top import Rates, group_lags
from highwater.cli.top_view import GroupLag, TopView, screenful


def row(topic: str, index: int, end: int = 1_000, isr: tuple[int, ...] = (1, 2, 3), **fields: Any) -> dict[str, Any]:
    usual = {"role": "leader", "leader": 1, "leader_epoch": 4, "replicas": [1, 2, 3], "min_isr": 1, "size": 70}
    log = {"offline": None, "unwritten": None, "damage": [], "high_watermark": end, "log_end": end}
    followers = [{"id": 2, "log_end": end}, {"id": 3, "log_end": end // 2}]
    return {"topic": topic, "partition": index, "isr": list(isr), "followers": followers, **usual, **log, **fields}


def node(id: int, *rows: dict[str, Any]) -> Answer:
    quorum = {"leader": 1, "epoch": 3, "voters": [1, 2, 3], "is_voter": True, "role": "Follower", "high_watermark": 7}
    known = [{"id": each, "fenced": False} for each in (1, 2, 3)]
    page = {
        "node": id,
        "standing": "active",
        "metadata_offset": 7,
        "brokers": known,
        "leaderless": [],
        "quorum": quorum,
    }
    return Address(str(id), f"h:{id}"), {**page, "partitions": list(rows)}


def view(**fields: Any) -> TopView:
    rows = [row("orders", at) for at in range(30)] + [row("payments-with-a-rather-long-name", 12, isr=(1, 2))]
    rows += [row("__consumer_offsets", 3)]
    silent: Answer = (Address("3", "h:3"), None)
    groups = [GroupLag(f"group-{at}", "orders", at, 1) for at in range(9)]
    return TopView([node(1, *rows), node(2), silent], groups, {("orders", 0): 980.0}, clock="12:00:00", **fields)


@pytest.mark.parametrize("width", [60, 80, 100, 180])
@pytest.mark.parametrize("height", [24, 50])
def test_every_line_fits_and_the_screen_is_full(width: int, height: int) -> None:
    lines = screenful(view(), width, height)
    assert len(lines) == height
    console = Console(file=io.StringIO(), width=width, height=height, color_system=None)
    assert all(len(console.render_lines(line)) == 1 for line in lines)
    assert all(line.cell_len <= width for line in lines)


def test_a_node_that_up_can_start_has_the_command_in_its_row() -> None:
    text = [line.plain for line in screenful(view(remedies={"3": Remedy("dead", "highwater start 3", "")}), 60, 24)]
    assert "3      dead: highwater start 3" in text and not any("no answer" in line for line in text)


def test_what_cannot_be_written_comes_before_what_only_lacks_a_replica() -> None:
    short, blocked = row("a", 0, isr=(1, 2)), row("z", 0, isr=(1, 2), min_isr=3)
    lines = [line.plain for line in screenful(TopView([node(1, short, row("b", 0), blocked)]), 100, 24)]
    named = [line.split()[0] for line in lines if line.split() and line.split()[0] in ("a-0", "b-0", "z-0")]
    assert named == ["z-0", "a-0", "b-0"]


def test_trouble_comes_first_with_marks_that_need_no_colour() -> None:
    text = [line.plain for line in screenful(view(), 100, 24)]
    assert text[1] == "2 of 3 brokers, 1 partition under-replicated, 1 of 3 voters is down"
    assert "no answer at h:3" in text[5]
    first = text.index("partitions 1-9 of 31 ↓") + 1
    assert text[first].startswith("payments-with-a-rath…-12") and " 1★" in text[first] and " 3!" in text[first]
    assert text[first + 1].startswith("orders-0 ") and "980/s" in text[first + 1]
    assert not any("__consumer" in line for line in text)


def test_the_lane_of_a_replica_that_is_behind_is_shorter() -> None:
    [line] = [line.plain for line in screenful(view(), 140, 24) if line.plain.startswith("orders-0 ")]
    one, two, three = (line[line.index(mark) :].split("┃")[0].count("█") for mark in (" 1★", " 2 ", " 3 "))
    assert one == two > three > 0


def test_scrolling_stops_at_the_last_partition_and_internal_topics_are_shown_on_demand() -> None:
    seen = view(scroll=999, shows_internal=True)
    text = [line.plain for line in screenful(seen, 100, 24)]
    assert "partitions 24-32 of 32" in text and seen.scroll == 23
    assert any(line.startswith("__consumer_offsets-3") for line in text) is False
    seen.scroll = -5
    assert any(line.plain.startswith("__consumer_offsets-3") for line in screenful(seen, 100, 24))
    assert seen.scroll == 0


def test_groups_with_the_largest_lag_come_first_and_the_rest_is_counted() -> None:
    text = [line.plain for line in screenful(view(), 100, 24)]
    assert text[-1] == "and 3 more with less lag"
    assert [line.split()[0] for line in text[-7:-1]] == [f"group-{at}" for at in (8, 7, 6, 5, 4, 3)]


def test_a_cluster_that_is_down_is_said_to_be_down() -> None:
    silent: Answer = (Address("1", "h:1"), None)
    assert "no node answers" in screenful(TopView([silent]), 60, 24)[1].plain


def test_lag_and_members_of_groups_are_read_from_the_metrics() -> None:
    text = (
        'kafka_consumergroup_lag{consumergroup="billing",topic="orders",partition="0"} 5\n'
        'kafka_consumergroup_lag_sum{consumergroup="billing",topic="orders"} 12\n'
        'kafka_consumergroup_members{consumergroup="billing"} 2\n'
    )
    assert group_lags(text) == [GroupLag("billing", "orders", 12, 2)]
    assert group_lags("") == []


def test_the_rate_is_that_of_the_last_second_and_never_negative() -> None:
    rates = Rates()
    assert rates.of([node(1, row("orders", 0, 1_000))], 10.0) == {("orders", 0): 0.0}
    assert rates.of([node(1, row("orders", 0, 1_500))], 10.5) == {("orders", 0): 0.0}
    assert rates.of([node(1, row("orders", 0, 3_000))], 12.0) == {("orders", 0): 1_000.0}
    assert rates.of([node(1, row("orders", 0, 100))], 14.0) == {("orders", 0): 0.0}


def test_without_a_terminal_top_names_the_command_to_use_instead() -> None:
    done = CliRunner().invoke(main, ["top"])
    assert done.exit_code == 1 and "top needs a terminal: `highwater status`" in done.output


def test_a_node_that_the_controller_has_fenced_is_fenced_whatever_it_takes_itself_for() -> None:
    """It is cut off, so it has not heard of it: its own metadata are older."""
    cut_off, other = node(3), node(2)
    assert cut_off[1] is not None and other[1] is not None
    other[1].update(metadata_offset=9, brokers=[{"id": each, "fenced": each == 3} for each in (1, 2, 3)])
    answers = [node(1), other, cut_off]
    standings = [line.plain.split()[:2] for line in screenful(TopView(answers), 100, 24)]
    assert ["3", "fenced"] in standings and ["2", "active"] in standings
    console = Console(file=io.StringIO(), width=200, color_system=None, record=True)
    console.print(nodes(answers))
    assert "fenced, takes itself for active" in console.export_text()
    other[1].update(metadata_offset=6)  # what it says is older than what node 3 knows
    assert are_fenced_unawares(answers) == set()
