"""The real world of one node: a uvloop (or asyncio) loop, threads for system calls, and the files of this machine."""

from __future__ import annotations

import asyncio
import logging
import random
import time
import weakref
from asyncio import AbstractEventLoop, Task
from collections.abc import Callable, Coroutine, Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from highwater.world import Clock, Dead, Disk, Net, Place, Step, Timer, descriptors
from highwater.world.boundary import Failures
from highwater.world.flusher import MOST_ROUNDS, Flusher
from highwater.world.real_disk import RealDisk
from highwater.world.real_jobs import RealJob
from highwater.world.real_net import RealNet

T = TypeVar("T")
JOB_THREADS = 4
THREADS: Mapping[Place, int] = {
    "thread": JOB_THREADS,
    "quorum": 2,
    "sync": 2,
    "reading": 4,
    "client": 2,
    "inflating": 1,
    "looking up": 1,
}
TURN_SECONDS: Mapping[Place, float] = {"client": 0.01, "inflating": 0.01, "looking up": 0.01}
"""After so long a job lets those that wait have their turn. Elsewhere it is driven to its end."""
BACKGROUND_JOBS = 128
"""Each background job waits in its own thread, perhaps for hours, so that no other job has to wait for it."""

log = logging.getLogger(__name__)


class RealClock:
    monotonic = staticmethod(time.monotonic)  # each request asks several times: a call less each time

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = loop

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def call_later(self, seconds: float, fn: Callable[..., None], *args: object) -> Timer:
        return self._loop.call_later(seconds, fn, *args)

    def call_soon(self, fn: Callable[..., None], *args: object) -> Timer:
        return self._loop.call_soon(fn, *args)


class RealWorld:
    def __init__(self, loop: AbstractEventLoop, on_failure: Callable[[str, BaseException], None]) -> None:
        self._loop = loop
        self._on_failure = on_failure
        self._threads = {place: ThreadPoolExecutor(count, f"job-{place}") for place, count in THREADS.items()}
        self._threads["background"] = ThreadPoolExecutor(BACKGROUND_JOBS, thread_name_prefix="background")
        self._threads["process"] = self._threads["thread"]
        self._flush_threads = ThreadPoolExecutor(MOST_ROUNDS, thread_name_prefix="flush")
        self._random = random.SystemRandom()
        self._tasks: set[Task[None]] = set()
        self._jobs: weakref.WeakSet[RealJob] = weakref.WeakSet()
        self._dead = False
        share = descriptors.shares(descriptors.limit())
        self._net = RealNet(loop, share.connections)
        self._disk = RealDisk(Flusher(loop, self._flush_threads), share.files)
        self._disk.on_pressed = self._relieve_disk
        self.clock: Clock = RealClock(loop)
        self.net: Net = self._net
        self.disk: Disk = self._disk
        self.failures = Failures(time.monotonic)
        loop.set_exception_handler(self._escaped)

    def random(self, label: str) -> random.Random:
        return random.Random(f"{label}:{self._random.getrandbits(128)}")

    def run(
        self,
        job: Callable[..., Generator[Step, None, T]],
        *args: object,
        done: Callable[[T | Exception], None],
        step: Callable[[Step], None] | None = None,
        where: Place = "thread",
    ) -> RealJob:
        if self._dead:
            raise Dead
        started = RealJob(self._loop, job, args, done, step)
        self._jobs.add(started)
        started.start(self._threads[where], where, TURN_SECONDS.get(where))
        return started

    def spawn(
        self, name: str, coroutine: Coroutine[Any, Any, None], failed: Callable[[Exception], None] | None = None
    ) -> Task[None]:
        if self._dead:
            coroutine.close()
            raise Dead
        task = self._loop.create_task(coroutine, name=name)
        self._tasks.add(task)
        task.add_done_callback(lambda task: self._ended(task, failed))
        return task

    def _ended(self, task: Task[None], decide: Callable[[Exception], None] | None) -> None:
        self._tasks.discard(task)
        self.failures.task_ended(task, decide, self._on_failure)

    def _relieve_disk(self) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._disk.relieve)

    def _escaped(self, loop: AbstractEventLoop, context: dict[str, Any]) -> None:
        """Handles an exception that no other boundary stopped. The loop goes on, and closes a transport whose protocol
        failed."""
        failed = context.get("exception")
        if isinstance(failed, Dead):
            return
        if not isinstance(failed, Exception):
            loop.default_exception_handler(context)
            return
        self.failures.note("connection" if "transport" in context else "callback", context["message"], failed)

    def crash(self) -> None:
        self._dead = True
        for task in list(self._tasks):
            task.cancel()
        self._net.crash()
        self._disk.crash()
        for job in list(self._jobs):
            job.crash()

    def close(self) -> None:
        """Waits for running jobs, and ends the threads."""
        for task in list(self._tasks):
            task.cancel()
        for threads in self._threads.values():
            threads.shutdown(wait=True, cancel_futures=True)
        self._flush_threads.shutdown(wait=True)


def new_event_loop() -> AbstractEventLoop:
    """uvloop, if it is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
