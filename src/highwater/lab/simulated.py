"""The schedule that loses a record by the old rule of truncation, in the simulated world: two brokers, one controller.

Nothing in the nodes switches the rule. Only simulated nodes get the other follower, and only while a run lasts.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, Final, NamedTuple

from highwater.broker import assembly
from highwater.lab.bench import NotSeen
from highwater.lab.frame import Lane, Words
from highwater.lab.old_rules import WatermarkFollower
from highwater.model import TopicPartition
from highwater.partition.fetcher import Fetcher
from highwater.partition.partition import Partition
from highwater.sim.client import Client
from highwater.sim.cluster import SimCluster
from highwater.sim.loop import TimeLimit
from highwater.sim.producer import Producer
from highwater.sim.reader import Reader
from highwater.sim.simulation import Simulation
from highwater.sim.world import SimWorld
from highwater.wire.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from highwater.wire.messages.create_topics_response import CreateTopicsResponse

ORDERS: Final = TopicPartition("orders", 0)
LEADER, FOLLOWER, CONTROLLER = "n1", "n2", "n101"
WAIT_SECONDS: Final = 30.0
SETTINGS: Final = {"auto.leader.rebalance.enable": "false", "min.insync.replicas": "2"}


class WatermarkFetcher(Fetcher):
    """Its followers begin each term as before KIP-101."""

    def follow(self, partition: Partition) -> None:
        super().follow(partition)
        followed = self._followed[partition.topic_id, partition.tp.partition]
        old = WatermarkFollower(partition.epoch, followed.machine.longest_pause, is_being_cut=partition.is_being_cut)
        followed.machine = old
        self._talk.follow((partition.topic_id, partition.tp.partition), old)
        self._carry_out(followed, old.begun(followed.ends, partition.log.high_watermark))


@contextlib.contextmanager
def old_rule() -> Iterator[None]:
    """Simulated nodes follow by the old rule meanwhile. Real ones, in other threads, do not."""

    def fetcher(world: Any, *rest: Any) -> Fetcher:
        return (WatermarkFetcher if isinstance(world, SimWorld) else Fetcher)(world, *rest)

    before = vars(assembly)["Fetcher"]
    vars(assembly)["Fetcher"] = fetcher
    try:
        yield
    finally:
        vars(assembly)["Fetcher"] = before


class SimulatedPair:
    """One partition on two brokers, step by step. Between two calls the world stands still."""

    def __init__(self, sim: Simulation) -> None:
        self._sim = sim
        self._cluster = SimCluster(sim, 2, 0, Random(1), lambda node, what: None, SETTINGS, controllers=1)
        self._world: SimWorld | None = None

    def open(self) -> None:
        self._sim.run(self._cluster.format())
        self.start(CONTROLLER, LEADER, FOLLOWER)
        self._world = world = self._sim.world("client")
        self._client = world.call(Client, world, self._cluster.bootstrap, "client", WAIT_SECONDS)
        replicas = CreatableReplicaAssignment(partition_index=0, broker_ids=[1, 2])
        topic = CreatableTopic(name=ORDERS.topic, num_partitions=-1, replication_factor=-1, assignments=[replicas])
        request = CreateTopicsRequest(topics=[topic], timeout_ms=10_000)
        self._run(self._client.ask_any(request, CreateTopicsResponse, WAIT_SECONDS))
        self.until(lambda: self.leader() == LEADER and self.ends(FOLLOWER) is not None, "the topic is there")

    def start(self, *names: str) -> None:
        async def begin() -> None:
            for name in names:
                self._cluster.start(name)

        self._sim.run(begin())
        serving = self._cluster.serving
        self.until(lambda: all(self._cluster.members[name] in serving() for name in names), "all serve")

    def stop(self, name: str) -> None:
        self._sim.run(self._cluster.stop(name))

    def kill(self, name: str) -> None:
        self._cluster.take_down(name, power_loss=False)

    def cut(self) -> None:
        self._sim.cut(LEADER, FOLLOWER)

    def heal(self) -> None:
        self._sim.heal()

    def send(self, value: str) -> None:
        """With acks=all, in the background."""
        assert self._world is not None
        self._world.spawn("send", self._sent(value.encode()))

    async def _sent(self, value: bytes) -> None:
        await Producer(self._client).send(ORDERS, [value], WAIT_SECONDS)

    def read(self) -> list[str]:
        page = self._run(Reader(self._client).read_all(ORDERS, WAIT_SECONDS))
        return [read.value.decode() for read in page.reads]

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Asked after every callback of every node, so that the world stops at the very moment."""
        self._sim.loop.limit = self._sim.now + WAIT_SECONDS
        try:
            self._sim.loop.run_until(condition)
        except TimeLimit as late:
            raise NotSeen(f"not within {WAIT_SECONDS:g} simulated seconds: {what}") from late
        finally:
            self._sim.loop.limit = None

    def leader(self) -> str | None:
        return self._cluster.leader_of(ORDERS)

    def partition(self, name: str) -> Partition | None:
        node = self._cluster.members[name].node if self._cluster.is_up(name) else None
        return None if node is None or node.broker is None else node.broker.hosted.get(ORDERS)

    def ends(self, name: str) -> tuple[int, int] | None:
        """(high watermark, log end); None if the node does not have the replica yet."""
        partition = self.partition(name)
        return None if partition is None else (partition.log.high_watermark, partition.log.log_end)

    def lane(self, name: str) -> Lane:
        partition = self.partition(name)
        if partition is None:
            raise NotSeen(f"{name} has no replica")
        node, log = int(name[1:]), partition.log
        label = Words(
            f"simulated: node {node} by the rule of before Kafka 0.11",
            f"시뮬레이션: 카프카 0.11 전의 규칙을 따르는 노드 {node}",
        )
        epochs = tuple((epoch, start) for epoch, start in log.epoch_cache.entries)
        is_leader, offsets = partition.leader is not None, (log.log_start, log.high_watermark, log.log_end)
        return Lane(node, "simulated", is_leader, partition.epoch, *offsets, epochs, True, label=label)

    def _run(self, work: Any) -> Any:
        assert self._world is not None
        return self._sim.run(self._world.perform(work), limit=2 * WAIT_SECONDS)


