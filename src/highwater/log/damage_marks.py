"""Marks in the directories of logs that must be fetched again. A restart must not forget what an earlier start found.

The mark is written before the trouble is reported: after the report the replica may leave the ISR, and it would join
again if its broker restarted and knew nothing. Its first line is the reason. Its second line names the damaged segment,
if the trouble ends with that segment.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import PurePath

from highwater.log import checkpoint, names
from highwater.log.integrity import Damaged
from highwater.log.log import Log
from highwater.world import World, is_passing
from highwater.world.jobs import finished

PATIENCE_SECONDS = 5.0
"""How long a report waits for its mark. A disk that hangs must not keep a damaged replica in charge."""
RETRY_SECONDS = 1.0
_log = logging.getLogger(__name__)


class DamageMarks:
    def __init__(self, world: World, report: Callable[[Log], None], is_here: Callable[[Log], bool]) -> None:
        self._world = world
        self._report = report
        self._is_here = is_here
        self._marked: set[Log] = set()
        self._writing: dict[Log, list[Callable[[], None]]] = {}
        """Logs whose mark is being written, each with the callbacks that wait for the end of that."""
        self._unwritten: set[Log] = set()
        """Logs whose mark could not be written yet. A timer tries again, and nothing else does: there is one write of a
        mark at a time."""

    async def write(self, directory: PurePath, why: OSError) -> bool:
        """For a log that is being loaded. False if there was no room, so that it must be tried again."""
        try:
            await finished(self._world, checkpoint.replace_file, directory / names.DAMAGE_MARK, _content(why))
        except OSError as failed:
            _log.error("%s: a restart would forget that it must be fetched again: %s", directory, failed)
            return not is_passing(failed)
        return True

    def known(self, log: Log) -> None:
        """Its directory has a mark."""
        self._marked.add(log)

    def later(self, log: Log) -> None:
        """There was no room for its mark."""
        self._unwritten.add(log)
        self._world.clock.call_later(RETRY_SECONDS, self._begin, log)

    def report(self, log: Log) -> None:
        """The log is in trouble. Reports it as soon as that is written down; at once if the log is offline, or if its
        mark could not be written before."""
        if log.offline is not None or log in self._marked or log in self._unwritten:
            self._report(log)
        elif log not in self._writing:
            self._begin(log)

    def _begin(self, log: Log) -> None:
        self._unwritten.discard(log)
        if not self._is_here(log) or log.trouble is None:
            return
        self._writing[log] = []
        self._world.clock.call_later(PATIENCE_SECONDS, self._wait_no_longer, log)
        path = log.directory / names.DAMAGE_MARK
        self._world.run(
            checkpoint.replace_file, path, _content(log.trouble), done=lambda result: self._wrote(log, result)
        )

    def _wait_no_longer(self, log: Log) -> None:
        if log in self._writing:
            self._report(log)

    def _wrote(self, log: Log, result: Exception | None) -> None:
        waiting = self._writing.pop(log)
        if result is None:
            self._marked.add(log)
        else:
            _log.error("%s: a restart would forget that it is damaged: %s", log.partition, result)
            if is_passing(result):
                self.later(log)
        self._report(log)
        for callback in waiting:
            callback()

    def forget(self, log: Log) -> None:
        self._marked.discard(log)
        self._unwritten.discard(log)

    def when_idle(self, log: Log, callback: Callable[[], None]) -> None:
        """Calls `callback` when nothing is written in the directory of the closed log."""
        if log in self._writing:
            self._writing[log].append(lambda: log.when_idle(callback))
        else:
            log.when_idle(callback)


def _content(why: OSError) -> bytes:
    segment = f"{PurePath(why.filename).name}\n" if isinstance(why, Damaged) else ""
    return f"{why.strerror or why}\n{segment}".encode()
