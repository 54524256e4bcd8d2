"""The world of one node in the simulation."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from hashlib import blake2b
from inspect import CORO_CREATED, getcoroutinestate
from random import Random
from typing import Any, TypeVar

from highwater.sim.clock import SimClock, Wall
from highwater.sim.disk import Machine, SimDisk
from highwater.sim.flusher import Flusher
from highwater.sim.jobs import SimJob, over_the_border
from highwater.sim.knobs import Knobs
from highwater.sim.loop import SimLoop
from highwater.sim.net import Network, SimNet
from highwater.sim.process import Process
from highwater.sim.storage import Storage
from highwater.world import Clock, Dead, Disk, Net, Place, Step
from highwater.world.boundary import Failures

T = TypeVar("T")
OnFailure = Callable[[str, BaseException], None]

BOOT_SPREAD = 1_000_000.0
"""Seconds by which the monotonic clocks of two machines may differ."""


def fork(seed: int, *labels: object) -> Random:
    """A random stream for these labels, equal in every interpreter."""
    name = "/".join(map(str, (seed, *labels)))
    return Random(int.from_bytes(blake2b(name.encode(), digest_size=16).digest(), "big"))


class SimWorld:
    """Implements World for one life of one node."""

    def __init__(
        self,
        process: Process,
        seed: int,
        knobs: Knobs,
        loop: SimLoop,
        network: Network,
        storage: Storage,
        wall: Wall,
        crash: Callable[[], None],
        on_failure: OnFailure,
        on_contained: OnFailure,
    ) -> None:
        self._process = process
        self._seed = seed
        self._knobs = knobs
        self._loop = loop
        self._crash = crash
        self._on_failure = on_failure
        self._randoms: dict[str, Random] = {}
        self._job_random = self._fork("jobs")
        boot = self._fork("boot").uniform(0.0, BOOT_SPREAD)
        clock = SimClock(process, loop, wall, boot, self._fork("clock"), knobs)
        flusher = Flusher(process, loop, storage, self._fork("flusher"), knobs)
        self._storage = storage
        self._machine = Machine(process, storage, clock, flusher, self._fork("disk"), knobs)
        self.clock: Clock = clock
        self.net: Net = SimNet(network, process)
        self.disk: Disk = SimDisk(self._machine)
        self.failures = Failures(clock.monotonic, on_contained)

    @property
    def name(self) -> str:
        return self._process.name

    @property
    def is_alive(self) -> bool:
        return self._process.alive

    def _fork(self, purpose: str) -> Random:
        return fork(self._seed, self._process.name, self._process.life, "of the world", purpose)

    def random(self, label: str) -> Random:
        """The stream of a label continues where its last user left it. Each life of a node has its own streams."""
        self._process.check()
        if label not in self._randoms:
            self._randoms[label] = fork(self._seed, self._process.name, self._process.life, "of the node", label)
        return self._randoms[label]

    def run(
        self,
        job: Callable[..., Generator[Step, None, T]],
        *args: object,
        done: Callable[[T | Exception], None],
        step: Callable[[Step], None] | None = None,
        where: Place = "thread",
    ) -> SimJob:
        self._process.emit("run", job.__qualname__, where)
        carry: Callable[[Any], Any] = _as_it_is
        if where in ("process", "background"):
            job, args = over_the_border((job, args))
            carry = over_the_border
        generator = job(SimDisk(self._machine), *args)
        return SimJob(
            self._process,
            self._loop,
            self._job_random,
            self._knobs,
            job.__qualname__,
            generator,
            done,
            step,
            carry,
            lambda: self._storage.drag,
        )

    def spawn(
        self, name: str, coroutine: Coroutine[Any, Any, None], failed: Callable[[Exception], None] | None = None
    ) -> asyncio.Task[None]:
        try:
            self._process.emit("spawn", name)
        except Dead:
            coroutine.close()
            raise
        context = self._process.context()
        task = self._loop.create_task(coroutine, name=name, context=context)
        ended = self.failures.task_ended
        task.add_done_callback(lambda task: ended(task, failed, self._on_failure), context=context)
        return task

    async def perform(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine as this node, and waits for it from outside. Raises Dead if the node crashes meanwhile."""
        outcome: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        async def act() -> None:
            try:
                result = await coroutine
            except Exception as error:  # noqa: BLE001 - carried to the caller
                if not outcome.done():
                    outcome.set_exception(error)
            else:
                if not outcome.done():
                    outcome.set_result(result)

        def die() -> None:
            if not outcome.done():
                outcome.set_exception(Dead(f"{self._process.name} crashed"))

        try:
            task = self.spawn("perform", act())
        except Dead:
            coroutine.close()
            raise
        self._process.on_crash.append(die)
        try:
            return await outcome
        finally:
            self._process.on_crash.remove(die)
            if self._process.alive:
                task.cancel()
            elif getcoroutinestate(coroutine) == CORO_CREATED:
                coroutine.close()  # it crashed before the first step

    def call(self, fn: Callable[..., T], *args: object) -> T:
        """Calls a plain function as this node, on its loop."""
        self._process.check()
        return self._process.context().run(fn, *args)

    def crash(self) -> None:
        self._crash()


def _as_it_is(value: Any) -> Any:
    return value
