"""Compacts the dirtiest log of a store, then the next one, until none is dirty enough."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from highwater.config import storage as settings
from highwater.config.node import NodeConfig
from highwater.log.compaction.plan import Dirt, SegmentShape, find_dirt
from highwater.log.compaction.rewrite import Cleaned, Rewritten, Work, rewrite
from highwater.log.compaction.swap import swap_in
from highwater.log.compaction.thinning import LastWritten
from highwater.log.log import Log
from highwater.log.scan import BadBatch
from highwater.log.segment import Segment
from highwater.log.store import LogStore
from highwater.model import TopicPartition
from highwater.world import Step, Timer, World
from highwater.world.jobs import finished

PROCESS_ABOVE_BYTES = 4 << 20
"""A cleaning that reads more would hold the interpreter for too long: it goes to a process."""
_log = logging.getLogger(__name__)


@dataclass
class Cleaning:
    """One under way."""

    dirt: Dirt
    begun: float
    bytes_read: int = 0


class Abandoned(Exception):
    """The log was cut, emptied or deleted while it was cleaned."""


class Cleaner:
    def __init__(self, world: World, store: LogStore, config: Callable[[], NodeConfig]) -> None:
        self._world = world
        self._store = store
        self._config = config
        self._seeds = world.random("cleaner")
        self._timer: Timer | None = None
        self._stopped = True
        self.under_way: dict[TopicPartition, Cleaning] = {}
        self.failed: dict[TopicPartition, Exception] = {}
        """Logs that could not be cleaned: not tried again before the next start, as in Kafka."""
        self.bytes_read = self.bytes_written = self.cleanings = 0

    def start(self) -> None:
        self._stopped = False
        self._look_later()

    def stop(self) -> None:
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def dirt_of(self, log: Log) -> Dirt:
        shapes = [shape_of(segment) for segment in log.segments]
        stable_end, now_ms = log.last_stable_offset, self._world.clock.wall_ms()
        return find_dirt(shapes, log.config, log.clean_end, log.log_start, log.log_end, stable_end, now_ms)

    def _look_later(self) -> None:
        seconds = self._config().get(settings.LOG_CLEANER_BACKOFF_MS) / 1000
        self._timer = self._world.clock.call_later(max(seconds, 0.01), self._look)

    def _look(self) -> None:
        """As many cleanings as there may be at a time; rest where there is nothing more to do."""
        if self._timer is not None:
            self._timer.cancel()
        config = self._config()
        enabled = config.get(settings.LOG_CLEANER_ENABLE)
        while enabled and len(self.under_way) < config.get(settings.LOG_CLEANER_THREADS):
            dirtiest = self._dirtiest()
            if dirtiest is None:
                break
            log, dirt = dirtiest
            self.under_way[log.partition] = Cleaning(dirt, self._world.clock.monotonic())
            self._world.spawn(f"clean {log.partition}", self._clean(log, dirt))
        self._look_later()

    def _dirtiest(self) -> tuple[Log, Dirt] | None:
        found: list[tuple[float, TopicPartition, Log, Dirt]] = []
        for partition, log in self._store.logs.items():
            if not log.config.compact or log.offline is not None or len(log.segments) < 2:
                continue
            if partition in self.under_way or partition in self.failed:
                continue
            dirt = self.dirt_of(log)
            if dirt.wants_cleaning(log.config):
                found.append((-dirt.ratio, partition, log, dirt))
        return min(found)[2:] if found else None

    async def _clean(self, log: Log, dirt: Dirt) -> None:
        partition = log.partition
        try:
            cleaned = await self._rewrite(log, dirt)
            log.clean_end = cleaned.clean_end
            self._store.clean_ends.write()
            self.bytes_read += cleaned.bytes_read
            self.bytes_written += cleaned.bytes_written
            self.cleanings += 1
            _log.info(
                "%s is compacted up to %d: %d bytes became %d",
                partition, cleaned.clean_end, cleaned.bytes_read, cleaned.bytes_written,
            )  # fmt: skip
        except Abandoned:
            _log.info("%s has changed while it was compacted: given up", partition)
        except (OSError, ValueError, EOFError) as failed:
            if self._store.logs.get(partition) is log:
                _log.error("%s cannot be compacted: %s", partition, failed)
                self.failed[partition] = failed
                if isinstance(failed, BadBatch):
                    log.found_damaged(failed)
        finally:
            del self.under_way[partition]
        if not self._stopped:
            self._look()

    async def _rewrite(self, log: Log, dirt: Dirt) -> Cleaned:
        """The segments are put in their places one after the other, while the next ones are written."""
        work, generation = self._work(log, dirt), log.generation
        written: asyncio.Queue[Rewritten] = asyncio.Queue()
        cleaning = self.under_way[log.partition]

        def step(step: Step) -> None:
            if isinstance(step.progress, Rewritten):
                written.put_nowait(step.progress)
            elif isinstance(step.progress, int):
                cleaning.bytes_read = step.progress

        def gone() -> bool:
            return log.generation is not generation or self._store.logs.get(log.partition) is not log

        large = dirt.clean_bytes + dirt.dirty_bytes > PROCESS_ABOVE_BYTES
        rewriting = asyncio.ensure_future(
            finished(self._world, rewrite, work, step=step, where="process" if large else "thread")
        )
        try:
            while not (rewriting.done() and written.empty()):
                next_one = asyncio.ensure_future(written.get())
                await asyncio.wait((rewriting, next_one), return_when=asyncio.FIRST_COMPLETED)
                if gone():
                    next_one.cancel()
                    raise Abandoned
                if next_one.done():
                    await self._put_in_place(log, next_one.result())
                else:
                    next_one.cancel()
            return rewriting.result()
        finally:
            rewriting.cancel()

    async def _put_in_place(self, log: Log, rewritten: Rewritten) -> None:
        removed = await swap_in(self._world, log, rewritten)
        if removed is None:
            raise Abandoned
        self._store.remove_later(removed, log.config.file_delete_delay_ms / 1000)

    def _work(self, log: Log, dirt: Dirt) -> Work:
        config = self._config()
        shapes = [shape_of(s) for s in log.segments[:-1] if s.base_offset < dirt.dirty_end]
        threads = max(config.get(settings.LOG_CLEANER_THREADS), 1)
        return Work(
            directory=log.directory,
            segments=shapes,
            clean_end=dirt.clean_end,
            dirty_end=dirt.dirty_end,
            config=log.config,
            now_ms=self._world.clock.wall_ms(),
            producers={
                pid: LastWritten(each.batches[-1].last_offset if each.batches else None, each.epoch)
                for pid, each in log.producers.producers.items()
            },
            aborted=log.aborted_transactions(0, dirt.dirty_end),
            table_bytes=config.get(settings.LOG_CLEANER_DEDUPE_BUFFER_SIZE) // threads,
            load_factor=config.get(settings.LOG_CLEANER_IO_BUFFER_LOAD_FACTOR),
            bytes_per_second=config.get(settings.LOG_CLEANER_IO_MAX_BYTES_PER_SECOND),
            seed=self._seeds.getrandbits(128).to_bytes(16, "big"),
        )


def shape_of(segment: Segment) -> SegmentShape:
    return SegmentShape(
        segment.base_offset,
        segment.size,
        segment.offset_index.file.size,
        segment.time_index.file.size,
        -1 if segment.first_timestamp is None else segment.first_timestamp,
        segment.largest.timestamp,
    )
