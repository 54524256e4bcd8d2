"""Scenarios of group E: groups and their coordinators."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from highwater.errors import Code, KafkaError
from highwater.model import TopicPartition
from highwater.net.client import CallFailed
from highwater.sim.group_client import GroupClient, Membership
from tests.scenarios.stage import ORDERS, Stage

T = TypeVar("T")
RETRIED = (Code.NOT_COORDINATOR, Code.COORDINATOR_NOT_AVAILABLE, Code.COORDINATOR_LOAD_IN_PROGRESS)
OFFSETS = TopicPartition("__consumer_offsets", 0)
SETTINGS = {"offsets.topic.num.partitions": 1, "offsets.commit.timeout.ms": 1000, "group.initial.rebalance.delay.ms": 0}


class Consumers:
    """Of the group `g`, each on a machine of its own."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    def client(self, name: str, instance_id: str | None = None) -> GroupClient:
        visitor = self._stage.visitor(name)
        return GroupClient(visitor.client, "g", ORDERS.topic, instance_id=instance_id)

    def run(self, name: str, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Again while there is no coordinator yet."""

        async def carry_out() -> T:
            while True:
                try:
                    return await work()
                except KafkaError as refused:
                    if refused.code not in RETRIED:
                        raise
                except CallFailed:
                    pass
                await self._stage.visitor(name).client.back_off()

        return self._stage.run(carry_out(), by=name)

    def refusal(self, name: str, work: Callable[[], Coroutine[Any, Any, object]]) -> Code:
        try:
            self.run(name, work)
        except KafkaError as refused:
            return refused.code
        return Code.NONE

    def committed(self, name: str) -> int:
        return self.run(name, self.client(name).committed).get(ORDERS, -1)


def test_e12_a_commit_outlives_its_coordinator_and_one_that_is_not_replicated_is_not_acknowledged() -> None:
    """Setup: an offset is committed. Fault: its coordinator dies at once; the next one is cut off from the others. Must
    hold: the next fetch returns the offset; what the one that is cut off takes is not acknowledged."""
    with Stage(3, 3, watched=True, **_settings(min_insync_replicas=2)) as stage:
        stage.create(replicas=(1, 2, 3))
        consumers = Consumers(stage)
        for number in range(1, 4):
            group = consumers.client("one")
            consumers.run("one", lambda number=number, group=group: group.commit({ORDERS: 10 * number}))  # type: ignore[misc]
            lost = stage.leader(OFFSETS)
            assert lost is not None
            stage.kill(lost)
            assert consumers.committed("two") == 10 * number
            assert stage.leader(OFFSETS) != lost
            stage.start(lost)
            stage.until(lambda: len(stage.image(OFFSETS).isr) == 3)
        late = stage.leader(OFFSETS)
        assert late is not None
        group = consumers.client("one")
        consumers.run("one", group.find)
        stage.isolate(late)
        pending = stage.begin(answer_to(group.commit({ORDERS: 99})), by="one")
        stage.until(lambda: stage.leader(OFFSETS) != late and pending.done)
        assert pending.result in (Code.COORDINATOR_NOT_AVAILABLE, Code.NOT_COORDINATOR)
        assert consumers.committed("two") == 30
        stage.heal()


def test_e12_a_zombie_of_an_old_generation_is_refused_by_every_coordinator() -> None:
    """Setup: a member is taken for dead and the group goes on without it; the coordinator changes. Must hold: neither
    the old coordinator nor the new one takes a commit of its generation, and of an instance id one process is heard."""
    with Stage(3, 3, **_settings()) as stage:
        stage.create(TopicPartition(ORDERS.topic, 1), replicas=(1, 2, 3))
        consumers = Consumers(stage)
        zombie = consumers.client("zombie")
        old = consumers.run("zombie", zombie.join)
        consumers.run("zombie", lambda: zombie.commit({ORDERS: 5}, old))
        other = consumers.client("other")
        new = consumers.run("other", other.join)
        assert (new.generation, len(new.partitions)) == (old.generation + 1, 2), "the other's session is over"
        consumers.run("other", lambda: other.commit({ORDERS: 7}, new))
        assert consumers.refusal("zombie", lambda: zombie.commit({ORDERS: 6}, old)) is Code.UNKNOWN_MEMBER_ID
        stale = Membership(new.member_id, old.generation)
        assert consumers.refusal("zombie", lambda: zombie.commit({ORDERS: 6}, stale)) is Code.ILLEGAL_GENERATION
        lost = stage.leader(OFFSETS)
        assert lost is not None
        stage.kill(lost)
        assert consumers.committed("zombie") == 7
        assert consumers.refusal("zombie", lambda: consumers.client("zombie").commit({ORDERS: 6}, stale)) is (
            Code.ILLEGAL_GENERATION
        )
        assert consumers.committed("other") == 7


def test_e12_of_two_processes_with_one_instance_id_the_former_is_fenced() -> None:
    """Setup: a static member. Fault: another process starts with its instance id, then the coordinator dies. Must hold:
    the former one is fenced, before and after; the new one has its assignment and goes on."""
    with Stage(3, 3, **_settings()) as stage:
        stage.create(replicas=(1, 2, 3))
        consumers = Consumers(stage)
        former, heir = consumers.client("former", "i"), consumers.client("heir", "i")
        old = consumers.run("former", former.join)
        new = consumers.run("heir", heir.join)
        assert (new.generation, new.partitions) == (old.generation, old.partitions)
        assert consumers.refusal("former", lambda: former.commit({ORDERS: 1}, old)) is Code.FENCED_INSTANCE_ID
        lost = stage.leader(OFFSETS)
        assert lost is not None
        stage.kill(lost)
        assert consumers.committed("other") == -1
        again = consumers.client("former", "i")
        assert consumers.refusal("former", lambda: again.commit({ORDERS: 1}, old)) is Code.FENCED_INSTANCE_ID
        consumers.run("heir", lambda: consumers.client("heir", "i").commit({ORDERS: 2}, new))
        assert consumers.committed("other") == 2


async def answer_to(work: Coroutine[Any, Any, object]) -> Code:
    try:
        await work
    except KafkaError as refused:
        return refused.code
    return Code.NONE


def _settings(**more: object) -> dict[str, Any]:
    return {name.replace(".", "_"): value for name, value in SETTINGS.items()} | more
