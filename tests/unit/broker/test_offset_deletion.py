"""OffsetDelete that does not succeed: the answer says why, and the offsets are still there."""

from __future__ import annotations

import errno

import pytest

from highwater.coordinator.coordinator import partition_for
from highwater.errors import Code
from highwater.wire.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from highwater.wire.messages.join_group_response import JoinGroupResponse
from highwater.wire.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from highwater.wire.messages.offset_delete_response import OffsetDeleteResponse
from highwater.world import Poisoned
from tests.unit.broker.grouping import OFFSETS, commit, committed, joined, leave, serving, synced
from tests.unit.broker.living import DIRECTORY, NODE, Living
from tests.unit.groups.bench import subscription

Places = dict[str, list[int]]


def delete(living: Living, places: Places, group: str = "g") -> tuple[int, dict[str, list[tuple[int, int]]]]:
    """The error of the response, and (partition, error) by topic."""
    topics = [
        OffsetDeleteRequestTopic(
            name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in indexes]
        )
        for topic, indexes in places.items()
    ]
    answer = living.ask(OffsetDeleteRequest(group_id=group, topics=topics), OffsetDeleteResponse, 0)
    rows = {each.name: [(row.partition_index, row.error_code) for row in each.partitions] for each in answer.topics}
    return answer.error_code, rows


def join(living: Living, topic: str, kind: str = "consumer") -> JoinGroupResponse:
    """A member of `g` that reads this topic."""

    def request(member: str) -> JoinGroupRequest:
        return JoinGroupRequest(
            group_id="g",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=20_000,
            member_id=member,
            protocol_type=kind,
            protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription(topic))],
        )

    refused = living.ask(request(""), JoinGroupResponse, 9)
    assert refused.error_code == Code.MEMBER_ID_REQUIRED
    answer = living.ask(request(refused.member_id), JoinGroupResponse, 9)
    assert answer.error_code == Code.NONE
    return answer


def test_offsets_of_a_topic_that_a_group_is_subscribed_to_stay_and_those_of_another_topic_go() -> None:
    with serving() as living:
        living.create_topic("u", 1)
        member = join(living, "t")
        synced(living, member)
        commit(living, 5, 0, 1, member=member.member_id, generation=member.generation_id)
        code, rows = delete(living, {"t": [1, 0, 7], "u": [0], "none": [0]})
        assert code == Code.NONE
        assert rows == {
            "t": [
                (1, Code.GROUP_SUBSCRIBED_TO_TOPIC),
                (0, Code.GROUP_SUBSCRIBED_TO_TOPIC),
                (7, Code.UNKNOWN_TOPIC_OR_PARTITION),
            ],
            "u": [(0, Code.NONE)],
            "none": [(0, Code.UNKNOWN_TOPIC_OR_PARTITION)],
        }
        assert committed(living, 0, 1) == [(5, 0), (5, 0)]
        leave(living, member.member_id)
        assert delete(living, {"t": [0]}) == (Code.NONE, {"t": [(0, Code.NONE)]})
        assert committed(living, 0, 1) == [(-1, 0), (5, 0)]


def test_offsets_of_a_group_whose_members_are_no_consumers_stay_while_it_has_members() -> None:
    with serving() as living:
        commit(living, 5)
        member = join(living, "u", kind="connect")
        assert delete(living, {"t": [0], "none": [0]}) == (Code.NON_EMPTY_GROUP, {})
        assert committed(living) == [(5, 0)]
        leave(living, member.member_id)
        assert delete(living, {"t": [0]}) == (Code.NONE, {"t": [(0, Code.NONE)]})


def test_an_unknown_group_has_no_offsets_to_delete() -> None:
    with serving() as living:
        commit(living, 5)
        assert delete(living, {"t": [0], "none": [0]}, "another") == (Code.GROUP_ID_NOT_FOUND, {})
        assert delete(living, {"t": [0]}, "") == (Code.INVALID_GROUP_ID, {})
        assert committed(living) == [(5, 0)]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EMFILE])
def test_offsets_whose_tombstones_cannot_be_written_stay_and_can_be_deleted_later(code: int) -> None:
    """Kafka's code for it sends clients to look for the coordinator again."""
    with serving() as living:
        commit(living, 5, 0, 1)
        log = f"{DIRECTORY}/{OFFSETS}-{partition_for('g', 5)}/*.log"
        living.sim.storage(NODE).fail("append", log, code)
        assert delete(living, {"t": [0], "none": [0]}) == (Code.NOT_COORDINATOR, {})
        assert committed(living, 0, 1) == [(5, 0), (5, 0)]
        assert delete(living, {"t": [0]}) == (Code.NONE, {"t": [(0, Code.NONE)]})
        assert committed(living, 0, 1) == [(-1, 0), (5, 0)]


def test_a_coordinator_whose_disk_fails_amid_an_offset_deletion_is_one_no_more() -> None:
    with serving() as living:
        commit(living, 5)
        log = f"{DIRECTORY}/{OFFSETS}-{partition_for('g', 5)}/*.log"
        living.sim.storage(NODE).fail("append", log, error=Poisoned(errno.EIO, "nobody knows what was kept"))
        assert delete(living, {"t": [0]}) == (Code.NOT_COORDINATOR, {})
        assert delete(living, {"t": [0]}) == (Code.NOT_COORDINATOR, {})


def test_a_member_that_joined_is_served_after_a_deletion_was_refused() -> None:
    with serving() as living:
        member = joined(living)
        assert synced(living, member).assignment == b"mine"
        commit(living, 5, member=member.member_id, generation=member.generation_id)
        # Its subscription cannot be read, so it may be any topic.
        assert delete(living, {"t": [0]}) == (Code.NONE, {"t": [(0, Code.GROUP_SUBSCRIBED_TO_TOPIC)]})
        assert commit(living, 6, member=member.member_id, generation=member.generation_id) == [Code.NONE]
