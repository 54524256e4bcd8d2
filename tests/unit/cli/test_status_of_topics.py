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


def shown(*answers: Answer, topic: str | None = None) -> str:
    console = Console(width=240)
    with console.capture() as printed:
        console.print(show(list(answers), topic, 100))
    return printed.get()


def of_all(*more: dict[str, Any]) -> Answer:
    internal = [part(OFFSETS, index) for index in range(50)]
    return answer(part("orders", 0), *internal, *more, decisions=("orders-0 elected 1", f"{OFFSETS}-7 elected 1"))


def test_an_internal_topic_takes_one_line_and_hides_no_other_topic() -> None:
    text = shown(of_all())
    assert text.count(OFFSETS) == 2  # the line, which names it twice
    assert f"{OFFSETS}: 50 partitions, all replicas in sync (--topic {OFFSETS} shows them)" in text
    assert "orders-0 leads" in text and "orders-0 elected 1" in text


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


def test_a_cluster_without_followers_has_no_table_of_them() -> None:
    follower = {"id": 2, "in_isr": True, "lag": 0, "lag_ms": 0, "why": None}
    assert "Followers" not in shown(answer(part("orders", 0)))
    assert "Followers" in shown(answer(part("orders", 0, followers=[follower])))


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
    assert "Partitions without a leader" in text
    assert "solo-1" in text and "gone-1" not in text and f"{OFFSETS}-1 " not in text
    assert "solo-1" in shown(*known, topic="solo")
    assert "without a leader" not in shown(*known, topic="orders")
    assert "without a leader" not in shown(answer(part("orders", 0)))
