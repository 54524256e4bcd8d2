"""One node under load, crashed again and again on one disk: what its clients saw, and what is wrong with that."""

from __future__ import annotations

import logging
import traceback
from collections import Counter
from random import Random

from highwater.model import Endpoint, NodeId, TopicPartition, Uuid
from highwater.sim import Event, Knobs, Simulation
from highwater.sim.hosting import HostedNode
from highwater.sim.storage import Operation
from highwater.storage.format import InitialVoter
from highwater.world import Dead
from tests.sim.crash_points import ANY_MOMENT, KINDS, Plan, plan_crash
from tests.sim.witness import Witness
from tests.sim.workload import Workload

NODE = "node"
BROKER = Endpoint("127.0.0.1", 9092)
CONTROLLER = Endpoint("127.0.0.1", 9093)
KEPT, CACHED = "kept", "cached"
PARTITIONS = tuple(TopicPartition(topic, index) for topic in (KEPT, CACHED) for index in (0, 1))
TOPICS = {
    KEPT: {"flush.messages": "1", "internal.segment.bytes": "700", "index.interval.bytes": "100"},
    CACHED: {"internal.segment.bytes": "900", "index.interval.bytes": "0"},
}
"""What is acknowledged in the first survives a power cut; in the second, as by Kafka's default, a kill."""
PROPERTIES = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listeners": f"PLAINTEXT://{BROKER},CONTROLLER://{CONTROLLER}",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.bootstrap.servers": str(CONTROLLER),
    "log.dirs": "/data",
    "internal.metadata.log.segment.bytes": "2000",
    "metadata.log.max.record.bytes.between.snapshots": "600",
    "metadata.max.retention.bytes": "6000",
    "replica.high.watermark.checkpoint.interval.ms": "70",
    "log.flush.offset.checkpoint.interval.ms": "50",
    "log.flush.start.offset.checkpoint.interval.ms": "90",
    "log.initial.task.delay.ms": "10",
    "log.retention.check.interval.ms": "100",
    "log.segment.delete.delay.ms": "50",
    "offsets.topic.replication.factor": "1",
}
FAILING: tuple[Operation, ...] = ("append", "sync", "trim", "read", "truncate")
LIVES = 4
START_SECONDS = 60.0


class Timeline(logging.Handler):
    """What happened, for people: the node's warnings, faults, and the answers that clients got."""

    def __init__(self, sim: Simulation) -> None:
        super().__init__(logging.WARNING)
        self._sim = sim
        self.lines: list[str] = []
        self.tracebacks: list[str] = []

    def note(self, who: str, text: str) -> None:
        self.lines.append(f"{self._sim.now:9.4f}  {who:8}  {text}")

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        self.note("log", text)
        if record.exc_info and record.exc_info[1] is not None and not isinstance(record.exc_info[1], Dead):
            self.tracebacks.append(self.format(record))

    def text(self, last: int = 150) -> str:
        return "\n".join(self.lines[-last:])


class Broken(AssertionError):
    """The node did not keep a promise."""

    def __init__(self, run: Run, faults: list[str]) -> None:
        super().__init__("\n".join([f"seed {run.seed}:", run.timeline.text(), "", *faults]))
        self.faults = faults


def survive(seed: int) -> Run:
    """Live through one seed; Broken, with the story of it, if the clients find anything wrong."""
    run = Run(seed)
    try:
        faults = run().faults
    except Exception as failed:  # noqa: BLE001 - whatever it is, the story explains it
        faults = ["".join(traceback.format_exception(failed))]
    if faults:
        raise Broken(run, faults)
    return run


