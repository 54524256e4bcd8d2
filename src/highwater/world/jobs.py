"""Awaiting a background job, where a coroutine asks for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import Literal, TypeVar

from highwater.world import Step, World

T = TypeVar("T")


async def finished(
    world: World,
    job: Callable[..., Generator[Step, None, T]],
    *args: object,
    step: Callable[[Step], None] | None = None,
    where: Literal["thread", "process"] = "thread",
) -> T:
    """The job's result; raises what it raised."""
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
