"""Writes producer snapshots, one after the other, never two at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Mapping
from pathlib import PurePath

from highwater.log import names, producer_snapshot
from highwater.log.checkpoint import replace_file
from highwater.log.producer_state import Producer
from highwater.model import Offset
from highwater.world import Disk, Step, World

Done = Callable[[Exception | None], None]
Producers = Mapping[int, Producer]


def write_snapshot(disk: Disk, path: PurePath, producers: Producers) -> Generator[Step, None, None]:
    """A job: ten thousand producers are megabytes, and their encoding would block the event loop."""
    yield from replace_file(disk, path, producer_snapshot.encode(producers))


class ProducerSnapshots:
    """A queue of writes. A snapshot is named after its offset, and two with the same name must not be written at
    once."""

    def __init__(self, world: World, directory: PurePath) -> None:
        self._world = world
        self._directory = directory
        self._queue: deque[tuple[Offset, Producers, Done]] = deque()
        self._idle: list[Callable[[], None]] = []
        self._stopped = False

    def write(self, offset: Offset, producers: Producers, done: Done) -> None:
        """The caller must not change `producers` any more. Of the waiting snapshots only the latest is
        written: recovery needs no other, and segments may roll faster than a disk syncs."""
        passed_over = self._queue.pop() if len(self._queue) > 1 else None
        self._queue.append((offset, producers, done))
        if len(self._queue) == 1:
            self._begin()
        if passed_over is not None:
            passed_over[2](None)

    def when_idle(self, callback: Callable[[], None]) -> None:
        """Calls `callback` when no write is under way; at once if there is none."""
        if self._queue:
            self._idle.append(callback)
        else:
            callback()

    def _begin(self) -> None:
        offset, producers, _ = self._queue[0]
        path = names.segment_file(self._directory, offset, names.SNAPSHOT)
        self._world.run(write_snapshot, path, producers, done=self._wrote)

    def _wrote(self, result: Exception | None) -> None:
        _, _, done = self._queue.popleft()
        if self._stopped:
            self._queue.clear()
        if self._queue:
            self._begin()
        else:
            idle, self._idle = self._idle, []
            for callback in idle:
                callback()
        done(result)

    def stop(self) -> None:
        """Begins no further write."""
        self._stopped = True
