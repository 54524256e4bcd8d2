"""One seed: a cluster under load and faults, watched by the invariants, healed, read back and judged."""

from __future__ import annotations

import asyncio
import gc
import traceback
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

from highwater.sim.client import Client
from highwater.sim.cluster import SimCluster
from highwater.sim.invariants import Violation, all_invariants
from highwater.sim.load import CALL_SECONDS, CLIENTS, Load, create_topics
from highwater.sim.loop import TimeLimit
from highwater.sim.schedule import Nemesis, draw_schedule
from highwater.sim.shape import Shape
from highwater.sim.simulation import Simulation
from highwater.sim.timeline import Finding, Timeline
from highwater.sim.watch import Watch

SECONDS = 6.0
LOGS_SECONDS = 2.0
HEAL_SECONDS = 60.0
RUN_SECONDS = 400.0


@contextmanager
def _without_collector() -> Iterator[None]:
    """A run leaves little garbage, and looking for it again and again takes a fifth of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class Trial:
    """Deterministic in its seed. Call it: None, or what it found."""

    def __init__(self, seed: int, seconds: float = SECONDS) -> None:
        self.seed = seed
        self._seconds = seconds
        plan = Random(f"cluster {seed}")
        self.shape = shape = Shape.drawn(plan)
        self.sim = Simulation(seed, shape.knobs)
        self.timeline = Timeline(lambda: self.sim.now)
        self.cluster = SimCluster(
            self.sim, shape.brokers, shape.voters, plan, self.timeline.note, shape.settings, shape.controllers
        )
        self.watch = Watch(self.cluster, all_invariants(), self._violated, shape.may_lose)
        self.load = Load(shape.partitions, self.watch, self.timeline.note)
        self.nemesis = Nemesis(
            self.cluster, CLIENTS, shape.partitions, lambda: self.watch.truth, flushed=shape.all_flushed
        )
        self._schedule = draw_schedule(plan, seconds, plan.randint(2, 9))

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
        faults += [*self.timeline.tracebacks, *self.cluster.failures, *self.load.wrong]
        if not faults:
            return None
        return Finding(self.seed, self.shape.text(), faults, [*self.nemesis.done], self.timeline.lines)

    def _violated(self, found: Violation) -> None:
        self.timeline.note("WRONG", str(found))

    # The story

    async def _story(self) -> None:
        await self.cluster.format()
        for name in self.cluster.names:
            self.cluster.start(name)
        self.sim.at(self.sim.now + LOGS_SECONDS, self._look_at_logs)
        await self._until(lambda: len(self.cluster.serving()) == len(self.cluster.names), "the cluster starts")
        await self._perform("admin", lambda client: create_topics(client, self.shape.topics))
        works = dict(zip(CLIENTS, (self.load.produce, self.load.produce, self.load.follow), strict=True))
        tasks = [self._spawn(name, work) for name, work in works.items()]
        self.nemesis.arm(self._schedule)
        await self._pass(self._seconds)
        self.nemesis.end()
        self.timeline.note("story", "everything heals")
        await self._until(self._is_whole, "every replica is in sync again")
        await self._pass(0.3)
        self.load.over = True
        await asyncio.gather(*tasks)
        await self._perform("auditor", self.load.audit)
        await self._until(self._is_whole, "every replica is in sync at the end")
        self.watch.look_at_logs()
        self._raise()
        self.load.judge(self.watch.lossy)

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
                raise TimeLimit(f"not within {HEAL_SECONDS:.0f} s: {what}: {self._state()}")
            await self.sim.sleep(0.02)
            self._raise()

    def _raise(self) -> None:
        self.cluster.look_for_failures()
        if self.watch.found is not None:
            raise self.watch.found
        if self.cluster.failures:
            raise AssertionError(self.cluster.failures[0])

    def _is_whole(self) -> bool:
        truth = self.watch.truth
        if truth is None or len(self.cluster.serving()) < len(self.cluster.names):
            return False
        return all(
            part.leader >= 0 and len(part.isr) == len(part.replicas) for _, _, part in truth.topics.each_partition()
        )

    def _state(self) -> str:
        truth = self.watch.truth
        serving = [member.name for member in self.cluster.serving()]
        if truth is None:
            return f"{serving} serve, no metadata"
        parts = [
            f"{topic.name}-{index}: leader {part.leader} epoch {part.leader_epoch} isr {part.isr} elr {part.elr}"
            for topic, index, part in truth.topics.each_partition()
        ]
        fenced = [broker.id for broker in truth.brokers.by_id.values() if broker.fenced]
        return f"{serving} serve, {fenced} are fenced; {'; '.join(parts)}"

    # Clients

    def _spawn(self, name: str, work: Callable[[Client], Coroutine[Any, Any, None]]) -> asyncio.Task[None]:
        world = self.sim.world(name)
        client = world.call(Client, world, self.cluster.bootstrap, name, CALL_SECONDS)
        return world.spawn(name, work(client))

    async def _perform(self, name: str, work: Callable[[Client], Coroutine[Any, Any, None]]) -> None:
        task = self._spawn(name, work)
        while not task.done():
            await self.sim.sleep(0.02)
            self._raise()
        await task
