"""Peers that make a node keep as much of groups as it takes."""

from __future__ import annotations

from contextlib import ExitStack

from highwater.wire.messages.find_coordinator_request import FindCoordinatorRequest
from highwater.wire.messages.find_coordinator_response import FindCoordinatorResponse
from highwater.wire.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from highwater.wire.messages.join_group_response import JoinGroupResponse
from highwater.wire.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from highwater.wire.messages.offset_commit_response import OffsetCommitResponse
from tests.cluster.nodes import wait_until
from tests.cluster.peer import Peer, asked, decoded

PEERS = 20
HALF_AN_HOUR = 1_800_000


def await_coordinator(port: int) -> None:
    find = FindCoordinatorRequest(key_type=0, coordinator_keys=["any"])
    with Peer(port) as peer:
        wait_until(lambda: peer.ask(find, 4, FindCoordinatorResponse).coordinators[0].error_code == 0)
        wait_until(lambda: _joined(peer, "awaited", b"").error_code != 14)


def _join(group: str, metadata: bytes) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=HALF_AN_HOUR,
        rebalance_timeout_ms=HALF_AN_HOUR,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
    )


def _joined(peer: Peer, group: str, metadata: bytes) -> JoinGroupResponse:
    return peer.ask(_join(group, metadata), 5, JoinGroupResponse)


def join_many_groups(port: int, size: int = 1_000_000, each: int = 10) -> list[int]:
    """With so much metadata each, and never to be heard of again. Returns the codes of the answers."""
    with ExitStack() as stack:
        peers = [stack.enter_context(Peer(port, 120.0)) for _ in range(PEERS)]
        for number, peer in enumerate(peers):
            wanted = [asked(_join(f"{size}-{number}-{at}", bytes(size)), 3) for at in range(each)]
            peer.send(*wanted)
        answers = [peer.answer() for peer in peers for _ in range(each)]
    return [decoded(answer, JoinGroupResponse, 3, 1).error_code for answer in answers if answer is not None]


def commit_for_many_groups(port: int, topic: str, partitions: int, each: int, name_bytes: int = 10) -> list[int]:
    """With the longest metadata that they may have. Returns the code of each answer's first offset."""
    with ExitStack() as stack:
        peers = [stack.enter_context(Peer(port, 120.0)) for _ in range(PEERS)]
        rows = [
            OffsetCommitRequestPartition(partition_index=index, committed_offset=1, committed_metadata="m" * 4_096)
            for index in range(partitions)
        ]
        for number, peer in enumerate(peers):
            for at in range(each):
                group = f"{number}-{at}-".ljust(name_bytes, "g")
                topics = [OffsetCommitRequestTopic(name=topic, partitions=rows)]
                wanted = OffsetCommitRequest(group_id=group, generation_id_or_member_epoch=-1, topics=topics)
                peer.send(asked(wanted, 7))
        answers = [peer.answer() for peer in peers for _ in range(each)]
    responses = [decoded(answer, OffsetCommitResponse, 7, 1) for answer in answers if answer is not None]
    return [answer.topics[0].partitions[0].error_code for answer in responses]
