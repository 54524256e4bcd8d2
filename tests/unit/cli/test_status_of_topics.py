"""Which topics `highwater status` shows, and what it says of one that is not there."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner
from rich.console import Console

from highwater.cli import main
from highwater.cli.status import show
from highwater.cli.status_topics import Address, Answer
from highwater.cluster import Cluster
from highwater.cluster.ports import ReservedPort

OFFSETS = "__consumer_offsets"
FAILED = {
    "clean_end": 0,
    "dirty_bytes": 0,
    "dirty_ratio": 0.0,
    "min_cleanable_dirty_ratio": 0.5,
    "due": False,
    "under_way": None,
    "last": None,
    "failed": {"tried_again": True, "reason": "no room"},
}


def part(topic: str, index: int, **fields: Any) -> dict[str, Any]:
    """Led by the node that reports it, with all replicas in sync, unless the arguments say otherwise."""
    usual = {
        "topic": topic,
        "partition": index,
        "role": "leader",
        "leader": 1,
        "leader_epoch": 0,
        "log_start": 0,
        "high_watermark": 0,
        "log_end": 0,
        "replicas": [1, 2],
        "isr": [1, 2],
        "min_isr": 1,
        "followers": [],
        "offline": None,
        "unwritten": None,
        "damage": [],
        "compaction": None,
        "changes": [{"seconds_ago": 1.0, "what": "leads"}],
    }
    return {**usual, **fields}


def answer(*parts: dict[str, Any], decisions: tuple[str, ...] = (), node: int = 1) -> Answer:
    quorum = {"role": "leader", "leader": 1, "epoch": 1, "high_watermark": 1, "voters": [1]}
    fields = [{"seconds_ago": 1.0, "what": what} for what in decisions]
    return Address(str(node), f"here:{node}"), {"quorum": quorum, "partitions": list(parts), "decisions": fields}


def shown(*answers: Answer, topic: str | None = None, internal: bool = False, changes: int = 100) -> str:
    console = Console(width=240)
    with console.capture() as printed:
        console.print(show(list(answers), topic, changes, internal))
    return printed.get()


def of_all(*more: dict[str, Any]) -> Answer:
    internal = [part(OFFSETS, index) for index in range(50)]
    return answer(part("orders", 0), *internal, *more, decisions=("orders-0 elected 1", f"{OFFSETS}-7 elected 1"))


def test_an_internal_topic_without_trouble_is_named_and_not_shown() -> None:
    text = shown(of_all())
    assert text.count(OFFSETS) == 1
    assert f"not shown: {OFFSETS} (--internal shows all topics)" in text
    assert "orders-0 leads" in text and "orders-0 elected 1" in text


def test_internal_topics_are_shown_beside_the_others_if_they_are_asked_for() -> None:
    text = shown(of_all(), internal=True)
    assert all(f"{OFFSETS}-{index} " in text for index in range(50)) and "orders-0" in text
    assert "not shown" not in text


def test_an_internal_topic_that_is_asked_for_is_shown_whole() -> None:
    text = shown(of_all(), topic=OFFSETS)
    assert all(f"{OFFSETS}-{index} " in text for index in range(50))
    assert "partitions, all" not in text and "orders" not in text


def test_the_line_of_an_internal_topic_counts_what_is_wrong_with_it() -> None:
    parts = [
        part(OFFSETS, 0, isr=[1]),
        part(OFFSETS, 1, isr=[1]),
        part(OFFSETS, 2, role="follower"),
        part(OFFSETS, 3),
    ]
    line = f"{OFFSETS}: 4 partitions, 1 without a leader that answers, 2 with replicas out of sync"
    assert line in shown(answer(*parts))
    led_elsewhere = answer(part(OFFSETS, 2), part(OFFSETS, 0, role="follower"), node=2)
    assert f"{OFFSETS}: 4 partitions, 2 with replicas out of sync (" in shown(answer(*parts), led_elsewhere)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"offline": "the disk failed"}, "the disk failed"),
        ({"unwritten": "no space left"}, "no space left"),
        ({"damage": ["at 17"]}, "at 17"),
        ({"compaction": FAILED}, "failed, is tried again: no room"),
    ],
)
def test_trouble_of_an_internal_log_is_shown_all_the_same(fields: dict[str, Any], words: str) -> None:
    text = shown(
        answer(part("orders", 0), part(OFFSETS, 3, **fields), part(OFFSETS, 4, compaction={**FAILED, "failed": None}))
    )
    [row] = [line for line in text.splitlines() if words in line]
    assert f"{OFFSETS}-3" in row
    assert f"{OFFSETS}-4" not in text


def follower(node: int, *, lag: int | None = 0, why: str | None = None) -> dict[str, Any]:
    return {"id": node, "in_isr": why is None, "lag": lag, "lag_ms": 7, "why": why}


def test_followers_are_marked_in_the_row_and_have_a_line_only_if_they_are_behind() -> None:
    def lines(each: dict[str, Any], isr: list[int]) -> list[str]:
        text = shown(answer(part("orders", 0, followers=[each], isr=isr)), changes=0).splitlines()
        at = next(at for at, line in enumerate(text) if line.startswith("orders-0 "))
        return [line.strip() for line in text[at:]]

    [row] = lines(follower(2), [1, 2])
    assert row.endswith(" 1★ 2")
    row, behind = lines(follower(2, lag=5), [1, 2])
    assert row.endswith(" 1★ 2") and behind == "2: 5 records, 7 ms"
    row, behind = lines(follower(2, lag=5, why="last caught up 9 s ago"), [1])
    assert row.endswith(" 1★ 2!") and behind == "2 out of sync: 5 records, 7 ms: last caught up 9 s ago"


def test_partitions_with_trouble_come_first_the_worst_of_all_at_the_top() -> None:
    parts = [
        part("a", 0),
        part("b", 0, isr=[1]),
        part("c", 0, isr=[1], min_isr=2),
        part("d", 0, role="follower", leader=2),
    ]
    silent: Answer = (Address("2", "here:2"), None)
    lines = shown(answer(*parts), silent, changes=0).splitlines()
    assert [line.split()[0] for line in lines if line[1:4] == "-0 "] == ["d-0", "c-0", "b-0", "a-0"]


@pytest.mark.parametrize("width", [60, 100])
def test_rows_fit_a_narrow_terminal_and_keep_the_number_of_the_partition(width: int) -> None:
    long = "payments-with-a-rather-long-name-that-nobody-types"
    offsets = {"high_watermark": 10**9, "log_end": 10**9, "replicas": [1, 2, 3], "isr": [1, 2, 3]}
    console = Console(width=width)
    with console.capture() as printed:
        console.print(show([answer(part(long, 17, **offsets))], None, 0))
    row = next(line for line in printed.get().splitlines() if line.startswith("pay"))
    assert len(row) <= width and "-17 " in row and row.count("1000000000") == 2 and row.endswith("1★ 2 3")


def test_a_missing_topic_is_reported_with_the_one_that_may_be_meant() -> None:
    port = ReservedPort.drawn()
    http = f"127.0.0.1:{port.number}"
    with Cluster(brokers=1, config={"highwater.http.listener": http}) as cluster:
        cluster.create_topic("orders")
        fields = CliRunner().invoke(main, ["status", "--http", http, "--topic", "ordres"])
        other = CliRunner().invoke(main, ["status", "--http", http, "--topic", "payments", "--json"])
        right = CliRunner().invoke(main, ["status", "--http", http, "--topic", "orders", "--json"])
    port.release()
    assert (fields.exit_code, fields.output) == (
        1,
        "Error: no node that answers has a topic ordres: did you mean orders?\n",
    )
    assert other.exit_code == 1
    assert "has a topic payments: `highwater topics --list` names those that there are" in other.output
    assert [each["topic"] for each in json.loads(right.output)[http]["partitions"]] == ["orders"]


def knows_leaderless(*topics: str, offset: int, node: int) -> Answer:
    rows = [{"topic": topic, "partition": 1, "replicas": [2], "isr": [], "eligible": [2]} for topic in topics]
    address, status = answer(part("orders", 0), node=node)
    assert status is not None
    return address, {**status, "metadata_offset": offset, "leaderless": rows}


def test_partitions_without_a_leader_are_shown_as_the_newest_metadata_has_them() -> None:
    """The only replica may be on a node that is down: nobody who answers hosts it."""
    known = knows_leaderless("solo", OFFSETS, offset=9, node=1), knows_leaderless("gone", offset=8, node=3)
    text = shown(*known)
    assert "1 partition without a leader (and 1 of internal topics)" in text
    assert "solo-1" in text and "gone-1" not in text and f"{OFFSETS}-1 " not in text
    assert "solo-1" in shown(*known, topic="solo")
    assert "solo-1" not in shown(*known, topic="orders")
    assert "without a leader" not in shown(answer(part("orders", 0)))
