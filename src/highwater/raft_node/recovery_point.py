"""The offset up to which the metadata log is known to be synced, in a file beside the log.

Records on the disks of a majority are committed. This node's copy counts in that majority, so it must not be cut only
because it can no longer be read. Below the recovery point a damaged log is refused; above it a torn tail is cut. Kafka
has no such file for its metadata log and ignores ours.
"""

from __future__ import annotations

import logging
from collections.abc import Generator
from pathlib import PurePath

from highwater.log import names
from highwater.log.checkpoint import (
    BadCheckpoint,
    CheckpointFile,
    decode_offsets,
    encode_offsets,
    read_file,
    replace_file,
)
from highwater.log.log import Log
from highwater.model import METADATA_TOPIC, Offset, TopicPartition
from highwater.world import Disk, Step, World
from highwater.world.jobs import patiently
from highwater.world.periodic import Periodic

_PARTITION = TopicPartition(METADATA_TOPIC, 0)
_log = logging.getLogger(__name__)


def read_recovery_point(disk: Disk, directory: PurePath) -> Offset:
    """For jobs only. 0 if the file was never written, or was not written by Highwater."""
    data = read_file(disk, directory / names.RECOVERY_POINTS)
    try:
        return 0 if data is None else decode_offsets(data).get(_PARTITION, 0)
    except BadCheckpoint as bad:
        _log.warning(
            "%s of the metadata log is unreadable (%s): its whole log is recovered", names.RECOVERY_POINTS, bad
        )
        return 0


def forget_recovery_point(disk: Disk, directory: PurePath) -> Generator[Step, None, None]:
    """For jobs only. Resets the recovery point durably, before the log is deleted."""
    yield from replace_file(disk, directory / names.RECOVERY_POINTS, encode_offsets({_PARTITION: 0}))


class RecoveryPoint:
    """The file is written at intervals, when the log closes, and before anything below the recovery point is cut."""

    def __init__(self, world: World, log: Log, found: Offset, interval: float) -> None:
        self._world = world
        self._log = log
        self._limit: Offset | None = None
        self._highest: Offset = found
        """The highest offset that the file may hold."""
        self._file = CheckpointFile(world, log.directory / names.RECOVERY_POINTS, self._content, self._failed)
        self._writing = Periodic(world, "the recovery point of the metadata log", lambda: interval, self._file.write)
        self._writing.start()

    def _content(self) -> bytes:
        offset = self._log.recovery_point if self._limit is None else min(self._limit, self._log.recovery_point)
        self._highest = max(self._highest, offset)
        return encode_offsets({_PARTITION: offset})

    def _failed(self, failed: Exception) -> bool:
        if isinstance(failed, OSError):
            _log.error("the recovery point of the metadata log could not be written: %s", failed)
        else:
            self._world.failures.note("job", "the recovery point of the metadata log", failed)
        return True

    async def lower(self, offset: Offset) -> None:
        """Lowers the recovery point durably, before the log is cut to `offset`. If disk space or file descriptors are
        short, it tries again. The recovery point rises again after `release`. Raises OSError."""
        self._limit = offset
        if self._highest > offset:
            await patiently(lambda: self._file.written())
            self._highest = offset

    def release(self) -> None:
        self._limit = None

    async def close(self) -> None:
        """The log closes. The file is written once more."""
        self._writing.stop()
        try:
            await self._file.written()
        except OSError as failed:
            _log.error("the recovery point of the metadata log is left behind: %s", failed)
        self._file.close()
