from __future__ import annotations

import pytest

from highwater.cli.java_order import capacity_for, described_order, hash_map_order, string_hash


@pytest.mark.parametrize(
    ("text", "hashed"),
    [("", 0), ("a", 97), ("hello", 99162322), ("retention.ms", -1339220362), ("\U0001f30a", 1773134)],
)
def test_strings_hash_as_in_java(text: str, hashed: int) -> None:
    assert string_hash(text) == hashed & 0xFFFFFFFF


def test_a_small_map_is_in_bucket_order() -> None:
    names = ["b", "q", "a", "cleanup.policy", "A"]
    assert hash_map_order(names, string_hash) == ["q", "a", "A", "b", "cleanup.policy"]


def test_a_map_that_grew_is_in_the_order_of_its_larger_table() -> None:
    """As Java prints the keys of such a map."""
    topics = [f"topic-{number}" for number in range(30)]
    numbers = [6, 7, 8, 9, 0, 1, 2, 3, 10, 4, 11, 5, 12, *range(24, 30), *range(20, 24), *range(13, 20)]
    assert hash_map_order(topics, string_hash) == [f"topic-{number}" for number in numbers]


@pytest.mark.parametrize(("count", "capacity"), [(0, 1), (1, 1), (2, 2), (3, 4), (5, 8), (8, 8), (9, 16)])
def test_a_map_made_to_measure_has_a_power_of_two(count: int, capacity: int) -> None:
    assert capacity_for(count) == capacity


def test_topics_come_as_apache_s_admin_client_hands_them_on() -> None:
    """As seen on a cluster with these topics."""
    assert described_order(["a.b_c", "cp", "t1", "x1"]) == ["x1", "a.b_c", "cp", "t1"]
    assert described_order(["a.b_c", "t1", "x1"]) == ["a.b_c", "x1", "t1"]
    assert described_order([]) == []
