"""Waits on a real event loop until a condition holds. On a simulated one, use the simulation's own `until`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


async def until(condition: Callable[[], object], seconds: float = 120.0) -> None:
    """Lets the loop run until the condition holds. The limit only says that something hangs."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.001)
