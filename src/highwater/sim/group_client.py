"""A consumer of a group on the virtual clock. It sends its requests to the present coordinator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from highwater.errors import Code, KafkaError, code_of
from highwater.model import Endpoint, TopicPartition
from highwater.net.client import CallFailed
from highwater.sim.client import Client
from highwater.wire.codec import Message
from highwater.wire.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from highwater.wire.messages.consumer_protocol_assignment import TopicPartition as AssignedTopic
from highwater.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from highwater.wire.messages.find_coordinator_request import FindCoordinatorRequest
from highwater.wire.messages.find_coordinator_response import FindCoordinatorResponse
from highwater.wire.messages.heartbeat_request import HeartbeatRequest
from highwater.wire.messages.heartbeat_response import HeartbeatResponse
from highwater.wire.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from highwater.wire.messages.join_group_response import JoinGroupResponse
from highwater.wire.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from highwater.wire.messages.leave_group_response import LeaveGroupResponse
from highwater.wire.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from highwater.wire.messages.offset_commit_response import OffsetCommitResponse
from highwater.wire.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from highwater.wire.messages.offset_fetch_response import OffsetFetchResponse
from highwater.wire.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from highwater.wire.messages.sync_group_response import SyncGroupResponse

M = TypeVar("M", bound=Message)
ELSEWHERE = (Code.NOT_COORDINATOR, Code.COORDINATOR_NOT_AVAILABLE)
SESSION_MS = 6_000
REBALANCE_MS = 3_000
_KIND, _PROTOCOL = "consumer", "range"
_VERSION = bytes(2)
_BY_NAME = {OffsetCommitRequest: 9, OffsetFetchRequest: 9}
"""The last versions that name topics by name."""


class Membership(NamedTuple):
    member_id: str
    generation: int
    partitions: tuple[TopicPartition, ...] = ()


class GroupClient:
    """Raises KafkaError for an error of the coordinator, and CallFailed if it does not answer. If the error sends the
    client to another broker, the coordinator is looked up again."""

    def __init__(
        self,
        client: Client,
        group_id: str,
        topic: str,
        seconds: float = 5.0,
        instance_id: str | None = None,
        session_ms: int = SESSION_MS,
    ) -> None:
        self.client = client
        self.group_id = group_id
        self._topic = topic
        self._seconds = seconds
        self._instance_id = instance_id
        self._session_ms = session_ms
        self._coordinator: Endpoint | None = None

    async def find(self) -> Endpoint:
        if self._coordinator is None:
            request = FindCoordinatorRequest(coordinator_keys=[self.group_id])
            answer = await self.client.ask_any(request, FindCoordinatorResponse, self._seconds)
            (found,) = answer.coordinators
            _check(found.error_code)
            self._coordinator = Endpoint(found.host, found.port)
        return self._coordinator

    async def ask(self, request: Message, response: type[M]) -> M:
        try:
            at = await self.find()
            return await self.client.ask(at, request, response, self._seconds, _BY_NAME.get(type(request)))
        except CallFailed:
            self._coordinator = None
            raise

    def _check(self, code: int) -> None:
        if code in ELSEWHERE:
            self._coordinator = None
        _check(code)

    # Membership

    async def join(self, member_id: str = "") -> Membership:
        """Joins and waits for the end of a rebalance. The leader of the generation assigns the partitions in turn."""
        joined = await self._join(member_id)
        if joined.error_code == Code.MEMBER_ID_REQUIRED:
            joined = await self._join(joined.member_id)
        self._check(joined.error_code)
        dealt = {}
        if joined.leader == joined.member_id:
            dealt = await self._dealt([member.member_id for member in joined.members])
        synced = await self.ask(
            SyncGroupRequest(
                group_id=self.group_id,
                generation_id=joined.generation_id,
                member_id=joined.member_id,
                group_instance_id=self._instance_id,
                protocol_type=_KIND,
                protocol_name=_PROTOCOL,
                assignments=[
                    SyncGroupRequestAssignment(member_id=each, assignment=held) for each, held in dealt.items()
                ],
            ),
            SyncGroupResponse,
        )
        self._check(synced.error_code)
        return Membership(joined.member_id, joined.generation_id, _partitions(synced.assignment))

    async def _join(self, member_id: str) -> JoinGroupResponse:
        subscription = _VERSION + ConsumerProtocolSubscription(topics=[self._topic]).encode(0)
        request = JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=self._session_ms,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=member_id,
            group_instance_id=self._instance_id,
            protocol_type=_KIND,
            protocols=[JoinGroupRequestProtocol(name=_PROTOCOL, metadata=subscription)],
        )
        return await self.ask(request, JoinGroupResponse)

    async def _dealt(self, members: Sequence[str]) -> dict[str, bytes]:
        metadata = await self.client.metadata(self._seconds)
        (topic,) = (topic for topic in metadata.topics if topic.name == self._topic)
        indexes = range(len(topic.partitions))
        return {
            member: _VERSION
            + ConsumerProtocolAssignment(
                assigned_partitions=[AssignedTopic(topic=self._topic, partitions=list(indexes[at :: len(members)]))]
            ).encode(0)
            for at, member in enumerate(sorted(members))
        }

    async def heartbeat(self, member: Membership) -> None:
        request = HeartbeatRequest(
            group_id=self.group_id,
            generation_id=member.generation,
            member_id=member.member_id,
            group_instance_id=self._instance_id,
        )
        self._check((await self.ask(request, HeartbeatResponse)).error_code)

    async def leave(self, member: Membership) -> None:
        request = LeaveGroupRequest(group_id=self.group_id, members=[MemberIdentity(member_id=member.member_id)])
        self._check((await self.ask(request, LeaveGroupResponse)).error_code)

    # Offsets

    async def commit(self, offsets: Mapping[TopicPartition, int], member: Membership = Membership("", -1)) -> None:
        rows = [
            OffsetCommitRequestPartition(partition_index=place.partition, committed_offset=offset)
            for place, offset in offsets.items()
        ]
        request = OffsetCommitRequest(
            group_id=self.group_id,
            generation_id_or_member_epoch=member.generation,
            member_id=member.member_id,
            group_instance_id=self._instance_id,
            topics=[OffsetCommitRequestTopic(name=self._topic, partitions=rows)],
        )
        answer = await self.ask(request, OffsetCommitResponse)
        for topic in answer.topics:
            for row in topic.partitions:
                self._check(row.error_code)

    async def committed(self) -> dict[TopicPartition, int]:
        asked = OffsetFetchRequestGroup(group_id=self.group_id, topics=None)
        answer = await self.ask(OffsetFetchRequest(groups=[asked], require_stable=True), OffsetFetchResponse)
        (group,) = answer.groups
        self._check(group.error_code)
        return {
            TopicPartition(topic.name, row.partition_index): row.committed_offset
            for topic in group.topics
            for row in topic.partitions
        }


def _check(code: int) -> None:
    if code:
        raise KafkaError(code_of(code))


def _partitions(assignment: bytes) -> tuple[TopicPartition, ...]:
    if not assignment:
        return ()
    topics: Iterable[AssignedTopic] = ConsumerProtocolAssignment.decode(assignment[2:], 0).assigned_partitions
    return tuple(TopicPartition(each.topic, index) for each in topics for index in each.partitions)
