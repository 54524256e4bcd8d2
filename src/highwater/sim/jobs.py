"""Background jobs: each event runs one step of a generator, with random durations between the steps."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable, Generator
from random import Random
from typing import Any, TypeVar

from highwater.sim.knobs import Knobs
from highwater.sim.loop import SimLoop
from highwater.sim.process import Process
from highwater.world import Step
from highwater.world.jobs import Pace

T = TypeVar("T")
LOOK_SECONDS = 0.25
"""How often a step that takes long looks whether the machine is still slow."""


def over_the_border(value: T) -> T:
    """The value as another process gets it: a copy, or the error of pickling."""
    copy: T = pickle.loads(pickle.dumps(value))
    return copy


class SimJob:
    """Implements Job. Other callbacks of the node, and a crash, may come between any two steps."""

    def __init__(
        self,
        process: Process,
        loop: SimLoop,
        random: Random,
        knobs: Knobs,
        name: str,
        generator: Generator[Step, None, Any],
        done: Callable[[Any], None],
        step: Callable[[Step], None] | None,
        carry: Callable[[Any], Any],
        drag: Callable[[], float],
    ) -> None:
        """`drag` is the factor by which steps take longer than usual at present."""
        self._process = process
        self._loop = loop
        self._random = random
        self._knobs = knobs
        self._name = name
        self._generator = generator
        self._done = done
        self._step = step
        self._carry = carry
        self._drag = drag
        self._cancelled = False
        self._closed: Callable[[], None] | None = None
        self._pace = Pace(loop.time())
        process.jobs[self] = generator
        self._next: asyncio.TimerHandle
        self._later(0.0, self._advance)

    def cancel(self, closed: Callable[[], None] | None = None) -> None:
        self._process.check()
        self._cancelled = True
        self._closed = closed
        if self in self._process.jobs:
            self._next.cancel()
            self._later(0.0, self._advance)
        else:
            self._notify_closed()

    def _later(self, pause: float, fn: Callable[..., None], *args: object) -> None:
        self._work(pause, self._random.uniform(*self._knobs.job_step), fn, args)

    def _work(self, pause: float, left: float, fn: Callable[..., None], args: tuple[object, ...]) -> None:
        """`left` is the time that the step still needs at the usual speed. What slowed it may have ended meanwhile."""
        drag, context = self._drag(), self._process.context()
        if left * drag <= LOOK_SECONDS:
            self._next = self._loop.call_later(pause + left * drag, fn, *args, context=context)
        else:
            rest = (0.0, left - LOOK_SECONDS / drag, fn, args)
            self._next = self._loop.call_later(pause + LOOK_SECONDS, self._work, *rest, context=context)

    def _advance(self) -> None:
        if self._cancelled:
            self._close()
            return
        self._process.emit("step", self._name)
        self._process.in_job = True
        try:
            step = next(self._generator)
        except StopIteration as end:
            self._finish(self._carried(end.value))
        except Exception as error:  # noqa: BLE001 - the boundary: a job's error is its result
            self._finish(self._carried(error))
        else:
            if self._step is not None:
                self._loop.call_soon(self._report, self._carry(step), context=self._process.context())
            self._later(self._pace.pause(step, self._loop.time()), self._advance)
        finally:
            self._process.in_job = False

    def _close(self) -> None:
        del self._process.jobs[self]
        self._process.in_job = True
        try:
            self._generator.close()
        finally:
            self._process.in_job = False
        self._notify_closed()

    def _notify_closed(self) -> None:
        if self._closed is not None:
            self._loop.call_soon(self._closed, context=self._process.context())

    def _carried(self, result: object) -> object:
        try:
            return self._carry(result)
        except (pickle.PicklingError, TypeError, AttributeError) as error:
            return error

    def _finish(self, result: object) -> None:
        del self._process.jobs[self]
        self._later(0.0, self._deliver, result)

    def _report(self, step: Step) -> None:
        if not self._cancelled and self._step is not None:
            self._step(step)

    def _deliver(self, result: object) -> None:
        if not self._cancelled:
            self._process.emit("job", self._name, type(result).__name__)
            self._done(result)
