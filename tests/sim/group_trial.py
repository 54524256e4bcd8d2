"""One seed: a group of consumers on a cluster whose coordinators are killed, paused and cut off, then healed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

from highwater.metadata.cluster import MetadataImage
from highwater.model import TopicPartition
from highwater.sim.client import Client
from highwater.sim.cluster import SimCluster
from highwater.sim.faults.fault import LEADER, Fault
from highwater.sim.faults.nemesis import Nemesis
from highwater.sim.group_load import CALL_SECONDS, GroupLoad
from highwater.sim.group_load import SETTINGS as GROUP_SETTINGS
from highwater.sim.load import create_topics
from highwater.sim.shape import TopicShape
from highwater.sim.simulation import Simulation
from highwater.sim.view import Observer

GROUP, OFFSETS = "g", "__consumer_offsets"
SHAPE = TopicShape(replicas=3, min_isr=2, flushed=False)
MEMBERS = ("c1", "c2", "c3")
SETTINGS = {**GROUP_SETTINGS, "auto.leader.rebalance.enable": "true"}
VERBS = ("kill", "kill after a write of", "pause", "isolate", "isolate from nodes", "cut one way from", "restart")
SECONDS, FAULTS = 5.0, 5
HEAL_SECONDS, RUN_SECONDS = 60.0, 400.0


class GroupTrial:
    """Deterministic in its seed. `load` has what its members saw."""

    def __init__(self, seed: int) -> None:
        plan = Random(f"groups {seed}")
        self.sim = Simulation(seed)
        self.notes: list[str] = []
        self.cluster = SimCluster(self.sim, 3, 3, plan, self._note, SETTINGS)
        self.load = GroupLoad(GROUP, SHAPE.name, self._note)
        self._observer = Observer(self.cluster)
        self._nemesis = Nemesis(self.cluster, MEMBERS, [TopicPartition(OFFSETS, 0)], self._truth, flushed=False)
        self._faults = sorted(
            Fault(plan.uniform(0.5, SECONDS), plan.choice(VERBS), LEADER, plan.uniform(0.1, 3.0), plan.random())
            for _ in range(FAULTS)
        )

    def _note(self, who: str, what: str) -> None:
        self.notes.append(f"{self.sim.now:9.4f} {who}: {what}")

    def _truth(self) -> MetadataImage | None:
        self._observer.look()
        return self._observer.truth

    def __call__(self) -> list[str]:
        """What went wrong."""
        with self.sim:
            self.sim.run(self._story(), limit=RUN_SECONDS)
        return [*self.load.wrong, *self.cluster.failures, *map(str, self.sim.failures)]

    async def _story(self) -> None:
        await self.cluster.format()
        for name in self.cluster.names:
            self.cluster.start(name)
        await self._until(lambda: len(self.cluster.serving()) == 3)
        await self._spawn("admin", lambda client: create_topics(client, [SHAPE]))
        members = [self._spawn(name, self.load.consume) for name in MEMBERS]
        await self._until(lambda: self.load.seen["committed"] > 0)
        self._nemesis.arm(self._faults)
        await self.sim.sleep(SECONDS)
        self._nemesis.end()
        healed = self.load.seen["committed"]
        await self._until(lambda: len(self.cluster.serving()) == 3 and self.load.seen["committed"] > healed + 5)
        self.load.over = True
        await asyncio.gather(*members)
        await self._spawn("auditor", self.load.audit)

    async def _until(self, condition: Callable[[], bool]) -> None:
        deadline = self.sim.now + HEAL_SECONDS
        while not condition():
            assert self.sim.now < deadline, "\n".join(["it takes too long", *self.notes[-40:]])
            await self.sim.sleep(0.02)

    def _spawn(self, name: str, work: Callable[[Client], Coroutine[Any, Any, None]]) -> asyncio.Task[None]:
        world = self.sim.world(name)
        client = world.call(Client, world, self.cluster.bootstrap, name, CALL_SECONDS)
        return world.spawn(name, work(client))
