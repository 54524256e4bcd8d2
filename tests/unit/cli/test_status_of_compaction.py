"""What `highwater status` makes of the cleaner's words."""

from __future__ import annotations

from typing import Any

import pytest
from rich.console import Console

from highwater.cli.status import show
from highwater.cli.status_topics import Address

IDLE: dict[str, Any] = {
    "clean_end": 40,
    "dirty_bytes": 1000,
    "dirty_ratio": 0.25,
    "min_cleanable_dirty_ratio": 0.5,
    "due": False,
    "under_way": None,
    "last": None,
    "failed": None,
}
LAST = {"seconds_ago": 61.2, "seconds": 2.04, "bytes_written": 300}


def shown(compaction: dict[str, Any] | None) -> str:
    quorum = {"role": "leader", "leader": 1, "epoch": 1, "high_watermark": 1, "voters": [1]}
    part = {
        "topic": "prices",
        "partition": 0,
        "role": "follower",
        "leader": 2,
        "offline": None,
        "unwritten": None,
        "damage": [],
        "changes": [],
    }
    part |= {"compaction": compaction}
    console = Console(width=200)
    with console.capture() as printed:
        console.print(show([(Address("1", "here:1"), {"quorum": quorum, "partitions": [part]})], None, 0))
    return printed.get()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, ["prices-0", "40", "1000 bytes, 25%", "50%"]),
        ({"due": True}, ["due"]),
        ({"under_way": {"share": 0.421}}, ["42% done"]),
        ({"last": LAST}, ["61 s ago in 2.0 s, 300 bytes stayed"]),
        ({"failed": {"tried_again": True, "reason": "[Errno 28]"}}, ["failed, is tried again: [Errno 28]"]),
        ({"failed": {"tried_again": False, "reason": "damaged"}}, ["failed, not before a restart: damaged"]),
    ],
)
def test_a_compacted_log_is_shown_with_its_dirt_and_its_cleaning(changes: dict[str, Any], words: list[str]) -> None:
    text = shown({**IDLE, **changes})
    assert "Compacted logs" in text
    for each in words:
        assert each in text


def test_status_does_not_mention_compaction_if_no_topic_is_compacted() -> None:
    assert "Compacted logs" not in shown(None)
