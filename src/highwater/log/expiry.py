"""What a log's settings no longer keep is let go: out of service at once, its files after file.delete.delay.ms."""

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
    """Of the logs of one directory."""

    def __init__(self, world: World, retired: Retired, now_ms: Callable[[], int]) -> None:
        """`now_ms` is the time by which records grow old."""
        self._world = world
        self._retired = retired
        self._now_ms = now_ms
        self._under_way: set[Log] = set()

    def is_due(self, log: Log) -> bool:
        """Whether there is something to let go, and that has not begun."""
        return log.is_usable and log not in self._under_way and self._expired(log) > 0

    async def apply(self, log: Log, still_meant: Callable[[], bool] = lambda: True) -> int:
        """The oldest segment goes first; returns how many went. Each is gone for good before the next goes: of several
        renames a power cut may keep the later ones alone, and recovery would take the gap for a loss, and drop what
        lies behind it."""
        gone = 0
        self._under_way.add(log)
        try:
            while log.is_usable and still_meant() and self._expired(log) and self._has_next(log):
                files = self._dropped(log)
                if files is None:
                    break
                self._retired.remove_files_later(files, log.config.file_delete_delay_ms / 1000)
                gone, start = gone + 1, log.segments[0].base_offset
                await synced(self._world, [], log.directory)
                # The start itself may lie further, by DeleteRecords: that is written down. Or the log began anew below.
                log.durability.start_kept(min(start, log.segments[0].base_offset))
        except OSError as failed:
            log.storage_failed(failed)
        finally:
            self._under_way.discard(log)
        return gone

    def _dropped(self, log: Log) -> list[PurePath] | None:
        """None where the disk has no room even for other names: the segment stays until the next look."""
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
        """Whether there is a segment behind the oldest. One is begun where there is none; no room for it is no reason
        to keep others."""
        if len(log.segments) == 1:
            try:
                log.roll()
            except OSError as failed:
                _log.error("%s: no new segment could be begun: %s", log.partition, failed)
        return len(log.segments) > 1
