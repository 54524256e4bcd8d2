"""A group of which a small question has a large answer, and peers that ask it and do not read."""

from __future__ import annotations

from contextlib import ExitStack

from highwater.wire.messages.describe_groups_request import DescribeGroupsRequest
from highwater.wire.messages.find_coordinator_request import FindCoordinatorRequest
from highwater.wire.messages.find_coordinator_response import FindCoordinatorResponse
from highwater.wire.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from highwater.wire.messages.join_group_response import JoinGroupResponse
from highwater.wire.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from highwater.wire.messages.sync_group_response import SyncGroupResponse
from tests.cluster.nodes import wait_until
from tests.cluster.peer import Peer, asked

GROUP = "large"


def make_large_group(port: int) -> None:
    """Of one member, whose metadata and assignment take half a megabyte."""
    metadata = bytes(250_000)
    join = JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=300_000,
        rebalance_timeout_ms=1000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
    )
    with Peer(port) as peer:
        find = FindCoordinatorRequest(key_type=0, coordinator_keys=[GROUP])
        wait_until(lambda: peer.ask(find, 4, FindCoordinatorResponse).coordinators[0].error_code == 0)

        def joined() -> JoinGroupResponse | None:
            answer = peer.ask(join, 5, JoinGroupResponse)
            join.member_id = answer.member_id
            return answer if answer.error_code == 0 else None

        wait_until(joined)
        answer = joined()
        assert answer is not None
        assigned = SyncGroupRequestAssignment(member_id=join.member_id, assignment=metadata)
        sync = SyncGroupRequest(
            group_id=GROUP, generation_id=answer.generation_id, member_id=join.member_id, assignments=[assigned]
        )
        assert peer.ask(sync, 3, SyncGroupResponse).error_code == 0


def leave_unread(port: int, peers: ExitStack, count: int) -> None:
    """Pipeline small questions, and read none of the answers: 20 MB for each peer."""
    wanted = b"".join(asked(DescribeGroupsRequest(groups=[GROUP]), 5, number) for number in range(40))
    for _ in range(count):
        peers.enter_context(Peer(port, receive_buffer=4096)).send_at_most(wanted)
