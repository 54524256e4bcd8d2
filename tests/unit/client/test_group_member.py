"""How a leader that is ours shares partitions out."""

from __future__ import annotations

import pytest

from highwater.client.group_member import by_range
from highwater.client.groups import assigned
from highwater.model import TopicPartition
from highwater.wire.messages.describe_groups_response import DescribedGroupMember


def places(topic: str, *indexes: int) -> list[TopicPartition]:
    return [TopicPartition(topic, index) for index in indexes]


def test_partitions_go_in_rows_to_members_by_id_and_the_first_have_one_more() -> None:
    assert by_range({"b": ["t"], "a": ["t"], "c": ["t"]}, {"t": 7}) == {
        "a": places("t", 0, 1, 2),
        "b": places("t", 3, 4),
        "c": places("t", 5, 6),
    }


def test_each_topic_is_shared_among_its_readers() -> None:
    assert by_range({"a": ["t"], "b": ["t", "u"], "c": []}, {"t": 2, "u": 2, "v": 0}) == {
        "a": places("t", 0),
        "b": [*places("t", 1), *places("u", 0, 1)],
        "c": [],
    }


@pytest.mark.parametrize("data", [b"", b"\0"])
def test_a_member_without_an_assignment_has_none(data: bytes) -> None:
    assert assigned(DescribedGroupMember(member_assignment=data)) == []
