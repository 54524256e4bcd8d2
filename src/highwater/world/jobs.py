"""Lets a coroutine wait for a background job."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from typing import TypeVar

from highwater.world import EXHAUSTED_SECONDS, Exhausted, Place, Step, World, is_passing

T = TypeVar("T")


class Pace:
    """Slows a job down to the time that its steps must take. A delay is not made up for."""

    def __init__(self, now: float) -> None:
        self._begun = now

    def pause(self, step: Step, now: float) -> float:
        """How long to wait after the work of this step."""
        if not step.takes:
            return 0.0
        due = self._begun + step.takes
        self._begun = max(due, now)
        return max(due - now, 0.0)


async def finished(
    world: World,
    job: Callable[..., Generator[Step, None, T]],
    *args: object,
    step: Callable[[Step], None] | None = None,
    where: Place = "thread",
) -> T:
    """The result of the job. Raises what the job raised."""
    waiting: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def done(result: T | Exception) -> None:
        if waiting.cancelled():
            return
        if isinstance(result, Exception):
            waiting.set_exception(result)
        else:
            waiting.set_result(result)

    started = world.run(job, *args, done=done, step=step, where=where)
    try:
        return await waiting
    except asyncio.CancelledError:
        started.cancel()
        raise


def is_exhausted(failed: OSError) -> bool:
    """For syncs: all their other errors are final."""
    return isinstance(failed, Exhausted)


async def patiently(
    attempt: Callable[[], Awaitable[T]],
    passes: Callable[[OSError], bool] = is_passing,
    on_failure: Callable[[OSError], None] = lambda failed: None,
) -> T:
    """The result of `attempt`. If it fails with an error that `passes`, it is tried again after a pause. `on_failure`
    is called with the first such error."""
    waiting = False
    while True:
        try:
            return await attempt()
        except OSError as failed:
            if not passes(failed):
                raise
            if not waiting:
                on_failure(failed)
            waiting = True
        await asyncio.sleep(EXHAUSTED_SECONDS)
