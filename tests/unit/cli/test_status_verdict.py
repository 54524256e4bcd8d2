"""The first line of `highwater status`: how many serve, what is wrong, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from highwater.cli.status_topics import Address, Answer
from highwater.cli.status_verdict import verdict_of


def row(topic: str, index: int, isr: tuple[int, ...] = (1, 2, 3), **fields: Any) -> dict[str, Any]:
    usual = {"role": "leader", "leader": 1, "leader_epoch": 0, "replicas": [1, 2, 3], "min_isr": 2}
    log = {"offline": None, "unwritten": None, "damage": []}
    return {"topic": topic, "partition": index, "isr": list(isr), **usual, **log, **fields}


def node(id: int, *rows: dict[str, Any], fenced: tuple[int, ...] = (), none: int = 0, **quorum: Any) -> Answer:
    known = [{"id": each, "fenced": each in fenced} for each in (1, 2, 3)]
    page = {
        "node": id,
        "metadata_offset": 7,
        "brokers": known,
        "partitions": list(rows),
        "leaderless": [
            {"topic": "gone", "partition": at, "replicas": [3], "isr": [], "eligible": [3]} for at in range(none)
        ],
        "quorum": {"leader": 1, "epoch": 3, "voters": [1, 2, 3], "is_voter": True, **quorum},
    }
    return Address(str(id), f"h:{id}"), page


def silent(id: int) -> Answer:
    return Address(str(id), f"h:{id}"), None


ROWS = tuple(row("orders", at) for at in range(3))
SHORT = tuple(row("orders", at, (1, 2)) for at in range(3))


@pytest.mark.parametrize(
    ("answers", "expected", "is_well"),
    [
        ([node(1, *ROWS), node(2), node(3)], "3 of 3 brokers, 3 partitions, all in sync", True),
        ([node(1), node(2), node(3)], "3 of 3 brokers, no topics yet", True),
        (
            [node(1, *SHORT), silent(2), silent(3)],
            "1 of 3 brokers, 3 partitions under-replicated, quorum lost: 2 of 3 voters are down",
            False,
        ),
        (
            [node(1, *SHORT, fenced=(3,)), node(2), silent(3)],
            "2 of 3 brokers, 3 partitions under-replicated, 1 of 3 voters is down",
            False,
        ),
        (
            [node(1, row("orders", 0, (1,)), none=2), node(2), node(3)],
            "3 of 3 brokers, 2 partitions without a leader, 1 partition below min.insync.replicas, "
            "1 partition under-replicated",
            False,
        ),
        (
            [node(1, row("orders", 0, role="follower", leader=3)), node(2), silent(3)],
            "2 of 3 brokers, 1 partition without a leader, 1 of 3 voters is down",
            False,
        ),
        (
            [node(1, *ROWS, row("__consumer_offsets", 4, (1, 2))), node(2), node(3)],
            "3 of 3 brokers, 1 partition of internal topics under-replicated",
            False,
        ),
        (
            [node(1, row("orders", 0, damage=["at 9"]), row("orders", 1, offline="EIO")), node(2), node(3)],
            "3 of 3 brokers, 1 log offline, 1 log damaged",
            False,
        ),
        (
            [node(1, *ROWS), node(2, is_voter=False), node(3)],
            "3 of 3 brokers, 1 of 3 voters lost its vote",
            False,
        ),
        (
            [node(1, *ROWS, leader=None), node(2, leader=None), node(3, leader=None)],
            "3 of 3 brokers, the quorum has no leader",
            False,
        ),
    ],
)
def test_the_verdict_counts_what_serves_and_names_what_is_wrong(
    answers: list[Answer], expected: str, is_well: bool
) -> None:
    assert verdict_of(answers) == (expected, is_well)


def test_a_deposed_leader_that_still_answers_does_not_hide_its_successor() -> None:
    old, new = row("orders", 0, (1, 2, 3)), row("orders", 0, (2, 3), leader=2, leader_epoch=1)
    assert "1 partition under-replicated" in verdict_of([node(1, old), node(2, new), node(3)]).text
    assert "1 partition under-replicated" in verdict_of([node(2, new), node(1, old), node(3)]).text


def test_a_full_disk_is_part_of_the_verdict() -> None:
    assert verdict_of([node(1, *ROWS), node(2), node(3)], 1) == ("3 of 3 brokers, 1 disk full", False)
