"""A shard on virtual time, with a log behind it and clients that remember what they were answered."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from struct import pack
from typing import TypeVar

from highwater.effects import Answer, Caller, Effect, Now, Record, Write
from highwater.errors import Code
from highwater.groups import GroupSettings, GroupShard, combined
from highwater.wire import records
from highwater.wire.codec import Message, Struct
from highwater.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from highwater.wire.messages.delete_groups_response import DeleteGroupsResponse
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
from highwater.wire.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from highwater.wire.messages.offset_delete_response import OffsetDeleteResponse
from highwater.wire.messages.offset_fetch_request import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from highwater.wire.messages.offset_fetch_response import OffsetFetchResponseGroup
from highwater.wire.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from highwater.wire.messages.sync_group_response import SyncGroupResponse

R = TypeVar("R", bound=Struct)

G = "orders"
SESSION_MS = 10_000
REBALANCE_MS = 60_000
DAY_MS = 24 * 3_600_000
START_MS = 1_700_000_000_000


def subscription(*topics: str) -> bytes:
    return pack(">h", 1) + ConsumerProtocolSubscription(topics=list(topics)).encode(1)


RANGE = {"range": subscription("t")}


def numbers() -> Iterator[str]:
    count = 0
    while True:
        count += 1
        yield f"u{count}"


class Bench:
    """Writes are committed at once, unless `holds` is set: then they wait for `commit`, `fail` or `delay`."""

    def __init__(
        self, settings: GroupSettings | None = None, log: Sequence[Record] = (), now: Now | None = None
    ) -> None:
        self.settings = settings or GroupSettings()
        self.now = now or Now(1000.0, START_MS)
        self.log = list(log)
        self.holds = False
        self.most_bytes = 1 << 20
        """What a batch may have; a larger one is refused."""
        self.room = 1 << 30
        """What all that is kept may take."""
        self.pauses = False
        """What is done in pieces is not gone on with, but by `proceed`."""
        self.refused: list[Write] = []
        self._proceeds = False
        self.writes: list[Write] = []
        self.open: dict[int, int] = {}
        """The requests that wait, each with its version."""
        self.answers: dict[int, Struct] = {}
        self._unique = numbers()
        self._tokens = 0
        self.shard = self._loaded()

    def _loaded(self) -> GroupShard:
        self.shard = GroupShard(self.settings, lambda: next(self._unique), lambda: self.most_bytes, self.has_room)
        for key, value in self.log:
            self.shard.replay(key, value)
        self.do(self.shard.loaded(self.now))
        return self.shard

    def has_room(self, more: int) -> bool:
        return more <= 0 or self.shard.size + more <= self.room

    def fail_over(self) -> None:
        """The coordinator moves: what waits is refused, what is in the log is loaded."""
        self.do(self.shard.resigned(self.now))
        self.writes.clear()
        self._loaded()

    # Effects

    def do(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case Answer(token, response):
                    assert isinstance(token, int) and token in self.open, "an answer to nobody who waits"
                    encoded(response, self.open.pop(token))
                    self.answers[token] = response
                case Write():
                    assert effect.records
                    self._write(effect)
        if not self.pauses and not self._proceeds:
            self._proceeds = True
            while self.shard.is_behind:
                self.proceed()
            self._proceeds = False

    def _write(self, write: Write) -> None:
        if len(records.build([(0, key, value, ()) for key, value in write.records])) > self.most_bytes:
            self.refused.append(write)
            self.do(self.shard.failed(write, Code.MESSAGE_TOO_LARGE, self.now))
            return
        self.writes.append(write)
        if not self.holds:
            self.commit()

    def proceed(self) -> None:
        self.do(self.shard.proceed(self.now))

    def commit(self) -> None:
        """The oldest write is in the log for good."""
        write = self.writes.pop(0)
        self.log += write.records
        self.do(self.shard.committed(write, self.now))

    def commit_all(self) -> None:
        while self.writes:
            self.commit()

    def fail(self, code: Code, index: int = 0) -> None:
        self.do(self.shard.failed(self.writes.pop(index), code, self.now))

    def delay(self) -> None:
        self.do(self.shard.overdue(self.writes[0], self.now))

    # Time

    def pass_time(self, seconds: float) -> None:
        """Deadlines expire on the way, each at its time."""
        end = self.now.monotonic + seconds
        while (when := self.shard.next_deadline) is not None and when <= end:
            self._set_time(max(when, self.now.monotonic))
            self.do(self.shard.expired(self.now))
        self._set_time(end)

    def _set_time(self, monotonic: float) -> None:
        passed = monotonic - self.now.monotonic
        self.now = Now(monotonic, self.now.wall_ms + round(passed * 1000))

    # Requests

    def caller(self, version: int, client: str = "client") -> Caller:
        self._tokens += 1
        self.open[self._tokens] = version
        return Caller(self._tokens, version, client, "/127.0.0.1")

    def ask_join(
        self,
        member: str = "",
        protocols: Mapping[str, bytes] = RANGE,
        *,
        group: str = G,
        instance: str | None = None,
        kind: str = "consumer",
        version: int = 9,
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
        client: str = "client",
    ) -> int:
        request = JoinGroupRequest(
            group_id=group,
            member_id=member,
            group_instance_id=instance,
            protocol_type=kind,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=data) for name, data in protocols.items()],
        )
        caller = self.caller(version, client)
        self.do(self.shard.join(request, caller, self.now))
        return self._tokens

    def ask_sync(
        self,
        member: str,
        generation: int,
        assignments: Mapping[str, bytes] | None = None,
        *,
        group: str = G,
        instance: str | None = None,
        kind: str | None = None,
        protocol: str | None = None,
        version: int = 5,
    ) -> int:
        request = SyncGroupRequest(
            group_id=group,
            generation_id=generation,
            member_id=member,
            group_instance_id=instance,
            protocol_type=kind,
            protocol_name=protocol,
            assignments=[SyncGroupRequestAssignment(member_id=m, assignment=a) for m, a in (assignments or {}).items()],
        )
        caller = self.caller(version)
        self.do(self.shard.sync(request, caller, self.now))
        return self._tokens

    def heartbeat(self, member: str, generation: int, *, group: str = G, instance: str | None = None) -> Code:
        request = HeartbeatRequest(
            group_id=group, member_id=member, generation_id=generation, group_instance_id=instance
        )
        caller = self.caller(4)
        self.do(self.shard.heartbeat(request, caller, self.now))
        return Code(self.answer(self._tokens, HeartbeatResponse).error_code)

    def ask_leave(
        self, *members: str, instances: Mapping[str, str] | None = None, group: str = G, version: int = 5
    ) -> int:
        """`instances`: group.instance.id to member id."""
        request = LeaveGroupRequest(group_id=group, member_id=members[0] if version < 3 else "")
        if version >= 3:
            request.members = [MemberIdentity(member_id=member) for member in members]
            for instance, member in (instances or {}).items():
                request.members.append(MemberIdentity(member_id=member, group_instance_id=instance))
        caller = self.caller(version)
        self.do(self.shard.leave(request, caller, self.now))
        return self._tokens

    def leave(self, *members: str, instances: Mapping[str, str] | None = None, group: str = G) -> list[Code]:
        response = self.answer(self.ask_leave(*members, instances=instances, group=group), LeaveGroupResponse)
        assert not response.error_code
        return [Code(member.error_code) for member in response.members]

    def ask_commit(
        self,
        offsets: Mapping[tuple[str, int], int],
        member: str = "",
        generation: int = -1,
        *,
        group: str = G,
        instance: str | None = None,
        metadata: str | None = "",
        retention_ms: int = -1,
        epoch: int = -1,
        version: int = 9,
        topic_id: bytes = bytes(16),
    ) -> int:
        request = OffsetCommitRequest(
            group_id=group,
            member_id=member,
            generation_id_or_member_epoch=generation,
            group_instance_id=instance,
            retention_time_ms=retention_ms,
        )
        for (topic, partition), offset in offsets.items():
            one = OffsetCommitRequestPartition(
                partition_index=partition,
                committed_offset=offset,
                committed_leader_epoch=epoch,
                committed_metadata=metadata,
            )
            request.topics.append(OffsetCommitRequestTopic(name=topic, topic_id=topic_id, partitions=[one]))  # type: ignore[arg-type]
        caller = self.caller(version)
        self.do(self.shard.commit_offsets(request, caller, self.now))
        return self._tokens

    def committed_codes(self, token: int) -> list[Code]:
        response = self.answer(token, OffsetCommitResponse)
        return [Code(partition.error_code) for topic in response.topics for partition in topic.partitions]

    def ask_fetch(
        self,
        *places: tuple[str, int],
        group: str = G,
        require_stable: bool = False,
        version: int = 9,
        topic_id: bytes = bytes(16),
    ) -> int:
        topics = [
            OffsetFetchRequestTopics(name=topic, topic_id=topic_id, partition_indexes=[partition])  # type: ignore[arg-type]
            for topic, partition in places
        ]
        request = OffsetFetchRequestGroup(group_id=group, topics=topics if places else None)
        self.do(self.shard.fetch_offsets(request, self.caller(version), require_stable=require_stable))
        return self._tokens

    def offsets(self, group: str = G) -> dict[tuple[str, int], int]:
        response = self.answer(self.ask_fetch(group=group), OffsetFetchResponseGroup)
        assert not response.error_code
        return {(t.name, p.partition_index): p.committed_offset for t in response.topics for p in t.partitions}

    def delete_offsets(self, *places: tuple[str, int], group: str = G) -> tuple[Code, list[Code]]:
        response = self.answer(self.ask_delete_offsets(*places, group=group), OffsetDeleteResponse)
        codes = [Code(partition.error_code) for topic in response.topics for partition in topic.partitions]
        return Code(response.error_code), codes

    def ask_delete_offsets(self, *places: tuple[str, int], group: str = G) -> int:
        topics = [
            OffsetDeleteRequestTopic(name=t, partitions=[OffsetDeleteRequestPartition(partition_index=p)])
            for t, p in places
        ]
        request = OffsetDeleteRequest(group_id=group, topics=topics)
        self.do(self.shard.delete_offsets(request, self.caller(0)))
        return self._tokens

    def ask_delete_groups(self, *groups: str) -> int:
        self.do(self.shard.delete_groups(groups, self.caller(2), self.now))
        return self._tokens

    def delete_groups(self, *groups: str) -> list[Code]:
        return self.deleted_codes(self.ask_delete_groups(*groups))

    def deleted_codes(self, token: int) -> list[Code]:
        return [Code(result.error_code) for result in self.answer(token, DeleteGroupsResponse).results]

    def topics_deleted(self, topics: Mapping[str, bytes]) -> None:
        self.do(self.shard.topics_deleted(topics))  # type: ignore[arg-type]

    def topics_are(self, topics: Mapping[str, bytes]) -> None:
        self.do(self.shard.topics_are(topics.get))  # type: ignore[arg-type]

    # Answers

    def answer(self, token: int, kind: type[R]) -> R:
        assert token not in self.open, "it still waits"
        response = self.answers[token]
        assert isinstance(response, kind)
        return response

    def waits(self, token: int) -> bool:
        return token in self.open

    def joined(self, token: int) -> JoinGroupResponse:
        response = self.answer(token, JoinGroupResponse)
        assert response.error_code == Code.NONE
        return response

    def refusal(self, token: int) -> Code:
        response = self.answers[token]
        assert isinstance(response, JoinGroupResponse | SyncGroupResponse | LeaveGroupResponse)
        return Code(response.error_code)

    def assignment(self, token: int) -> bytes:
        response = self.answer(token, SyncGroupResponse)
        assert response.error_code == Code.NONE
        return response.assignment

    def state(self, group: str = G) -> str:
        return self.shard.describe(group, 5).group_state

    # Several requests

    def new_id(self, *, group: str = G, client: str = "client", session_ms: int = SESSION_MS) -> str:
        """The first half of a join: an id to join with."""
        response = self.answer(self.ask_join(group=group, client=client, session_ms=session_ms), JoinGroupResponse)
        assert response.error_code == Code.MEMBER_ID_REQUIRED
        return response.member_id

    def assign(self, generation: int, members: Sequence[str], leader: str, *, group: str = G) -> None:
        """Every member syncs; each is assigned its own id, so that an assignment of another member is noticed."""
        tokens = {m: self.ask_sync(m, generation, group=group) for m in members if m != leader}
        tokens[leader] = self.ask_sync(leader, generation, {m: m.encode() for m in members}, group=group)
        if not self.holds:
            assert {m: self.assignment(token) for m, token in tokens.items()} == {m: m.encode() for m in members}

    def stable_group(self, size: int = 2, *, group: str = G, instances: Sequence[str] = ()) -> list[str]:
        """A group of `size` dynamic members, or of these static ones; generation 1, led by the first."""
        if instances:
            tokens = [self.ask_join(instance=instance, group=group) for instance in instances]
        else:
            tokens = [self.ask_join(self.new_id(group=group), group=group) for _ in range(size)]
        self.pass_time(2 * self.settings.initial_rebalance_delay_ms / 1000)
        members = [self.joined(token).member_id for token in tokens]
        self.assign(1, members, members[0], group=group)
        return members

    def keep_alive(self, seconds: float, generation: int, *members: str) -> None:
        """Time passes, with heartbeats in between."""
        for _ in range(int(seconds)):
            self.pass_time(1)
            for member in members:
                self.heartbeat(member, generation)


def encoded(response: Struct, version: int) -> bytes:
    """Every answer must fit the version that was asked in."""
    if isinstance(response, OffsetFetchResponseGroup):
        response = combined([response], version)
    assert isinstance(response, Message)
    return response.encode(version)