class Outcome(NamedTuple):
    """The logs after each step of the schedule, and what a consumer reads at its end."""

    restarted: Lane
    """The follower, after its restart."""
    elected: Lane
    """The follower, after the death of its leader."""
    returned: Lane
    """The old leader, after its return."""
    read: list[str]


def run_schedule(first: str, second: str) -> Outcome:
    """The follower has the second record, acknowledged, and not the news. It restarts while it cannot reach the leader;
    the leader dies, and returns later."""
    with Simulation(1) as sim:
        pair = SimulatedPair(sim)
        pair.open()
        pair.send(first)
        pair.until(lambda: pair.ends(LEADER) == pair.ends(FOLLOWER) == (1, 1), "both know of the first record")
        pair.send(second)
        pair.until(lambda: pair.ends(LEADER) == (2, 2), "the leader has committed the second")
        pair.cut()
        if pair.ends(FOLLOWER) != (1, 2):
            raise NotSeen(f"the follower has {pair.ends(FOLLOWER)}; it shall have the record, and not the news")
        pair.stop(FOLLOWER)
        pair.start(FOLLOWER)
        pair.until(lambda: _follows(pair.partition(FOLLOWER)), "the follower follows again")
        restarted = pair.lane(FOLLOWER)
        pair.kill(LEADER)
        pair.until(lambda: pair.leader() == FOLLOWER, "the follower leads")
        elected = pair.lane(FOLLOWER)
        pair.heal()
        pair.start(LEADER)
        pair.until(lambda: pair.ends(LEADER) == pair.ends(FOLLOWER) and _is_whole(pair), "both are in sync")
        return Outcome(restarted, elected, pair.lane(LEADER), pair.read())


def _follows(partition: Partition | None) -> bool:
    return partition is not None and partition.leader_id == 1 and not partition.is_being_cut


def _is_whole(pair: SimulatedPair) -> bool:
    partition = pair.partition(FOLLOWER)
    return partition is not None and partition.leader is not None and len(partition.leader.isr) == 2
