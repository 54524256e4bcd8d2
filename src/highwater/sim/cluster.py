"""Three to five nodes in one simulation: formatted once, then started, crashed and started again on their disks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from random import Random
from types import MappingProxyType

from highwater.model import Endpoint, NodeId, TopicPartition, Uuid
from highwater.node import Node
from highwater.sim.hosting import HostedNode
from highwater.sim.simulation import Simulation
from highwater.storage.format import InitialVoter
from highwater.world import Dead

CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
HOST = "127.0.0.1"
"""Simulated machines share its ports, as the nodes of one real machine do."""
BROKER_PORTS, CONTROLLER_PORTS = 9000, 9500
APART = 100
"""Separate controllers have ids from this number on."""
Note = Callable[[str, str], None]

PROPERTIES: Mapping[str, str] = {
    "controller.listener.names": "CONTROLLER",
    "log.dirs": "/data",
    "broker.session.timeout.ms": "1500",
    "broker.heartbeat.interval.ms": "300",
    "replica.lag.time.max.ms": "1000",
    "replica.fetch.wait.max.ms": "300",
    "replica.fetch.backoff.ms": "200",
    "replica.socket.timeout.ms": "1500",
    "controller.quorum.election.timeout.ms": "400",
    "controller.quorum.election.backoff.max.ms": "300",
    "controller.quorum.fetch.timeout.ms": "800",
    "controller.quorum.request.timeout.ms": "700",
    "leader.imbalance.check.interval.seconds": "3",
    "internal.metadata.log.segment.bytes": "8000",
    "metadata.log.max.record.bytes.between.snapshots": "3000",
    "metadata.max.retention.bytes": "12000",
    "replica.high.watermark.checkpoint.interval.ms": "300",
    "log.flush.offset.checkpoint.interval.ms": "250",
    "log.initial.task.delay.ms": "50",
    "log.retention.check.interval.ms": "500",
    "offsets.topic.replication.factor": "3",
    "min.insync.replicas": "2",
}
"""The timeouts of a real cluster, shortened so that they end within a seed's run."""


class SimNode:
    """One node over all its lives. `failed` is called if the node itself ends a life."""

    def __init__(self, sim: Simulation, number: int, voters: Sequence[int], changes: Mapping[str, str]) -> None:
        self.id = NodeId(number)
        self.name = f"n{number}"
        self.broker = Endpoint(HOST, BROKER_PORTS + number)
        self.controller = Endpoint(HOST, CONTROLLER_PORTS + number)
        self.is_voter = number in voters
        self.is_broker = number <= APART
        own = {name: value.replace("{id}", str(number)) for name, value in changes.items()}
        self.hosted = HostedNode(sim, self.name, {**self._properties(voters), **own})
        self.serves = False
        self.lives = 0
        self.disks = 1
        """The number of its lives so far."""
        self.wanted = False
        """Whether it should run: a node that is down and not wanted was stopped on purpose."""

    def _properties(self, voters: Sequence[int]) -> dict[str, str]:
        roles = {"broker": f"PLAINTEXT://{self.broker}"} if self.is_broker else {}
        if self.is_voter:
            roles["controller"] = f"CONTROLLER://{self.controller}"
        listeners = list(roles.values())
        bootstrap = ",".join(f"{HOST}:{CONTROLLER_PORTS + number}" for number in voters)
        return {
            **PROPERTIES,
            "process.roles": ",".join(roles),
            "node.id": str(self.id),
            "listeners": ",".join(listeners),
            "advertised.listeners": ",".join(listeners),
            "controller.quorum.bootstrap.servers": bootstrap,
        }

    @property
    def node(self) -> Node | None:
        return self.hosted.node


