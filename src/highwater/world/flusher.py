"""Group commit: all flushes that are asked for during a round of syncs share the next round."""

from __future__ import annotations

from asyncio import AbstractEventLoop, TimerHandle
from collections.abc import Callable, Collection
from concurrent.futures import Executor
from typing import Final

from highwater.world import File, gravest
from highwater.world.boundary import as_os_error

LATE_SECONDS: Final = 0.1
"""A round that takes longer holds nobody up: another begins. A log may have gigabytes to sync, or its disk may hang."""
MOST_ROUNDS: Final = 4
"""The most rounds at the same time. Each takes a thread."""
Done = Callable[[OSError | None], None]


class _Round:
    """Calls that are answered together."""

    __slots__ = ("calls", "is_late", "timer")

    def __init__(self, calls: list[tuple[Collection[File], Done]]) -> None:
        self.calls = calls
        self.is_late = False
        self.timer: TimerHandle | None = None


class Flusher:
    """Runs one round at a time, on an executor thread, unless a round is late. Results come back on the loop."""

    def __init__(self, loop: AbstractEventLoop, executor: Executor) -> None:
        self._loop = loop
        self._executor = executor
        self._waiting: list[tuple[Collection[File], Done]] = []
        self._rounds: set[_Round] = set()
        self._is_starting = False

    def flush(self, files: Collection[File], done: Done) -> None:
        self._waiting.append((files, done))
        self._start_if_due()

    def _start_if_due(self) -> None:
        """Starts a round in the next turn, which all calls of this turn share."""
        is_free = len(self._rounds) < MOST_ROUNDS and all(each.is_late for each in self._rounds)
        if self._waiting and is_free and not self._is_starting:
            self._is_starting = True
            self._loop.call_soon(self._start_round)

    def _start_round(self) -> None:
        self._is_starting = False
        calls, self._waiting = self._waiting, []
        files = list({id(file): file for wanted, _ in calls for file in wanted}.values())
        begun = _Round(calls)
        self._rounds.add(begun)
        begun.timer = self._loop.call_later(LATE_SECONDS, self._is_late, begun)
        self._executor.submit(self._sync_all, files, begun)

    def _is_late(self, late: _Round) -> None:
        late.is_late = True
        self._start_if_due()

    def _sync_all(self, files: list[File], begun: _Round) -> None:
        failed: dict[int, OSError] = {}
        for file in files:
            try:
                file.sync()
            except OSError as error:
                failed[id(file)] = error
            except Exception as error:  # noqa: BLE001 a job's boundary: others of this round would wait for ever
                failed[id(file)] = as_os_error(error)
        self._loop.call_soon_threadsafe(self._finish_round, begun, failed)

    def _finish_round(self, ended: _Round, failed: dict[int, OSError]) -> None:
        self._rounds.discard(ended)
        if ended.timer is not None:
            ended.timer.cancel()
        self._start_if_due()
        for files, done in ended.calls:
            # One by one: if one callback fails, the others must still get their result.
            self._loop.call_soon(done, gravest(failed[id(file)] for file in files if id(file) in failed))
