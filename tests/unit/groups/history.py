"""Random histories of a few groups, and what must hold in each of them, seen from the clients and from the log."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from highwater.effects import Write
from highwater.errors import Code
from highwater.groups import GroupSettings, GroupShard
from highwater.groups.footprint import (
    size_of_group,
    size_of_member,
    size_of_pending,
    size_of_subscription,
    weight_of,
)
from highwater.groups.offsets import size_of_offset
from highwater.groups.records import GROUP_METADATA, group_named_in, kind_of
from highwater.wire.messages.join_group_response import JoinGroupResponse
from highwater.wire.messages.offset_commit_response import OffsetCommitResponse
from highwater.wire.messages.sync_group_response import SyncGroupResponse
from tests.unit.groups.bench import Bench, subscription

GROUPS = ("a", "b")
TOPICS = ("t", "u")
SETTINGS = GroupSettings(max_size=4, offsets_retention_ms=60_000, offsets_retention_check_interval_ms=20_000)
METADATA = [{"range": subscription("t")}, {"range": subscription("t", "u")}, {"range": subscription("t"), "x": b""}]


@dataclass
class Client:
    """One process: what it knows is what it was answered."""

    group: str
    instance: str | None
    version: int
    id: str = ""
    generation: int = -1
    members: list[str] = field(default_factory=list)
    """Known to a leader only."""
    joining: int | None = None
    syncing: int | None = None


class History:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.bench = Bench(SETTINGS)
        self.bench.holds = True
        self.term = 0
        self.nonce = 0
        self.lives = dict.fromkeys(GROUPS, 0)
        """How often a group of each name has ended; the next one counts its generations from the start."""
        self.leaders: dict[tuple[int, str, int, int], str] = {}
        self.assigned: dict[tuple[str, int, int], bytes] = {}
        self.commits: list[int] = []
        self.acknowledged = 0
        self.unwritten: set[str] = set()
        """Groups whose last record is not in the log, so that an heir would know less of them."""
        self.clients = [
            Client(group, instance, version)
            for group in GROUPS
            for instance, version in ((None, 9), (None, 3), (None, 5), ("i", 9), ("j", 8), ("i", 9))
        ]

    def run(self, steps: int) -> None:
        for _ in range(steps):
            step = self.random.choices(self._steps, weights=self._weights)[0]
            step(self)
            self.look()
        self.finish()

    # Steps

    def join(self) -> None:
        client = self.random.choice(self.clients)
        if client.joining is None:
            client.joining = self.bench.ask_join(
                client.id,
                self.random.choices(METADATA, weights=(8, 1, 1))[0],
                group=client.group,
                instance=client.instance,
                version=client.version,
                session_ms=self.random.choice((6_000, 10_000)),
                rebalance_ms=self.random.choice((5_000, 20_000)),
            )

    def sync(self) -> None:
        for client in self.clients:
            if client.generation >= 0 and client.syncing is None and self.random.random() < 0.7:
                self.nonce += 1
                assignments = {member: f"{self.nonce}/{member}".encode() for member in client.members}
                client.syncing = self.bench.ask_sync(
                    client.id, client.generation, assignments, group=client.group, instance=client.instance
                )

    def beat(self) -> None:
        for client in self.clients:
            if client.id and self.random.random() < 0.9:
                code = self.bench.heartbeat(client.id, client.generation, group=client.group, instance=client.instance)
                if code in (Code.UNKNOWN_MEMBER_ID, Code.FENCED_INSTANCE_ID):
                    client.id, client.generation = "", -1

    def leave(self) -> None:
        client = self.random.choice(self.clients)
        if client.id:
            self.bench.ask_leave(client.id, group=client.group)
            client.id, client.generation = "", -1

    def commit_offsets(self) -> None:
        client = self.random.choice(self.clients)
        topic, partition, offset = self.random.choice(TOPICS), self.random.randrange(2), self.random.randrange(1000)
        asked = self.bench.ask_commit(
            {(topic, partition): offset}, client.id, client.generation, group=client.group, instance=client.instance
        )
        self.commits.append(asked)

    def delete_offsets(self) -> None:
        self.bench.ask_delete_offsets((self.random.choice(TOPICS), 0), group=self.random.choice(GROUPS))

    def delete_groups(self) -> None:
        self.bench.ask_delete_groups(*GROUPS)

    def delete_topic(self) -> None:
        self.bench.topics_deleted({"u": bytes(16)})

    def pass_time(self) -> None:
        self.bench.pass_time(self.random.choice((0.1, 0.1, 0.1, 1, 1, 1, 3, 3, 3, 6, 30)))

    def commit_write(self) -> None:
        if self.bench.writes:
            self.unwritten -= groups_in(self.bench.writes[0])
            self.bench.commit()

    def fail_write(self) -> None:
        if self.bench.writes:
            index = self.random.randrange(len(self.bench.writes))
            self.unwritten |= groups_in(self.bench.writes[index])
            self.bench.fail(Code.NOT_ENOUGH_REPLICAS, index)

    def delay_write(self) -> None:
        if self.bench.writes:
            self.bench.delay()

    def fail_over(self) -> None:
        self.bench.fail_over()
        self.unwritten.clear()
        self.term += 1

    _steps = (join, sync, beat, leave, commit_offsets, delete_offsets, delete_groups, delete_topic, pass_time,
              commit_write, fail_write, delay_write, fail_over)  # fmt: skip
    _weights = (20, 24, 8, 2, 6, 1, 1, 1, 10, 30, 1, 1, 1)

    # What must hold

    def look(self) -> None:
        for client in self.clients:
            if client.joining in self.bench.answers:
                self._joined(client, self.bench.answers[client.joining])
                client.joining = None
            if client.syncing in self.bench.answers:
                self._synced(client, self.bench.answers[client.syncing])
                client.syncing = None
        for group in GROUPS:
            self.lives[group] += self.bench.state(group) == "Dead"
        assert self.bench.shard.size == counted_anew(self.bench.shard), "what is kept is counted wrongly"
        if not self.bench.writes:
            self._replays()

    def _joined(self, client: Client, answer: object) -> None:
        assert isinstance(answer, JoinGroupResponse)
        if answer.error_code in (Code.UNKNOWN_MEMBER_ID, Code.FENCED_INSTANCE_ID):
            client.id, client.generation = "", -1
        elif answer.error_code == Code.MEMBER_ID_REQUIRED:
            client.id = answer.member_id
        elif answer.error_code == Code.NONE:
            assert answer.generation_id >= client.generation, "a member went back to an older generation"
            client.id, client.generation = answer.member_id, answer.generation_id
            client.members = [member.member_id for member in answer.members]
            leads = answer.leader == answer.member_id
            assert leads == bool(answer.members), "the leader alone gets the list of members"
            if leads and not answer.skip_assignment:
                key = (self.term, client.group, self.lives[client.group], answer.generation_id)
                assert self.leaders.setdefault(key, answer.member_id) == answer.member_id, "two led a generation"

    def _synced(self, client: Client, answer: object) -> None:
        assert isinstance(answer, SyncGroupResponse)
        if answer.error_code == Code.NONE and answer.assignment:
            nonce, _, _ = answer.assignment.partition(b"/")
            key = (client.group, self.lives[client.group], client.generation)
            assert self.assigned.setdefault(key, nonce) == nonce, "a generation has two assignments"

    def _replays(self) -> None:
        """An heir that reads the log knows what this coordinator knows."""
        heir = Bench(SETTINGS, self.bench.log, self.bench.now)
        live = self.bench
        for group in GROUPS:
            assert heir.offsets(group) == live.offsets(group)
            settled = live.state(group) == "Stable" or (
                live.state(group) == "Empty" and live.shard.describe(group, 5).protocol_type
            )
            if settled and group not in self.unwritten:
                assert heir.shard.describe(group, 5) == live.shard.describe(group, 5)

    def finish(self) -> None:
        """Left alone, every request that waits is answered, and every group comes to rest."""
        self.bench.holds = False
        self.bench.commit_all()
        self.bench.pass_time(2_000)
        assert not self.bench.open, "somebody waits for ever"
        codes = [self.bench.answer(token, OffsetCommitResponse).topics[0].partitions[0] for token in self.commits]
        self.acknowledged = sum(not partition.error_code for partition in codes)
        assert all(self.bench.state(group) == "Dead" for group in GROUPS), "what nobody uses is gone"


def groups_in(write: Write) -> set[str]:
    return {group_named_in(record.key) for record in write.records if kind_of(record.key) == GROUP_METADATA}


def counted_anew(shard: GroupShard) -> int:
    """What the groups and offsets of a shard take, without a look at what it has counted."""
    offsets = shard._offsets
    size = 0
    for group in shard._registry:
        size += size_of_group(group.id) + size_of_subscription(group.subscribed)
        size += sum(size_of_member(weight_of(member)) for member in group.members.values())
        size += sum(map(size_of_pending, group.pending))
    tables = [*offsets._committed.values(), *(changes for each in offsets.writes().values() for changes in each)]
    return size + sum(size_of_offset(place, offset) for table in tables for place, offset in table.items())
