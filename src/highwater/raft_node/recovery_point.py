"""How far the metadata log is known to be synced, in a file beside it.

What a majority holds on its disks is committed, and this disk's part of that majority must not be cut off because it
can no longer be read: below the recovery point a damaged log is refused, above it a torn tail is cut. Kafka has no such
file for its metadata log; it ignores ours.
"""

from __future__ import annotations

import logging
from pathlib import PurePath

from highwater.log import names
from highwater.log.checkpoint import BadCheckpoint, CheckpointFile, decode_offsets, encode_offsets, read_file
from highwater.log.log import Log
from highwater.model import METADATA_TOPIC, Offset, TopicPartition
from highwater.world import Disk, World
from highwater.world.jobs import patiently
from highwater.world.periodic import Periodic

_PARTITION = TopicPartition(METADATA_TOPIC, 0)
_log = logging.getLogger(__name__)


def read_recovery_point(disk: Disk, directory: PurePath) -> Offset:
    """Jobs only. 0 where it was never written, or not by us."""
    data = read_file(disk, directory / names.RECOVERY_POINTS)
    try:
        return 0 if data is None else decode_offsets(data).get(_PARTITION, 0)
    except BadCheckpoint as bad:
        _log.warning(
            "%s of the metadata log is unreadable (%s): its whole log is recovered", names.RECOVERY_POINTS, bad
        )
        return 0


class RecoveryPoint:
    """Written every so often, when the log closes, and before anything below it is cut on purpose."""

    def __init__(self, world: World, log: Log, found: Offset, interval: float) -> None:
        self._world = world
        self._log = log
        self._limit: Offset | None = None
        self._told: Offset = found
        """The highest that the file may hold."""
        self._file = CheckpointFile(world, log.directory / names.RECOVERY_POINTS, self._content, self._failed)
        self._writing = Periodic(world, "the recovery point of the metadata log", lambda: interval, self._file.write)
        self._writing.start()

    def _content(self) -> bytes:
        offset = self._log.recovery_point if self._limit is None else min(self._limit, self._log.recovery_point)
        self._told = max(self._told, offset)
        return encode_offsets({_PARTITION: offset})

    def _failed(self, failed: Exception) -> bool:
        if isinstance(failed, OSError):
            _log.error("the recovery point of the metadata log could not be written: %s", failed)
        else:
            self._world.failures.note("job", "the recovery point of the metadata log", failed)
        return True

    async def lower(self, offset: Offset) -> None:
        """Durably, before the log is cut there, however often room or descriptors are short; it rises again after
        `release`. Raises OSError."""
        self._limit = offset
        if self._told > offset:
            await patiently(lambda: self._file.written())
            self._told = offset

    def release(self) -> None:
        self._limit = None

    async def close(self) -> None:
        """The log closes: all that is synced now is known to be."""
        self._writing.stop()
        try:
            await self._file.written()
        except OSError as failed:
            _log.error("the recovery point of the metadata log is left behind: %s", failed)
        self._file.close()
