"""A stage for failure scenarios: whole nodes in the simulated world, driven step by step by a plain function.

    with Stage(3) as stage:                     # n1 is the controller (and a broker), n2 and n3 are brokers alone
        stage.create(replicas=(2, 3))           # ORDERS, with these two replicas; the first one leads
        stage.send(b"m1")                       # acks=all, retried until it is acknowledged
        stage.cut("n2", "n3")                   # between any two calls the world stands still
        stage.kill("n2")
        stage.until(lambda: stage.leader() == "n3")
        assert stage.values("n3") == [b"m1"]

Only `until`, `holds_for`, `pass_time`, `start`, `stop`, and what asks something of a node let virtual time go by. A
node that gives up, cannot start, or logs a traceback fails the scenario at its end, unless `expects_failures`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Sequence
from pathlib import PurePath
from random import Random
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from highwater.errors import Code
from highwater.model import TopicPartition, Uuid
from highwater.net.client import CallFailed
from highwater.sim.cluster import SimCluster
from highwater.sim.invariants import all_invariants
from highwater.sim.knobs import Knobs
from highwater.sim.simulation import Simulation
from highwater.sim.view import Observer
from highwater.wire import records
from tests.scenarios.sights import Sights
from tests.scenarios.sights import Stored as Stored
from tests.scenarios.story import Story
from tests.scenarios.visitor import ORDERS as ORDERS
from tests.scenarios.visitor import Visitor

T = TypeVar("T")
LOOK_SECONDS = 0.01
LOGS_EVERY = 30
SETTINGS = {"auto.leader.rebalance.enable": "false", "min.insync.replicas": "1"}
"""Beside those of simulated clusters: nothing but the scenario moves a leader."""


class Pending(Generic[T]):
    """What a client began: `result` once it is `done`, or how its connection `failed`."""

    def __init__(self) -> None:
        self.done = False
        self.failed: CallFailed | None = None
        self.result: T | None = None


class Stage(Sights):
    """`size` nodes n1, n2, …: the first `voters` of them are controllers too. `settings` are server properties, with
    underscores for dots, the same for all nodes. With `watched`, all invariants of `highwater.sim.invariants` are
    checked every 10 ms; not for scenarios that lose data on purpose."""

    def __init__(
        self,
        size: int = 3,
        voters: int = 1,
        *,
        seed: int = 1,
        knobs: Knobs | None = None,
        starts: bool = True,
        watched: bool = False,
        expects_failures: bool = False,
        **settings: object,
    ) -> None:
        self.sim = Simulation(seed, knobs)
        self._story = Story(lambda: self.sim.now)
        changes = SETTINGS | {name.replace("_", "."): str(value) for name, value in settings.items()}
        self.cluster = SimCluster(self.sim, size, voters, Random(seed), self._story.note, changes)
        self.observer = Observer(self.cluster)
        self._starts = starts
        self._invariants = all_invariants() if watched else []
        self._looks = 0
        self._expects_failures = expects_failures
        self._visitors: dict[str, Visitor] = {}

    def __enter__(self) -> Self:
        self._story.begin()
        try:
            self.sim.run(self.cluster.format())
            if self._invariants:
                self.sim.at(self.sim.now + LOOK_SECONDS, self._look)
            if self._starts:
                self.start(*self.cluster.names)
        except BaseException as failed:
            self.__exit__(type(failed), failed, failed.__traceback__)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._story.end()
        self.sim.close()
        if error is not None:
            error.add_note(self._story.text())
        elif not self._expects_failures:
            failures = [*self.cluster.failures, *self._story.tracebacks, *map(str, self.sim.failures)]
            assert not failures, "\n".join([*failures, self._story.text()])

    def said(self, node: str, part: str, at_least: int = logging.INFO) -> bool:
        """Whether the node logged a line with `part` in it, at that level or above."""
        return self._story.has(node, part, at_least)

    def complaints(self, node: str) -> list[str]:
        """Warnings and errors that the node logged, in their order."""
        return [said.text for said in self._story.said if said.node == node and said.level >= logging.WARNING]

    # Time

    @property
    def now(self) -> float:
        return self.sim.now

    def pass_time(self, seconds: float) -> None:
        self.sim.advance(seconds)

    def until(self, condition: Callable[[], object], seconds: float = 30.0) -> None:
        """Asked after every callback of every node, so that the world stops at the very moment. TimeLimit if it does
        not come in time."""
        self.sim.loop.limit = self.sim.now + seconds
        try:
            self.sim.loop.run_until(lambda: bool(self.sim.failures or condition()))
        finally:
            self.sim.loop.limit = None
        assert not self.sim.failures, self.sim.failures

    def holds_for(self, seconds: float, condition: Callable[[], object], what: str = "") -> None:
        """Whatever else happens in that time, the condition holds after every callback."""
        end = self.sim.now + seconds

        def over() -> bool:
            assert condition(), what or "it does not hold any more"
            return self.sim.now >= end

        self.sim.at(end, lambda: None)
        self.sim.loop.run_until(over)
        assert not self.sim.failures, self.sim.failures

    def _look(self) -> None:
        self._looks += 1
        view = self.observer.look(at_logs=self._looks % LOGS_EVERY == 0)
        for invariant in self._invariants:
            invariant.check(view)
        self.sim.at(self.sim.now + LOOK_SECONDS, self._look)

    # What is done to nodes

    def start(self, *names: str, waits: bool = True) -> None:
        """Begin a life of each, and wait until all serve. Clients have given up what they had open with the last."""

        async def begin() -> None:
            for name in names:
                for client in self._visitors:
                    self.sim.reset(client, name)
                self.cluster.note(name, "starts")
                self.cluster.start(name)

        self.sim.run(begin())
        if waits:
            self.until(lambda: all(self.serves(name) for name in names) or self.cluster.failures)

    def stop(self, name: str) -> None:
        """A controlled shutdown, to its end."""
        self.cluster.note(name, "is stopped")
        self.sim.run(self.cluster.members[name].hosted.stop())
        self.cluster.take_down(name, power_loss=False)

    def kill(self, *names: str) -> None:
        """kill -9: what was written stays, connections are closed by the kernel."""
        for name in names:
            self.cluster.note(name, "is killed")
            self.cluster.take_down(name, power_loss=False)

    def cut_power(self, *names: str) -> None:
        """What was not synced may be gone, names and bytes apart; no connection is closed."""
        for name in names:
            self.cluster.note(name, "loses power")
            self.cluster.take_down(name, power_loss=True)

    def pause(self, name: str) -> None:
        """SIGSTOP."""
        self.cluster.note(name, "is paused")
        self.sim.pause(name)

    def resume(self, name: str) -> None:
        self.cluster.note(name, "resumes")
        self.sim.resume(name)

    def cut(self, a: str, b: str, one_way: bool = False) -> None:
        """Bytes between the two (or from `a` to `b` alone) are held until `heal`. Clients have names too."""
        self.cluster.note(a, f"is cut from {b}{' one way' if one_way else ''}")
        self.sim.cut(a, b, one_way)

    def isolate(self, name: str, *but_from: str) -> None:
        for other in self.cluster.names:
            if other != name and other not in but_from:
                self.cut(name, other)

    def heal(self, a: str | None = None, b: str | None = None) -> None:
        self.cluster.note(a or "all", f"heals {b or ''}")
        self.sim.heal(a, b)

    def lose_records(self, name: str, from_offset: int, tp: TopicPartition = ORDERS) -> None:
        """Of a node that is down: the tail of a replica's only segment never reached the disk."""
        file = self.storage(name).file(PurePath("/data") / str(tp) / f"{0:020d}.log")
        kept = sum(
            size for _, size, header in records.walk(memoryview(bytes(file.data))) if header.base_offset < from_offset
        )
        file.truncate(kept)

    # Clients

    @property
    def client(self) -> Visitor:
        return self.visitor("client")

    def visitor(self, name: str) -> Visitor:
        """A client machine of that name; the same one each time."""
        if name not in self._visitors:
            world = self.sim.world(name)
            self._visitors[name] = world.call(Visitor, world, self.cluster, self._topic_id)
        return self._visitors[name]

    def _topic_id(self, topic: str) -> Uuid:
        return self.truth.topics.by_name[topic].id

    def run(self, work: Coroutine[Any, Any, T], by: str = "client", seconds: float = 60.0) -> T:
        """Perform a client's coroutine to its end."""
        return self.sim.run(self.visitor(by).world.perform(work), limit=seconds)

    def begin(self, work: Coroutine[Any, Any, T], by: str = "client") -> Pending[T]:
        """Begin a client's coroutine; it goes on whenever time goes by."""
        pending = Pending[T]()

        async def carry_out() -> None:
            try:
                pending.result = await work
                pending.done = True
            except CallFailed as failed:
                pending.failed = failed

        self.visitor(by).world.spawn("pending", carry_out())
        return pending

    def create(self, tp: TopicPartition = ORDERS, replicas: Sequence[int] = (2, 3), **configs: object) -> None:
        """A topic of as many partitions as `tp` asks for, all with these replicas; returns when all of them have it.
        `configs` are the topic's, with underscores for dots."""
        self.run(self.client.create(tp, replicas, {k.replace("_", "."): str(v) for k, v in configs.items()}))
        self.until(lambda: self.leader(tp) and all(self.has(f"n{replica}", tp) for replica in replicas))

    def send(self, *values: bytes, tp: TopicPartition = ORDERS) -> int:
        """One batch with acks=all, retried until it is acknowledged; its first offset."""
        return self.run(self.client.send(*values, tp=tp))

    def write(self, name: str, *values: bytes, tp: TopicPartition = ORDERS, acks: int = -1) -> int:
        """One batch without a producer id, taken by this leader at the first attempt; its first offset. For scenarios
        that lose records: an idempotent producer does not go on after that."""
        produced = self.run(self.client.produce(name, *values, tp=tp, acks=acks))
        assert produced.code is Code.NONE, produced
        return produced.offset

    def read(self, tp: TopicPartition = ORDERS) -> list[bytes]:
        """Every committed value, from the leader."""
        return [read.value for read in self.run(self.client.read(tp))]
