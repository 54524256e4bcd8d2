"""The state of a group: its members, its leader, its protocol, and the requests that wait. It has no effects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from highwater.effects import Caller
from highwater.errors import Code
from highwater.groups.footprint import (
    Footprint,
    size_of_group,
    size_of_member,
    size_of_pending,
    size_of_subscription,
    weight_of,
    weight_of_new,
)
from highwater.groups.member import MOST_SAID, Join, Member, Protocols, size_of
from highwater.groups.states import State, check_transition
from highwater.groups.subscription import CONSUMER_PROTOCOL, subscribed_topics

_MAX_GENERATION: Final = 2**31 - 1


class Group:
    """A group has members while it is preparing, completing or stable; an empty or dead group has none.

    Dictionaries keep the order of arrival. Leadership and ties depend on it, so the same history leads to the same
    group again.
    """

    def __init__(self, group_id: str, since_ms: int | None) -> None:
        self.id = group_id
        self.size = size_of_group(group_id)
        """The size of the group with its members, in bytes."""
        self.footprint = Footprint()
        """The sum to which the size is added."""
        self.state = State.EMPTY
        self.came_from = State.DEAD
        self.since_ms = since_ms
        """When the group entered its state; None if an old record does not say so."""
        self.protocol_type: str | None = None
        """None for a group without members ever: a client only commits offsets under its name."""
        self.protocol: str | None = None
        self.generation = 0
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        self.instances: dict[str, str] = {}
        """The member id behind each group.instance.id (KIP-345)."""
        self.pending: dict[str, None] = {}
        """Member ids that were given out and are not used yet (KIP-394)."""
        self.joining: dict[str, Caller] = {}
        self.syncing: dict[str, Caller] = {}
        self.unsynced: dict[str, None] = {}
        """Members that have not asked for their assignment in this generation."""
        self.is_assigned: bool = False
        """The leader's assignment of this generation is written, or is being written."""
        self.delay_ms = 0
        self.delay_left_ms = 0
        self.was_joined = False
        """A new member joined while the first rebalance was delayed."""
        self.subscribed: frozenset[str] | None = None
        self.is_recorded = False
        """The log has, or may have, records of the group."""
        self._support: Counter[str] = Counter()
        self._said = 0

    def move(self, state: State, now_ms: int) -> None:
        check_transition(self.state, state)
        self.came_from, self.state, self.since_ms = self.state, state, now_ms

    # Members

    def add(self, member: Member, protocol_type: str) -> None:
        if not self.members:
            self.protocol_type = protocol_type
        self.members[member.id] = member
        if member.instance_id is not None:
            self.instances[member.instance_id] = member.id
        if self.leader is None:
            self.leader = member.id
        self._count(member.protocols, 1)
        member.weight = weight_of(member)
        self._grow(size_of_member(member.weight))
        if member.id in self.pending:
            self.forget(member.id)

    def remove(self, member_id: str) -> None:
        member = self.members.pop(member_id)
        self._grow(-size_of_member(member.weight))
        self._count(member.protocols, -1)
        if member.instance_id is not None:
            del self.instances[member.instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)

    def replace(self, old: Member, new_id: str) -> Member:
        """Gives a static member a new id. It keeps its place in the order of members."""
        new = replace(old, id=new_id, is_new=False)
        self._weigh(new, weight_of(new))
        self.members = {
            new_id if key == old.id else key: new if key == old.id else m for key, m in self.members.items()
        }
        assert old.instance_id is not None
        self.instances[old.instance_id] = new_id
        if self.leader == old.id:
            self.leader = new_id
        if old.id in self.unsynced:
            del self.unsynced[old.id]
            self.unsynced[new_id] = None
        return new

    def update(self, member: Member, join: Join) -> None:
        self._count(member.protocols, -1)
        self._count(join.protocols, 1)
        self._weigh(member, member.weight + size_of(join.protocols) - size_of(member.protocols))
        member.protocols = join.protocols
        member.rebalance_timeout_ms = join.rebalance_timeout_ms
        member.session_timeout_ms = join.session_timeout_ms

    def assign(self, member: Member, assignment: bytes) -> None:
        self._weigh(member, member.weight + len(assignment) - len(member.assignment))
        member.assignment = assignment

    def expect(self, member_id: str) -> None:
        self.pending[member_id] = None
        self._grow(size_of_pending(member_id))

    def forget(self, member_id: str) -> None:
        del self.pending[member_id]
        self._grow(-size_of_pending(member_id))

    def refusal_of(self, member_id: str, instance_id: str | None) -> Code:
        """NONE if this is a member, and the instance id, if given, is its own."""
        if instance_id is not None:
            holder = self.instances.get(instance_id)
            if holder is None:
                return Code.UNKNOWN_MEMBER_ID
            if holder != member_id:
                return Code.FENCED_INSTANCE_ID
        return Code.NONE if member_id in self.members else Code.UNKNOWN_MEMBER_ID

    @property
    def has_all_joined(self) -> bool:
        return len(self.joining) == len(self.members) and not self.pending

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def choose_joined_leader(self) -> bool:
        """Keeps the leader if it has joined; otherwise takes the first member that has. False if none has."""
        if self.leader not in self.joining:
            self.leader = next((member_id for member_id in self.members if member_id in self.joining), self.leader)
        return self.leader in self.joining

    # Protocols

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        if self.state is State.EMPTY:
            return bool(protocol_type and protocols)
        size = len(self.members)
        return protocol_type == self.protocol_type and any(self._support[name] == size for name, _ in protocols)

    def choose_protocol(self) -> str:
        """Each member votes for the first of its protocols that all members support. If there is a draw, the protocol
        with the earliest vote wins."""
        size = len(self.members)
        candidates = {name for name, count in self._support.items() if count == size}
        votes = Counter(
            next((name for name, _ in member.protocols if name in candidates), "") for member in self.members.values()
        )
        return max(votes, key=votes.__getitem__)

    def has_room(self, join: Join) -> bool:
        """Whether the metadata of all members, with this one, stays below `MOST_SAID`."""
        known = self._known(join)
        before = 0 if known is None else size_of(known.protocols)
        return self._said - before + size_of(join.protocols) <= MOST_SAID

    def _known(self, join: Join) -> Member | None:
        return self.members.get(join.member_id or self.instances.get(join.instance_id or "", ""))

    def _count(self, protocols: Protocols, step: int) -> None:
        self._said += step * size_of(protocols)
        for name, _ in protocols:
            self._support[name] += step
            if not self._support[name]:
                del self._support[name]

    def next_generation(self, now_ms: int) -> None:
        self.generation = self.generation + 1 if self.generation < _MAX_GENERATION else 1
        self.protocol = self.choose_protocol() if self.members else None
        self.move(State.COMPLETING if self.members else State.EMPTY, now_ms)
        self.unsynced = dict.fromkeys(self.members)
        self.is_assigned = False
        self.learn_subscription()

    # Memory

    def growth_by(self, join: Join) -> int:
        """How many bytes this JoinGroup adds: for a new member, or for the new metadata of a known one."""
        known = self._known(join)
        if known is None:
            return size_of_member(weight_of_new(join))
        weight = known.weight + size_of(join.protocols) - size_of(known.protocols)
        return size_of_member(weight) - size_of_member(known.weight)

    def growth_by_assignments(self, assignments: Mapping[str, bytes]) -> int:
        growth = 0
        for member in self.members.values():
            weight = member.weight + len(assignments.get(member.id, b"")) - len(member.assignment)
            growth += size_of_member(weight) - size_of_member(member.weight)
        return growth

    def _weigh(self, member: Member, weight: int) -> None:
        self._grow(size_of_member(weight) - size_of_member(member.weight))
        member.weight = weight

    def _grow(self, size: int) -> None:
        self.size += size
        self.footprint.bytes += size

    # Topics

    @property
    def is_consumer(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL

    def learn_subscription(self) -> None:
        known = self.is_consumer and (self.protocol is not None or not self.members)
        said = (member.metadata(self.protocol) for member in self.members.values())
        before = size_of_subscription(self.subscribed)
        self.subscribed = subscribed_topics(said) if known else None
        self._grow(size_of_subscription(self.subscribed) - before)

    def reads(self, topic: str) -> bool:
        """Whether a member is subscribed to the topic. If the subscription of a consumer group is not known, it may
        read any topic."""
        return self.is_consumer if self.subscribed is None else topic in self.subscribed
