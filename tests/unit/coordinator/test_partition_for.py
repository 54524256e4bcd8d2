"""Which partition coordinates a group: every broker and Kafka itself must agree."""

from __future__ import annotations

import pytest

from highwater.coordinator.coordinator import partition_for


@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        ("", 0),
        ("a", 97),
        ("group", 98629247),
        ("console-consumer-1", None),
        ("polygenelubricants", -(2**31)),
        ("größer", None),
        ("\U0001f600", 1772899),
    ],
)
def test_the_partition_of_a_group_follows_javas_string_hash(key: str, hashed: int | None) -> None:
    units = key.encode("utf-16-be")
    expected = 0
    for at in range(0, len(units), 2):
        expected = expected * 31 + int.from_bytes(units[at : at + 2], "big")
    expected = (expected + 2**31) % 2**32 - 2**31
    assert hashed is None or expected == hashed
    assert partition_for(key, 50) == (0 if expected == -(2**31) else abs(expected) % 50)
