"""A seeded event loop on virtual time: one thread, no clock, no selector."""

from __future__ import annotations

import asyncio
from asyncio import events
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from heapq import heapify, heappop, heappush
from math import inf
from random import Random
from typing import Any, TypeVar, TypeVarTuple, Unpack

from highwater.sim.burial import bury, bury_task
from highwater.sim.process import OWNER, Process
from highwater.sim.trace import Trace
from highwater.world import Dead

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
ExceptionHandler = Callable[[Process, dict[str, Any]], None]

TURNS_PER_INSTANT = 1_000_000
CANCELLED_TIMERS = 1_000


class Deadlock(RuntimeError):
    """No event is left that could ever happen."""


class Livelock(RuntimeError):
    """Callbacks run without end, and time does not move."""


class TimeLimit(RuntimeError):
    """The virtual time allowed is over."""


class OwnedTask(asyncio.Task[T]):
    process: Process


class OwnedFuture(asyncio.Future[T]):
    process: Process


class SimLoop(asyncio.AbstractEventLoop):
    """Callbacks of one process run in the order in which they were scheduled. Callbacks of several processes interleave
    by the seed. A method that is not implemented here (sockets, threads, signals, subprocesses) raises
    NotImplementedError: a node that calls it does not go through its world."""

    def __init__(self, random: Random) -> None:
        self._random = random.random
        self._now = 0.0
        self._serial = 0
        self._turns = 0
        self._cancelled = 0
        self._timers: list[tuple[float, int, asyncio.TimerHandle, Process]] = []
        self._active: list[Process] = []
        self._running = False
        self._stopping = False
        self._closed = False
        self.limit: float | None = None
        self.root = Process("", 0, Trace(self.time))
        """Owns what belongs to no node: the scenario, the network and the schedule of faults."""
        self._current = self.root
        self.on_exception: ExceptionHandler | None = None
        self.on_turn: Callable[[Process], None] | None = None
        """Called after each callback, with its process."""

    # Time and callbacks

    def time(self) -> float:
        return self._now

    def call_soon(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        process = (OWNER.get() if context is None else context.get(OWNER)) or self.root
        handle = asyncio.Handle(callback, args, self, context)
        self._enqueue(process, handle)
        return handle

    def call_later(
        self, delay: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        process = (OWNER.get() if context is None else context.get(OWNER)) or self.root
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        if when <= self._now:
            self._enqueue(process, handle)
        else:
            self._serial += 1
            heappush(self._timers, (when, self._serial, handle, process))
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Called by TimerHandle. Cancelled timeouts are removed now and then: otherwise they would fill the heap."""
        self._cancelled += 1
        if self._cancelled > CANCELLED_TIMERS and self._cancelled > len(self._timers) // 2:
            self._cancelled = 0
            self._timers = [timer for timer in self._timers if not timer[2].cancelled()]
            heapify(self._timers)

    def _enqueue(self, process: Process, handle: asyncio.Handle) -> None:
        if process.alive:
            process.ready.append(handle)
            self._wake(process)
        else:
            process.remains.append(handle)

    # Processes

    def pause(self, process: Process) -> None:
        process.paused = True
        self._withdraw(process)

    def resume(self, process: Process) -> None:
        process.paused = False
        self._wake(process)

    def spend(self, process: Process, seconds: float) -> None:
        """The running code takes this long. Everything else of the process comes later, and other processes go on."""
        process.busy_until = self.time_of(process) + seconds
        self._withdraw(process)
        self.call_at(process.busy_until, self._wake, process, context=Context())

    def time_of(self, process: Process) -> float:
        """The present time for the code of the process."""
        return max(self._now, process.busy_until)

    def _wake(self, process: Process) -> None:
        if process.ready and not process.queued and not process.paused and process.busy_until <= self._now:
            process.queued = True
            self._active.append(process)

    def kill(self, process: Process) -> None:
        """Drops the callbacks that the process still had. What they refer to is kept from the garbage collector until
        `bury`."""
        process.alive = False
        self._withdraw(process)
        process.remains.extend(task for task in asyncio.all_tasks(self) if owner_of(task) is process)
        process.remains.extend(process.ready)
        process.ready.clear()

    def bury(self, process: Process) -> None:
        """Closes the coroutines and jobs of a killed process. Its code can no longer change the world."""
        for task in [remnant for remnant in process.remains if isinstance(remnant, asyncio.Task)]:
            bury_task(task)
        for generator in tuple(process.jobs.values()):
            bury(generator)
        process.jobs.clear()
        process.remains.clear()

    def _withdraw(self, process: Process) -> None:
        if process.queued:
            process.queued = False
            self._active.remove(process)

    # Running

    def run_until_complete(self, future: Any) -> Any:
        """Runs until `future` is done. Raises Deadlock, Livelock or TimeLimit if it never is."""
        task: asyncio.Future[Any] = asyncio.ensure_future(future, loop=self)
        self._drive(task.done)
        return task.result()

    def run_until(self, condition: Callable[[], bool]) -> None:
        """Runs until `condition` holds. It is checked after every callback."""
        self._drive(condition)

    def run_to(self, when: float) -> None:
        """Runs everything that is due by `when`."""
        self._drive(lambda: not self._active and self._next_due() > when)
        self._now = max(self._now, when)

    def run_forever(self) -> None:
        """Runs until it is stopped, or until no event is left."""
        self._stopping = False
        self._drive(lambda: self._stopping or not (self._active or self._next_due() < inf))

    def _drive(self, finished: Callable[[], bool]) -> None:
        if self._closed or self._running:
            raise RuntimeError("this loop is closed" if self._closed else "this loop is already running")
        self._running = True
        outer = events._get_running_loop()
        events._set_running_loop(self)
        try:
            while not finished():
                if self._active:
                    self._turn()
                else:
                    self._advance()
        finally:
            self._running = False
            events._set_running_loop(outer)

    def _turn(self) -> None:
        self._turns += 1
        if self._turns > TURNS_PER_INSTANT:
            raise Livelock(f"{TURNS_PER_INSTANT} callbacks at {self._now} s")
        active = self._active
        index = 0 if len(active) == 1 else int(self._random() * len(active))
        process = self._current = active[index]
        handle = process.ready.popleft()
        if not process.ready:
            process.queued = False
            active[index] = active[-1]
            active.pop()
        if not handle.cancelled():
            handle._run()
            if self.on_turn is not None:
                self.on_turn(process)

    def _advance(self) -> None:
        """Moves time to the next timer, and makes all timers ready that are due by then."""
        due, timers = self._next_due(), self._timers
        if due == inf:
            raise Deadlock(f"nothing is left to happen after {self._now} s")
        if self.limit is not None and due > self.limit:
            self._now = self.limit
            raise TimeLimit(f"not finished at {self.limit} s")
        self._now = due
        self._turns = 0
        while timers and timers[0][0] <= self._now:
            _, _, handle, process = heappop(timers)
            if not handle.cancelled():
                self._enqueue(process, handle)

    def _next_due(self) -> float:
        timers = self._timers
        while timers and (timers[0][2].cancelled() or not timers[0][3].alive):
            heappop(timers)
        return timers[0][0] if timers else inf

    def stop(self) -> None:
        self._stopping = True

    def is_running(self) -> bool:
        return self._running

    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        if self._running:
            raise RuntimeError("a running loop cannot be closed")
        self._closed = True
        self._timers.clear()
        self._active.clear()

    # Futures and tasks

    def create_future(self) -> asyncio.Future[Any]:
        future: OwnedFuture[Any] = OwnedFuture(loop=self)
        future.process = OWNER.get() or self.root
        return future

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: object = None,
        context: Context | None = None,
        **options: Any,
    ) -> asyncio.Task[T]:
        process = (OWNER.get() if context is None else context.get(OWNER)) or self.root
        # asyncio numbers unnamed tasks over the whole interpreter, so the names would differ between runs.
        task: OwnedTask[T] = OwnedTask(coro, loop=self, name=str(name or "task"), context=context, **options)
        task.process = process
        return task

    def get_debug(self) -> bool:
        return False

    # Errors

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """For an exception without a caller that could get it: calls `on_exception`, unless the process is dead."""
        error = context.get("exception")
        process = owner_of(context.get("task") or context.get("future")) or self._current
        if self._closed or not process.alive or isinstance(error, Dead):
            return
        if self.on_exception is not None:
            self.on_exception(process, context)


def owner_of(future: object) -> Process | None:
    return future.process if isinstance(future, OwnedTask | OwnedFuture) and hasattr(future, "process") else None


def seeded_loop(random: Random) -> SimLoop:
    # For a type checker the base is abstract. At run time the missing methods raise NotImplementedError, as they
    # should.
    return SimLoop(random)  # type: ignore[abstract]
