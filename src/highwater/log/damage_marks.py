"""Marks in the directories of logs that must be fetched again. A restart must not forget what an earlier start found.

The mark is written before the trouble is reported: after the report the replica may leave the ISR, and it would join
again if its broker restarted and knew nothing. It names every damaged segment. It is written again if another segment
turns out to be damaged: the first one may be deleted before the other.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import PurePath

from highwater.log import checkpoint, names
from highwater.log.log import Log
from highwater.log.mark import Mark
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
        self._marked: dict[Log, Mark] = {}
        """The marks that are in the directories of logs."""
        self._writing: dict[Log, list[Callable[[], None]]] = {}
        """Logs whose mark is being written, each with the callbacks that wait for the end of that."""
        self._unwritten: set[Log] = set()
        """Logs whose mark could not be written yet. A timer tries again, and nothing else does: there is one write of a
        mark at a time."""

    async def write(self, directory: PurePath, why: OSError) -> Mark | None:
        """For a log that is being loaded. None if there was no room, so that it must be tried again."""
        mark = Mark(why.strerror or str(why))
        try:
            await finished(self._world, checkpoint.replace_file, directory / names.DAMAGE_MARK, mark.encode())
        except OSError as failed:
            _log.error("%s: a restart would forget that it must be fetched again: %s", directory, failed)
            return None if is_passing(failed) else mark
        return mark

    def found(self, log: Log, mark: Mark | None) -> None:
        """A log that was loaded has this mark; None if there was no room for it."""
        if mark is None:
            self._later(log)
        else:
            self._marked[log] = mark

    def _later(self, log: Log) -> None:
        self._unwritten.add(log)
        self._world.clock.call_later(RETRY_SECONDS, self._begin, log)

    def report(self, log: Log) -> None:
        """The log is in trouble. Reports it as soon as that is written down; at once if the log is offline, or if its
        mark could not be written before."""
        if log.offline is not None or log in self._unwritten or self._is_written(log):
            self._report(log)
        elif log not in self._writing:
            self._begin(log)

    def _is_written(self, log: Log) -> bool:
        known = self._marked.get(log)
        return known is not None and known.covers(self._wanted(log))

    def _wanted(self, log: Log) -> Mark:
        """What the mark of the log must say now."""
        known = self._marked.get(log)
        damaged = {f"{base:020d}{names.LOG}": None for base in log.reads.damage}
        if log.incomplete is None:
            return Mark(str(log.trouble and log.trouble.strerror), tuple(damaged))
        why = log.incomplete.strerror or str(log.incomplete)
        if known is None or not known.segments:
            return Mark(why)
        return Mark(why, tuple(dict.fromkeys((*known.segments, *damaged))))

    def _begin(self, log: Log) -> None:
        self._unwritten.discard(log)
        if not self._is_here(log) or log.trouble is None:
            return
        self._writing[log] = []
        self._world.clock.call_later(PATIENCE_SECONDS, self._wait_no_longer, log)
        path, mark = log.directory / names.DAMAGE_MARK, self._wanted(log)
        self._world.run(
            checkpoint.replace_file, path, mark.encode(), done=lambda result: self._wrote(log, mark, result)
        )

    def _wait_no_longer(self, log: Log) -> None:
        if log in self._writing:
            self._report(log)

    def _wrote(self, log: Log, mark: Mark, result: Exception | None) -> None:
        waiting = self._writing.pop(log)
        if result is None:
            self._marked[log] = mark
        else:
            _log.error("%s: a restart would forget that it is damaged: %s", log.partition, result)
            if is_passing(result):
                self._later(log)
        self._report(log)
        for callback in waiting:
            callback()
        if result is None and log.trouble is not None and not self._is_written(log):
            self._begin(log)  # another segment was found damaged meanwhile

    def forget(self, log: Log) -> None:
        self._marked.pop(log, None)
        self._unwritten.discard(log)

    def when_idle(self, log: Log, callback: Callable[[], None]) -> None:
        """Calls `callback` when nothing is written in the directory of the closed log."""
        if log in self._writing:
            self._writing[log].append(lambda: log.when_idle(callback))
        else:
            log.when_idle(callback)