class SimCluster:
    """`voters` of the nodes are also controllers; the others are only brokers. `controllers` more are separate
    controllers, and then no broker need be a voter. `changes` of settings apply to all nodes; `{id}` in one is replaced
    by the node's id."""

    def __init__(
        self,
        sim: Simulation,
        size: int,
        voters: int,
        random: Random,
        note: Note,
        changes: Mapping[str, str] = MappingProxyType({}),
        controllers: int = 0,
    ) -> None:
        self.sim = sim
        self.note = note
        apart = range(APART + 1, APART + controllers + 1)
        quorum = [*range(1, voters + 1), *apart]
        numbers = [*range(1, size + 1), *apart]
        self.members = {f"n{number}": SimNode(sim, number, quorum, changes) for number in numbers}
        self._directories = {name: Uuid(random.randbytes(16)) for name in self.members}
        self.failures: list[str] = []
        """Nodes that ended by themselves or could not start."""
        self.excuses: Callable[[SimNode, BaseException], bool] = lambda member, failed: False
        """Whether a node may have ended by itself, as a node does whose disk fails."""
        self._starting: dict[str, asyncio.Task[None]] = {}

    @property
    def names(self) -> list[str]:
        return list(self.members)

    @property
    def bootstrap(self) -> list[Endpoint]:
        return [member.broker for member in self.members.values() if member.is_broker]

    async def format(self) -> None:
        voters = [
            InitialVoter(member.id, member.controller, self._directories[member.name])
            for member in self.members.values()
            if member.is_voter
        ]
        for member in self.members.values():
            await member.hosted.format(CLUSTER_ID, voters if member.is_voter else [])

    # Lives

    def is_up(self, name: str) -> bool:
        """Its process runs, even if it is paused or still starting."""
        return self.members[name].wanted and self.sim.is_alive(name)

    def live(self) -> list[SimNode]:
        """Members that run and whose parts are made: these can be looked at."""
        return [member for member in self.members.values() if self.is_up(member.name) and member.node is not None]

    def serving(self) -> list[SimNode]:
        return [member for member in self.live() if member.serves]

    def start(self, name: str) -> None:
        """Begins a life; the node serves some time later."""
        member = self.members[name]
        member.wanted = True
        member.serves = False
        member.lives += 1
        member.hosted.node = None
        self._starting[name] = asyncio.get_running_loop().create_task(self._life(member))

    async def _life(self, member: SimNode) -> None:
        life = member.lives
        try:
            await member.hosted.start()
        except Dead:
            pass
        except Exception as failed:  # noqa: BLE001 - whatever keeps a node from starting is a finding
            self._fell(member, "cannot start", failed)
            self.sim.crash(member.name, power_loss=False)
        else:
            if member.lives == life:
                member.serves = True
                self.note(member.name, "serves")
        if member.lives == life:
            self.look_for_failures()

    def look_for_failures(self) -> None:
        for member in self.members.values():
            if member.hosted.gave_up is not None:
                self._fell(member, "gave up", member.hosted.gave_up)
                member.hosted.gave_up = None

    def _fell(self, member: SimNode, how: str, failed: BaseException) -> None:
        self.note(member.name, f"{how}: {failed!r}")
        if self.excuses(member, failed):
            self.take_down(member.name, power_loss=False)
        else:
            self.failures.append(f"{member.name} {how}: {failed!r}")

    async def stop(self, name: str) -> bool:
        """A controlled shutdown of a node that serves. False if it crashed before its end."""
        member = self.members[name]
        life = member.lives
        member.serves = False
        try:
            await member.hosted.stop()
        except Dead:
            return False
        if member.lives == life:
            self.take_down(name, False)
        return True

    def take_down(self, name: str, power_loss: bool) -> None:
        member = self.members[name]
        self.sim.crash(name, power_loss)
        member.wanted = member.serves = False

    def replace_disk(self, name: str) -> None:
        """For a node that is down and not a voter: gives it an empty disk, formatted for the same cluster and node."""
        member = self.members[name]
        assert not member.is_voter and not self.sim.is_alive(name)
        member.disks += 1
        member.hosted.begin_anew(CLUSTER_ID)

    # What a scenario uses

    def active_controller(self) -> str | None:
        active = [
            member
            for member in self.live()
            if member.node and member.node.controller and member.node.controller.is_active
        ]
        return max(active, key=lambda member: member.node.raft.epoch).name if active else None  # type: ignore[union-attr]

    def leader_of(self, partition: TopicPartition) -> str | None:
        """The replica that leads in the latest leader epoch, if there is one."""
        best: tuple[int, str] | None = None
        for member in self.serving():
            broker = None if member.node is None else member.node.broker
            hosted = None if broker is None else broker.hosted.get(partition)
            if hosted is not None and hosted.leader is not None and (best is None or hosted.epoch > best[0]):
                best = (hosted.epoch, member.name)
        return None if best is None else best[1]