class Run:
    """Deterministic in its seed. `hits` counts where the crashes fell."""

    def __init__(self, seed: int, lives: int = LIVES) -> None:
        self.seed = seed
        self._plan = Random(f"single node {seed}")
        self._may_lose_power = self._plan.random() < 0.6
        self._full_disk = self._plan.random() < 0.25
        knobs = Knobs.swarm(self._plan) if self._plan.random() < 0.6 else Knobs()
        self._lives = lives
        self.hits: Counter[str] = Counter()
        self.sim = Simulation(seed, knobs)
        self.timeline = Timeline(self.sim)
        self.witness = Witness(self.sim, self.timeline.note, frozenset({KEPT}))
        self.node = HostedNode(self.sim, NODE, PROPERTIES)

    def __call__(self) -> Run:
        logger = logging.getLogger("highwater")
        logger.addHandler(self.timeline)
        logger.propagate = False
        try:
            with self.sim:
                self.sim.run(self._story(), limit=900.0)
        finally:
            logger.propagate = True
            logger.removeHandler(self.timeline)
        return self

    @property
    def faults(self) -> list[str]:
        return [*self.timeline.tracebacks, *self.witness.judge()]

    async def _story(self) -> None:
        own = Uuid(self._plan.randbytes(16))
        await self.node.format("AAAAAAAAAAAAAAAAAAAAAQ", [InitialVoter(NodeId(1), CONTROLLER, own)])
        load = Workload(self.sim, self.witness, BROKER, TOPICS, PARTITIONS)
        load.begin()
        for life in range(1, self._lives + 1):
            await self._live(life, plan_crash(self._plan, self._may_lose_power and self._plan.random() < 0.7))
        self.sim.storage(NODE).capacity = None
        await self._start("at last")
        await self.sim.sleep(0.3)
        await load.end()
        if self._plan.random() < 0.5:
            self.timeline.note(NODE, "stops in order")
            await self.node.stop()
            self.witness.seen["clean stops"] += 1
            await self._start("after a clean stop")
        await load.read_everything()

    async def _start(self, why: str) -> None:
        """Returns when it serves. Nothing but a crash or a full disk may keep it from that."""
        self.timeline.note(NODE, f"starts {why}")
        await self.node.start()
        self.timeline.note(NODE, "serves")

    async def _live(self, life: int, plan: Plan) -> None:
        armed = plan.kind != ANY_MOMENT
        watch = KINDS[plan.kind].watch() if armed else None

        def matches(event: Event) -> bool:
            return armed and watch is not None and watch(event)

        point = self.sim.crash_at(NODE, matches, plan.nth, plan.phase, plan.power_loss)
        try:
            await self._start(f"life {life}")
            self._trouble(plan)
            await self._wait_for_death(plan.seconds)
        except Dead:
            pass
        except OSError as failed:
            if self.sim.storage(NODE).capacity is None:
                raise
            self.timeline.note(NODE, f"cannot start: {failed}")
        armed = False
        if point.hit is not None:
            self.hits[plan.kind] += 1
            how = f"{point.phase} {plan.kind} no. {plan.nth}: {point.hit.kind} {point.hit.subject}"
        else:
            self.hits[ANY_MOMENT] += 1
            how = f"because {self.node.gave_up!r}" if self.node.gave_up else "at any moment"
        self.sim.crash(NODE, plan.power_loss)
        self.timeline.note(NODE, f"{'loses power' if plan.power_loss else 'is killed'} {how}")
        self.sim.storage(NODE).mend()
        if self._plan.random() < 0.5:
            self.sim.storage(NODE).capacity = None
        self.witness.crashed(plan.power_loss)
        await self.sim.sleep(self._plan.uniform(0.001, 0.2))

    async def _wait_for_death(self, seconds: float) -> None:
        deadline = self.sim.now + seconds
        while self.sim.is_alive(NODE) and self.sim.now < deadline:
            await self.sim.sleep(0.005)

    def _trouble(self, plan: Plan) -> None:
        """What may go wrong in a life before it ends."""
        storage, random = self.sim.storage(NODE), self._plan
        storage.mend()
        if self._full_disk and random.random() < 0.5:
            self._fill_disk()
        if random.random() < 0.4:
            client = random.choice(("p1", "p2", "reader", "admin"))
            self.sim.at(self.sim.now + random.uniform(0.01, 0.3), self.sim.reset, client, NODE)
        if not self._may_lose_power and random.random() < 0.3:
            # With a power cut after it, a sync that failed takes what the page cache showed the next life.
            operation = random.choice(FAILING)
            storage.fail(operation, f"*/{random.choice(PARTITIONS)}/*.log", nth=random.randint(1, 8))
            if operation == "trim":
                storage.fail("append", "*.log", nth=random.randint(1, 20))
            self.witness.seen["disk errors"] += 1
            self.timeline.note("disk", f"will fail to {operation}")

    def _fill_disk(self) -> None:
        storage = self.sim.storage(NODE)
        storage.capacity = sum(len(file.data) for _, file in storage.tree()) + self._plan.randint(0, 3000)
        self.witness.seen["disk full"] += 1
        self.timeline.note("disk", f"has {storage.room} bytes left")

        def room() -> None:
            storage.capacity = None
            self.timeline.note("disk", "has room again")

        self.sim.at(self.sim.now + self._plan.uniform(0.05, 0.6), room)
