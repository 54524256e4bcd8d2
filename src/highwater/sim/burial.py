"""Ends coroutines and generators of a crashed node without warnings: their effects on the world no longer count."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from typing import Any

SUSPENSIONS = 100


def bury(body: Coroutine[Any, Any, Any] | Generator[Any, Any, Any]) -> None:
    """Closes `body`. A `finally` block in it that awaits or uses the dead world is ended early."""
    for _ in range(SUSPENSIONS):
        try:
            body.close()
            return
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001 - the process is dead: nothing handles what its code still raises
            if not (isinstance(error, RuntimeError) and "ignored GeneratorExit" in str(error)):
                return


def bury_task(task: asyncio.Task[Any]) -> None:
    # The switch that asyncio's own gather uses: the task is left pending on purpose.
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    body = task.get_coro()
    if body is not None and not task.done():
        bury(body)
