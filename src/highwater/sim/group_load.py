"""Consumers of one group that join, commit and die during the faults, and what must hold for the answers that they get.

Each owner of a partition reads the committed offset and commits a higher one. So with any coordinator and any owner, an
acknowledged commit is higher than all that were acknowledged before it was sent, and the last one is the highest. If an
acknowledged commit were lost, or a commit of an old generation accepted, the next one would be too low.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

from highwater.errors import Code, KafkaError
from highwater.model import TopicPartition
from highwater.net.client import CallFailed
from highwater.sim.client import Client
from highwater.sim.group_client import GroupClient, Membership

CALL_SECONDS = 5.0
"""A JoinGroup waits for a whole rebalance."""
SESSION_MS = 1000
"""Shorter than Kafka's minimum, so the cluster's settings must allow it."""
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "offsets.commit.timeout.ms": "1000",
    "group.initial.rebalance.delay.ms": "100",
    "group.min.session.timeout.ms": "500",
}
"""Settings of the brokers, equally short."""
ROUNDS = (3, 40)
"""The number of commits of a member before it leaves; drawn for each member."""


class GroupLoad:
    """`wrong` lists what members saw and should not have seen."""

    def __init__(self, group_id: str, topic: str, note: Callable[[str, str], None]) -> None:
        self._group_id = group_id
        self._topic = topic
        self._note = note
        self._owners: dict[tuple[int, TopicPartition], str] = {}
        self._acked: dict[TopicPartition, int] = {}
        self.over = False
        """Set this event to end the members."""
        self.seen: Counter[str] = Counter()
        self.wrong: list[str] = []

    def _client(self, client: Client) -> GroupClient:
        return GroupClient(client, self._group_id, self._topic, CALL_SECONDS, session_ms=SESSION_MS)

    # Members

    async def consume(self, client: Client) -> None:
        """One machine runs one member after the other. Some members leave the group, and some stop without leaving."""
        random, group = client.world.random("work"), self._client(client)
        member_id = ""
        while not self.over:
            try:
                member = await group.join(member_id)
                member_id = member.member_id
                self._joined(client.client_id, member)
                offsets = await group.committed()
                position = {place: offsets.get(place, 0) for place in member.partitions}
                for _ in range(random.randint(*ROUNDS)):
                    if self.over:
                        break
                    await self._commit(group, member, position)
                    await group.heartbeat(member)
                    await asyncio.sleep(random.uniform(0.005, 0.1))
                if random.random() < 0.5:
                    self.seen["left"] += 1
                    await group.leave(member)
                member_id = ""
            except KafkaError as refused:
                self.seen[refused.code.name] += 1
                member_id = "" if refused.code is Code.UNKNOWN_MEMBER_ID else member_id
                await client.back_off()
            except CallFailed as failed:
                self.seen[failed.reason.value] += 1
                await client.back_off()
        client.close()

    def _joined(self, name: str, member: Membership) -> None:
        self.seen["joined"] += 1
        self._note(name, f"generation {member.generation}: {[place.partition for place in member.partitions]}")
        for place in member.partitions:
            owner = self._owners.setdefault((member.generation, place), member.member_id)
            if owner != member.member_id:
                self.wrong.append(f"{place} is {owner}'s and {member.member_id}'s in generation {member.generation}")

    async def _commit(self, group: GroupClient, member: Membership, position: dict[TopicPartition, int]) -> None:
        before = dict(self._acked)
        for place in position:
            position[place] += 1
        await group.commit(position, member)
        self.seen["committed"] += 1
        for place, offset in position.items():
            if offset <= before.get(place, 0):
                self.wrong.append(f"{place}: {member} committed {offset}, after {before[place]} was acknowledged")
            self._acked[place] = max(offset, self._acked.get(place, 0))

    # At the end

    async def audit(self, client: Client) -> None:
        group = self._client(client)
        while True:
            try:
                found = await group.committed()
                break
            except (KafkaError, CallFailed):
                await client.back_off()
        for place, offset in self._acked.items():
            if found.get(place, -1) < offset:
                self.wrong.append(f"{place}: {offset} was acknowledged, {found.get(place)} is committed")
        client.close()
