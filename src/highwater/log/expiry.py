"""Deletes segments that the retention settings no longer keep: from the log at once, and the files after
file.delete.delay.ms."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import PurePath

from highwater.log.durability import synced
from highwater.log.log import Log
from highwater.log.retention import SegmentFacts, expired
from highwater.log.retired import Retired
from highwater.world import World, is_passing

_log = logging.getLogger(__name__)


class Expiry:
    """Retention for the logs of one directory."""

    def __init__(self, world: World, retired: Retired, now_ms: Callable[[], int]) -> None:
        """`now_ms` is the time by which the age of records is measured."""
        self._world = world
        self._retired = retired
        self._now_ms = now_ms

    def is_due(self, log: Log) -> bool:
        """Whether there is a segment to delete."""
        return log.is_usable and self._expired(log) > 0

    async def apply(self, log: Log, still_meant: Callable[[], bool] = lambda: True) -> int:
        """Deletes expired segments, the oldest first, and returns how many. Each deletion is durable before the next
        one begins. Of several renames a power cut may keep only the later ones. Recovery would take that gap for a
        loss, and would drop the segments after it."""
        gone = 0
        try:
            while log.is_usable and still_meant() and self._expired(log) and self._has_next(log):
                files = self._dropped(log)
                if files is None:
                    break
                self._retired.remove_files_later(files, log.config.file_delete_delay_ms / 1000)
                gone, start = gone + 1, log.segments[0].base_offset
                await synced(self._world, [], log.directory)
                # DeleteRecords may have moved the log start further; its checkpoint holds that. Or the log may have
                # begun anew below.
                log.durability.start_kept(min(start, log.segments[0].base_offset))
        except OSError as failed:
            log.storage_failed(failed)
        return gone

    def _dropped(self, log: Log) -> list[PurePath] | None:
        """None if the disk has no room even to rename files: the segment stays until the next check."""
        try:
            return log.drop_oldest()
        except OSError as failed:
            if not is_passing(failed):
                raise
            line = f"{log.partition}: the oldest segment could not be taken out: {failed}"
            if self._world.failures.is_news(line):
                _log.error("%s", line)
            return None

    def _expired(self, log: Log) -> int:
        facts = [
            SegmentFacts(
                segment.base_offset,
                following.base_offset if following is not None else log.log_end,
                segment.size,
                segment.largest.timestamp if segment.largest.timestamp >= 0 else segment.modified_ms,
            )
            for segment, following in zip(log.segments, [*log.segments[1:], None], strict=True)
        ]
        return expired(facts, log.config, self._now_ms(), log.high_watermark, log.log_start)

    def _has_next(self, log: Log) -> bool:
        """Whether there is a segment after the oldest one. If not, a new one is begun. If there is no room for it, only
        the deletion in this log has to wait."""
        if len(log.segments) == 1:
            try:
                log.roll()
            except OSError as failed:
                _log.error("%s: no new segment could be begun: %s", log.partition, failed)
        return len(log.segments) > 1
