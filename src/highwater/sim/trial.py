"""One seed: a cluster under load and faults. Invariants watch it; then it is healed, read back and judged."""

from __future__ import annotations

import asyncio
import gc
import traceback
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any

from highwater.sim import group_load, table_load
from highwater.sim.client import Client
from highwater.sim.cluster import SimCluster
from highwater.sim.faults.disks import has_offline_logs
from highwater.sim.faults.fault import Fault
from highwater.sim.faults.nemesis import Nemesis
from highwater.sim.faults.profiles import PROFILES, USUAL, draw_schedule
from highwater.sim.group_load import GroupLoad
from highwater.sim.health import unhealthy
from highwater.sim.invariants import Violation, all_invariants
from highwater.sim.load import CALL_SECONDS, READER, Load, create_topic, create_topics
from highwater.sim.loop import TimeLimit
from highwater.sim.shape import Shape
from highwater.sim.simulation import Simulation
from highwater.sim.table_load import TABLE, TableLoad
from highwater.sim.timeline import Finding, Timeline
from highwater.sim.watch import NodeWatch

SECONDS = 6.0
MEMBERS = ("c1", "c2")
LOGS_SECONDS = 2.0
HEAL_SECONDS = 60.0
RUN_SECONDS = 400.0


@contextmanager
def _without_collector() -> Iterator[None]:
    """A run makes little garbage, and frequent garbage collections would take a fifth of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class Trial:
    """The seed decides everything. A call runs it and returns the finding, or None."""

    def __init__(
        self, seed: int, seconds: float = SECONDS, profile: str = USUAL, schedule: Sequence[Fault] | None = None
    ) -> None:
        """`schedule` replaces the one that would be drawn."""
        self.seed = seed
        self._seconds = seconds
        self._profile = profile
        plan = Random(f"cluster {seed}")
        self.shape = shape = Shape.drawn(plan).leaning(PROFILES[profile].leaning)
        self.sim = Simulation(seed, shape.knobs)
        self.timeline = Timeline(lambda: self.sim.now)
        self.cluster = SimCluster(
            self.sim, shape.brokers, shape.voters, plan, self.timeline.note, shape.settings, shape.controllers
        )
        self.watch = NodeWatch(self.cluster, all_invariants(), self._violated, self._may_lose)
        self.load = Load(shape.partitions, self.watch, self.timeline.note)
        self.table = TableLoad(self.timeline.note)
        self.group = GroupLoad("g", shape.topics[0].name, self.timeline.note)
        self._writers = [f"p{number + 1}" for number in range(shape.writers)]
        members = [*self._writers, READER, *(["keeper"] if shape.table else []), *(MEMBERS if shape.groups else [])]
        self.nemesis = Nemesis(
            self.cluster, members, shape.partitions, lambda: self.watch.truth, flushed=shape.all_flushed
        )
        drawn = draw_schedule(plan, PROFILES[profile], seconds)
        self._clients: list[Client] = []
        self.schedule = drawn if schedule is None else schedule

    def __call__(self) -> Finding | None:
        faults: list[str] = []
        self.sim.loop.on_turn = self.watch.turned
        try:
            with _without_collector(), self.timeline.listening(), self.sim:
                self.sim.run(self._story(), limit=RUN_SECONDS)
        except Violation as found:
            faults.append(str(found))
        except Exception as failed:  # noqa: BLE001 - whatever it is, the story explains it
            faults.append("".join(traceback.format_exception(failed)))
        faults += [*self.timeline.tracebacks, *self.cluster.failures]
        faults += [*self.load.wrong, *self.table.wrong, *self.group.wrong]
        faults += [each for client in self._clients for each in client.complaints]
        if not faults:
            return None
        profile = "" if self._profile == USUAL else self._profile
        return Finding(self.seed, self.shape.text(), faults, [*self.nemesis.done], self.timeline.lines, profile)

    def _may_lose(self, topic: str) -> bool:
        return self.shape.may_lose(topic) or topic in self.nemesis.operations.permitted.given_up

    def _violated(self, found: Violation) -> None:
        self.timeline.note("WRONG", str(found))

    # The story

    async def _story(self) -> None:
        await self.cluster.format()
        for name in self.cluster.names:
            self.cluster.start(name)
        self.sim.at(self.sim.now + LOGS_SECONDS, self._look_at_logs)
        await self._until(lambda: len(self.cluster.serving()) == len(self.cluster.names), "the cluster starts")
        await self._perform("admin", self._create_topics)
        tasks = self._begin_load()
        tasks.append(self._spawn("operator", self.nemesis.operations.work))
        self.nemesis.arm(self.schedule)
        await self._pass(self._seconds)
        self.nemesis.end()
        self.timeline.note("story", "everything heals")
        await self._heal()
        for client in self._clients:
            client.expect_answers()
        await self._pass(0.3)
        self.load.over = self.table.over = self.group.over = True
        await asyncio.gather(*tasks)
        await self._heal()  # a write that was under way when everything healed may have failed since
        await self._perform("auditor", self._audit)
        await self._until(self._is_whole, "everything is well at the end")
        self.watch.look_at_logs()
        self._raise()
        self.load.wrong += [f"no answer: {each}" for client in self._clients for each in client.unanswered]
        self.load.judge(self.watch.lossy, self.nemesis.operations.permitted)

    async def _audit(self, client: Client) -> None:
        client.expect_answers()
        scratch, truth = self.nemesis.operations.scratch, self.watch.truth
        assert truth is not None
        self.load.wrong += scratch.wrong(truth)
        self.load.wrong += await scratch.audit(client, truth, HEAL_SECONDS)
        if self.shape.table:
            await self.table.audit(client, HEAL_SECONDS)
        if self.shape.groups:
            await self.group.audit(client)
        await self.load.audit(client)

    def _look_at_logs(self) -> None:
        self.watch.look_at_logs()
        self.sim.at(self.sim.now + LOGS_SECONDS, self._look_at_logs)

    async def _pass(self, seconds: float) -> None:
        end = self.sim.now + seconds
        while self.sim.now < end:
            await self.sim.sleep(min(0.05, max(end - self.sim.now, 0.001)))
            self._raise()

    async def _until(self, condition: Callable[[], bool], what: str) -> None:
        deadline = self.sim.now + HEAL_SECONDS
        while not condition():
            if self.sim.now >= deadline:
                raise TimeLimit(f"not within {HEAL_SECONDS:.0f} s: {what}: {unhealthy(self.cluster, self.watch.truth)}")
            await self.sim.sleep(0.02)
            self._raise()

    def _raise(self) -> None:
        self.cluster.look_for_failures()
        if self.watch.found is not None:
            raise self.watch.found
        if self.cluster.failures:
            raise AssertionError(self.cluster.failures[0])

    async def _heal(self) -> None:
        """Restarts each node with an offline log, one after the other, as an operator does."""
        everybody = len(self.cluster.names)
        await self._until(lambda: len(self.cluster.serving()) == everybody, "every node serves again")
        for member in self.cluster.members.values():
            if has_offline_logs(member):
                self.timeline.note("story", f"{member.name} has logs that are offline: it is started again")
                is_missed = self.nemesis.spoiling.is_missed(member)
                await self.cluster.stop(member.name)
                if is_missed:
                    self.nemesis.spoiling.put_back(member.name)
                self.cluster.start(member.name)
                await self._until(lambda: len(self.cluster.serving()) == everybody, "every node serves again")
        await self._until(self._is_whole, "everything is well again")

    def _is_whole(self) -> bool:
        return not unhealthy(self.cluster, self.watch.truth)

    # Clients

    async def _create_topics(self, client: Client) -> None:
        if self.shape.table:
            await create_topic(client, TABLE.topic, 1, min(3, self.shape.brokers), table_load.CONFIGS)
        await create_topics(client, self.shape.topics)

    def _begin_load(self) -> list[asyncio.Task[None]]:
        works = {**dict.fromkeys(self._writers, self.load.produce), READER: self.load.follow}
        works |= {f"seeker{number + 1}": self.load.seek for number in range(self.shape.seekers)}
        if self.shape.table:
            works["keeper"] = self.table.write
        tasks = [self._spawn(name, work) for name, work in works.items()]
        if self.shape.groups:
            tasks += [self._spawn(name, self.group.consume, group_load.CALL_SECONDS) for name in MEMBERS]
        return tasks

    def _spawn(
        self, name: str, work: Callable[[Client], Coroutine[Any, Any, None]], patience: float = CALL_SECONDS
    ) -> asyncio.Task[None]:
        world = self.sim.world(name)
        client = world.call(Client, world, self.cluster.bootstrap, name, patience)
        self._clients.append(client)
        return world.spawn(name, work(client))

    async def _perform(self, name: str, work: Callable[[Client], Coroutine[Any, Any, None]]) -> None:
        task = self._spawn(name, work)
        while not task.done():
            await self.sim.sleep(0.02)
            self._raise()
        await task
