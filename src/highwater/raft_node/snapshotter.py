"""Decides when a metadata snapshot is due, and deletes old snapshots and the part of the log below them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator
from pathlib import PurePath

from highwater.config import (
    INTERNAL_METADATA_DELETE_DELAY_MILLIS,
    METADATA_LOG_MAX_RECORD_BYTES_BETWEEN_SNAPSHOTS,
    METADATA_LOG_MAX_SNAPSHOT_INTERVAL_MS,
    METADATA_MAX_RETENTION_BYTES,
    METADATA_MAX_RETENTION_MS,
    NodeConfig,
)
from highwater.log.names import DELETED
from highwater.log.retention import RetentionClock
from highwater.log.truncation import remove_files
from highwater.metadata.cluster import MetadataImage
from highwater.quorum import LogPosition, VoterSet
from highwater.raft_node.metadata_log import MetadataLog
from highwater.raft_node.snapshots import snapshot_name, write_snapshot
from highwater.world import Disk, Step, World

_log = logging.getLogger(__name__)


class Snapshotter:
    """Writes one snapshot at a time. The log is deleted only below a snapshot that is whole on disk (KAFKA-14238)."""

    def __init__(
        self,
        world: World,
        config: NodeConfig,
        directory: PurePath,
        log: MetadataLog,
        bytes_since: int,
        failed: Callable[[BaseException], None],
    ) -> None:
        self._world = world
        self._config = config
        self._directory = directory
        self._log = log
        self._bytes_since = bytes_since
        self._last_at = world.clock.monotonic()
        self._aging = RetentionClock(world.clock.wall_ms(), world.clock.monotonic())
        self._failed = failed
        self._writing = False
        self._idle = asyncio.Event()
        self._idle.set()

    def committed(
        self, image: MetadataImage, position: LogPosition, voters: VoterSet | None, size: int, timestamp: int
    ) -> None:
        """The image has everything up to `position`. Writes a snapshot of it if one is due."""
        self._bytes_since += size
        if self._writing or image.transaction is not None or not self._due():
            return
        self._writing = True
        self._idle.clear()
        self._bytes_since = 0
        self._last_at = self._world.clock.monotonic()
        self._world.run(write_snapshot, self._directory, image, position, voters, timestamp, done=self._written)

    def _due(self) -> bool:
        if self._bytes_since >= self._config.get(METADATA_LOG_MAX_RECORD_BYTES_BETWEEN_SNAPSHOTS):
            return True
        interval = self._config.get(METADATA_LOG_MAX_SNAPSHOT_INTERVAL_MS) / 1000
        return interval > 0 and self._bytes_since > 0 and self._world.clock.monotonic() - self._last_at >= interval

    def _written(self, result: LogPosition | Exception) -> None:
        self._writing = False
        self._idle.set()
        if isinstance(result, OSError):
            _log.error("no snapshot of the metadata could be written: %s", result)
            return
        if isinstance(result, Exception):
            self._failed(result)
            return
        latest = self._log.latest_snapshot
        if latest is not None and result.offset <= latest.offset:
            if result not in self._log.snapshots:  # a newer snapshot of the leader replaced the log meanwhile
                self._remove([self._directory / snapshot_name(result)])
            return
        self._log.snapshots.append(result)
        self._world.run(look_at_ages, self._directory, list(self._log.snapshots), done=self._clean)

    def _clean(self, found: dict[LogPosition, tuple[int, int]] | Exception) -> None:
        if isinstance(found, Exception):
            _log.error("old metadata is kept: %s", found)
        elif not self._writing and all(position in found for position in self._log.snapshots):
            # If a snapshot was installed meanwhile, its age is not known yet: the next snapshot cleans.
            self._writing = True
            self._idle.clear()
            self._world.spawn("old metadata", self._drop(found), lambda failed: self._dropped())

    async def _drop(self, found: dict[LogPosition, tuple[int, int]]) -> None:
        try:
            await self._drop_old([found[position] for position in self._log.snapshots])
        except OSError as failed:
            _log.error("old metadata is kept: %s", failed)
        self._dropped()

    def _dropped(self) -> None:
        self._writing = False
        self._idle.set()

    async def _drop_old(self, ages: list[tuple[int, int]]) -> None:
        """Deletes the oldest snapshots beyond the retention, and the log below the oldest one that is kept."""
        log, snapshots = self._log, self._log.snapshots
        now = self._aging.now_ms(self._world.clock.wall_ms(), self._world.clock.monotonic())
        total = log.size + sum(size for size, _ in ages)
        keep_bytes = self._config.get(METADATA_MAX_RETENTION_BYTES)
        keep_ms = self._config.get(METADATA_MAX_RETENTION_MS)
        while len(snapshots) > 1:
            size, written_ms = ages[0]
            too_much = keep_bytes >= 0 and total > keep_bytes
            if not too_much and not 0 <= keep_ms < now - written_ms:
                break
            self._remove_later([self._set_aside(snapshots[0])])
            del snapshots[0], ages[0]
            log.begin_at(snapshots[0])
            total -= size
            while log.snapshots is snapshots and (segment_size := log.size_below(snapshots[0])) is not None:
                total -= segment_size
                if not await log.drop_oldest(self._world, self._remove_later):
                    return
            if log.snapshots is not snapshots:  # a snapshot of the leader replaced all of them meanwhile
                return

    def begin_with(self, snapshot: LogPosition) -> None:
        """The leader's snapshot took the place of the log. The log no longer reaches the older ones."""
        older, self._log.snapshots = self._log.snapshots, [snapshot]
        self._remove([self._directory / snapshot_name(position) for position in older])

    def _set_aside(self, position: LogPosition) -> PurePath:
        path = self._directory / snapshot_name(position)
        aside = path.with_name(path.name + DELETED)
        self._world.disk.rename(path, aside)
        return aside

    def _remove_later(self, paths: list[PurePath]) -> None:
        delay = self._config.get(INTERNAL_METADATA_DELETE_DELAY_MILLIS) / 1000
        self._world.clock.call_later(delay, self._remove, paths)

    def _remove(self, paths: list[PurePath]) -> None:
        self._world.run(remove_files, paths, done=_removed)

    async def close(self) -> None:
        await self._idle.wait()


def _removed(result: Exception | None) -> None:
    if result is not None:
        _log.error("old metadata files are left behind: %s", result)


def look_at_ages(
    disk: Disk, directory: PurePath, positions: list[LogPosition]
) -> Generator[Step, None, dict[LogPosition, tuple[int, int]]]:
    """A job. Returns the size and the time of each snapshot."""
    found = {}
    for position in positions:
        status = disk.stat(directory / snapshot_name(position))
        found[position] = (0, 0) if status is None else (status.size, status.modified_ms)
        yield Step()
    return found
