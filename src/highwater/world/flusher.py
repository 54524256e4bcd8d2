"""Group commit: all flushes that are asked for during a round of syncs share the next round."""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Callable, Collection
from concurrent.futures import Executor

from highwater.world import File, gravest
from highwater.world.boundary import as_os_error

Done = Callable[[OSError | None], None]


class Flusher:
    """Runs one round at a time, on an executor thread. Results come back on the loop."""

    def __init__(self, loop: AbstractEventLoop, executor: Executor) -> None:
        self._loop = loop
        self._executor = executor
        self._waiting: list[tuple[Collection[File], Done]] = []
        self._under_way = False

    def flush(self, files: Collection[File], done: Done) -> None:
        self._waiting.append((files, done))
        if not self._under_way:
            self._under_way = True
            self._loop.call_soon(self._start_round)

    def _start_round(self) -> None:
        calls, self._waiting = self._waiting, []
        files = list({id(file): file for wanted, _ in calls for file in wanted}.values())
        self._executor.submit(self._sync_all, files, calls)

    def _sync_all(self, files: list[File], calls: list[tuple[Collection[File], Done]]) -> None:
        failed: dict[int, OSError] = {}
        for file in files:
            try:
                file.sync()
            except OSError as error:
                failed[id(file)] = error
            except Exception as error:  # noqa: BLE001 a job's boundary: others of this round would wait for ever
                failed[id(file)] = as_os_error(error)
        self._loop.call_soon_threadsafe(self._finish_round, calls, failed)

    def _finish_round(self, calls: list[tuple[Collection[File], Done]], failed: dict[int, OSError]) -> None:
        if self._waiting:
            self._loop.call_soon(self._start_round)
        else:
            self._under_way = False
        for files, done in calls:
            # One by one: if one callback fails, the others must still get their result.
            self._loop.call_soon(done, gravest(failed[id(file)] for file in files if id(file) in failed))
