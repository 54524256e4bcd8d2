"""A member of a group, in the classic protocol with the range assignor. It stays a member between the caller's
polls."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from highwater.client.answers import check
from highwater.client.client import Client
from highwater.client.connection import Connection
from highwater.client.failures import Disconnected, RequestTimeout
from highwater.client.groups import Committed, Groups
from highwater.errors import Code, KafkaError, code_of
from highwater.model import TopicPartition
from highwater.wire.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from highwater.wire.messages.consumer_protocol_assignment import TopicPartition as AssignedTopic
from highwater.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from highwater.wire.messages.heartbeat_request import HeartbeatRequest
from highwater.wire.messages.heartbeat_response import HeartbeatResponse
from highwater.wire.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from highwater.wire.messages.join_group_response import JoinGroupResponse, JoinGroupResponseMember
from highwater.wire.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from highwater.wire.messages.leave_group_response import LeaveGroupResponse
from highwater.wire.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from highwater.wire.messages.sync_group_response import SyncGroupResponse

SESSION_SECONDS = 45.0
REBALANCE_SECONDS = 300.0
HEARTBEAT_SECONDS = 3.0
_RANGE, _KIND = "range", "consumer"
_PROTOCOL_VERSION = 1
_SYNC_NAMES_PROTOCOL_FROM = 5
_LEAVE_BY_LIST_FROM = 3
_JOIN_AGAIN = (Code.REBALANCE_IN_PROGRESS, Code.ILLEGAL_GENERATION, Code.UNKNOWN_MEMBER_ID)


def by_range(members: Mapping[str, Sequence[str]], counts: Mapping[str, int]) -> dict[str, list[TopicPartition]]:
    """The range assignment: the partitions of each topic in ranges of about equal length, for its subscribers in the
    order of their ids."""
    assigned: dict[str, list[TopicPartition]] = {member: [] for member in members}
    for topic, count in sorted(counts.items()):
        readers = sorted(member for member, topics in members.items() if topic in topics)
        first = 0
        for number, member in enumerate(readers):
            length = count // len(readers) + (number < count % len(readers))
            assigned[member] += [TopicPartition(topic, index) for index in range(first, first + length)]
            first += length
    return assigned


class GroupMember:
    def __init__(self, client: Client, group_id: str, topics: Callable[[], Sequence[str]]) -> None:
        """`topics` is asked for at each joining."""
        self._client = client
        self._group_id = group_id
        self._topics = topics
        self._groups = Groups(client)
        self._member_id = ""
        self._generation = -1
        self._connection: Connection | None = None
        self._beaten = 0.0
        self.assigned: tuple[TopicPartition, ...] = ()

    def keep_up(self, before_joining: Callable[[], None]) -> bool:
        """Sends a heartbeat if one is due, and joins if that is needed. Returns whether the assignment is a new one."""
        if self._generation >= 0 and time.monotonic() - self._beaten < HEARTBEAT_SECONDS:
            return False
        if self._generation >= 0 and self._beat():
            return False
        if self._generation >= 0:
            before_joining()
        self._client.retrying(self._join)
        return True

    def committed(self) -> dict[TopicPartition, Committed]:
        return self._groups.committed(self._group_id)

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Raises the coordinator's error, also REBALANCE_IN_PROGRESS."""
        self._groups.commit(self._group_id, offsets, self._generation, self._member_id)

    def leave(self) -> None:
        if not self._member_id:
            return
        connection = self._coordinator()
        if connection.version(LeaveGroupRequest) >= _LEAVE_BY_LIST_FROM:
            members = [MemberIdentity(member_id=self._member_id)]
            request = LeaveGroupRequest(group_id=self._group_id, members=members)
        else:
            request = LeaveGroupRequest(group_id=self._group_id, member_id=self._member_id)
        connection.request(request, LeaveGroupResponse)
        self._member_id, self._generation = "", -1

    def _coordinator(self) -> Connection:
        if self._connection is None or not self._connection.is_open:
            self._connection = self._client.connection(self._groups.coordinator(self._group_id).endpoint)
        return self._connection

    def _beat(self) -> bool:
        """Whether the generation continues. If the coordinator is lost, the next heartbeat looks for it."""
        request = HeartbeatRequest(group_id=self._group_id, generation_id=self._generation, member_id=self._member_id)
        self._beaten = time.monotonic()
        try:
            code = code_of(self._coordinator().request(request, HeartbeatResponse).error_code)
        except (Disconnected, RequestTimeout):
            self._connection = None
            return True
        if code in (Code.NOT_COORDINATOR, Code.COORDINATOR_NOT_AVAILABLE):
            self._connection = None
            return True
        if code in _JOIN_AGAIN:
            self._forget_if_unknown(code)
            return False
        check(code)
        return True

    def _forget_if_unknown(self, code: int) -> None:
        if code == Code.UNKNOWN_MEMBER_ID:
            self._member_id = ""

    def _join(self) -> None:
        topics = list(self._topics())
        subscription = ConsumerProtocolSubscription(topics=topics).encode(_PROTOCOL_VERSION)
        while True:
            joined = self._asked_to_join(_PROTOCOL_VERSION.to_bytes(2, "big") + subscription)
            if joined.error_code == Code.MEMBER_ID_REQUIRED:
                self._member_id = joined.member_id
                continue
            if joined.error_code in _JOIN_AGAIN:
                self._forget_if_unknown(joined.error_code)
                continue
            self._check(joined.error_code)
            self._member_id, self._generation = joined.member_id, joined.generation_id
            synced = self._synced(self._plan(joined.members) if joined.leader == joined.member_id else {})
            if synced.error_code in _JOIN_AGAIN:
                self._forget_if_unknown(synced.error_code)
                continue
            self._check(synced.error_code)
            self._beaten = time.monotonic()
            assignment = ConsumerProtocolAssignment.decode(synced.assignment[2:], _PROTOCOL_VERSION)
            self.assigned = tuple(
                TopicPartition(each.topic, index)
                for each in assignment.assigned_partitions
                for index in each.partitions
            )
            return

    def _check(self, code: int) -> None:
        """Raises the error. A retry looks for the coordinator again."""
        if code:
            self._connection = None
        check(code)

    def _asked_to_join(self, subscription: bytes) -> JoinGroupResponse:
        request = JoinGroupRequest(
            group_id=self._group_id,
            session_timeout_ms=int(SESSION_SECONDS * 1000),
            rebalance_timeout_ms=int(REBALANCE_SECONDS * 1000),
            member_id=self._member_id,
            protocol_type=_KIND,
            protocols=[JoinGroupRequestProtocol(name=_RANGE, metadata=subscription)],
        )
        return self._coordinator().request(request, JoinGroupResponse, timeout=REBALANCE_SECONDS + 5)

    def _plan(self, members: Sequence[JoinGroupResponseMember]) -> dict[str, list[TopicPartition]]:
        wanted = {
            member.member_id: ConsumerProtocolSubscription.decode(
                member.metadata[2:], min(int.from_bytes(member.metadata[:2], "big"), _PROTOCOL_VERSION)
            ).topics
            for member in members
        }
        counts: dict[str, int] = {}
        for topic in sorted({topic for topics in wanted.values() for topic in topics}):
            self._client.forget(topic)
            try:
                counts[topic] = len(self._client.topic(topic).partitions)
            except KafkaError as missing:
                if missing.code is not Code.UNKNOWN_TOPIC_OR_PARTITION:
                    raise
        return by_range(wanted, counts)

    def _synced(self, plan: Mapping[str, Sequence[TopicPartition]]) -> SyncGroupResponse:
        connection = self._coordinator()
        named = connection.version(SyncGroupRequest) >= _SYNC_NAMES_PROTOCOL_FROM
        request = SyncGroupRequest(
            group_id=self._group_id,
            generation_id=self._generation,
            member_id=self._member_id,
            protocol_type=_KIND if named else None,
            protocol_name=_RANGE if named else None,
            assignments=[
                SyncGroupRequestAssignment(member_id=member, assignment=_encoded(places))
                for member, places in plan.items()
            ],
        )
        return connection.request(request, SyncGroupResponse, timeout=REBALANCE_SECONDS + 5)


def _encoded(places: Sequence[TopicPartition]) -> bytes:
    topics: dict[str, list[int]] = {}
    for topic, index in places:
        topics.setdefault(topic, []).append(index)
    assignment = ConsumerProtocolAssignment(
        assigned_partitions=[AssignedTopic(topic=topic, partitions=indexes) for topic, indexes in topics.items()]
    )
    return _PROTOCOL_VERSION.to_bytes(2, "big") + assignment.encode(_PROTOCOL_VERSION)
