"""Compacts the dirtiest log of a store, then the next one, until no log is dirty enough."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator
from functools import partial
from pathlib import PurePath
from typing import Any, Final, NamedTuple

from highwater.config import storage as settings
from highwater.config.node import NodeConfig
from highwater.config.setting import Setting
from highwater.log.compaction.account import Account, Cleaning, Pass, Setback
from highwater.log.compaction.plan import Dirt, SegmentShape, find_dirt
from highwater.log.compaction.rewrite import Cleaned, CleaningProgress, Rewritten, Work, discard_cleaned, rewrite
from highwater.log.compaction.swap import swap_in
from highwater.log.compaction.thinning import LastWritten
from highwater.log.log import Log
from highwater.log.scan import BadBatch
from highwater.log.segment import Segment
from highwater.log.store import LogStore
from highwater.model import TopicPartition
from highwater.world import Disk, Job, Step, Timer, WorkerDied, World, is_passing
from highwater.world.jobs import finished

PROCESS_ABOVE_BYTES = 4 << 20
"""A cleaning that reads more than this runs in a process: it would hold the interpreter for too long."""
THREAD_SECONDS = 1.0
"""A cleaning that its throttle makes longer than this does not run in a thread, because others wait for the threads."""
LARGEST_TABLE_BYTES = 2**31 - 1
"""The largest table of one cleaning. As in Kafka, a larger share of log.cleaner.dedupe.buffer.size is not used."""
_WORK_SETTINGS: tuple[Setting[Any], ...] = (
    settings.LOG_CLEANER_THREADS,
    settings.LOG_CLEANER_DEDUPE_BUFFER_SIZE,
    settings.LOG_CLEANER_IO_BUFFER_LOAD_FACTOR,
    settings.LOG_CLEANER_IO_MAX_BYTES_PER_SECOND,
    settings.LOG_CLEANER_BACKOFF_MS,
)
PER_TURN = 500
"""The number of segments that the cleaner looks at in a turn of the loop."""
_OVER: Final = object()
_log = logging.getLogger(__name__)


class _Dirty(NamedTuple):
    log: Log
    dirt: Dirt
    layout: int
    """The layout of the log for which this was found."""


class Abandoned(Exception):
    """The log was cut, emptied, deleted or reconfigured during its cleaning, or the cleaner was stopped or
    reconfigured."""


class Cleaner:
    def __init__(self, world: World, store: LogStore, config: Callable[[], NodeConfig]) -> None:
        self._world = world
        self._store = store
        self._config = config
        self._seeds = world.random("cleaner")
        self._timer: Timer | None = None
        self._looking: Generator[None, None, None] | None = None
        self._look_again = False
        self._stopped = True
        self._settings = self._current_settings()
        self._ended = asyncio.Event()
        self.account = Account()

    def start(self) -> None:
        self._stopped = False
        self._look_later()

    def stop(self) -> None:
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        self._looking = None
        self._give_up()

    async def close(self) -> None:
        """On return, no segment is being swapped any more."""
        self.stop()
        while self.account.under_way:
            self._ended.clear()
            await self._ended.wait()

    def reconfigured(self) -> None:
        """Running cleanings begin anew, as in Kafka: an operator may need a slower cleaning at once."""
        current = self._current_settings()
        if current == self._settings:
            return
        self._settings = current
        if not self._stopped:
            self._give_up()
            self._look_later()

    def dirt_of(self, log: Log) -> Dirt:
        return self._dirt(log, [shape_of(segment) for segment in log.segments])

    def _dirt(self, log: Log, shapes: list[SegmentShape]) -> Dirt:
        stable_end, now_ms = log.last_stable_offset, self._store.aging_ms()
        return find_dirt(shapes, log.config, log.clean_end, log.log_start, log.log_end, stable_end, now_ms)

    def _current_settings(self) -> tuple[object, ...]:
        return tuple(self._config().get(setting) for setting in _WORK_SETTINGS)

    def _give_up(self) -> None:
        for cleaning in self.account.under_way.values():
            cleaning.news.put_nowait(None)

    def _backoff(self) -> float:
        return self._config().get(settings.LOG_CLEANER_BACKOFF_MS) / 1000

    def _look_later(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._world.clock.call_later(max(self._backoff(), 0.01), self._look)

    def _look(self) -> None:
        """Looks at all logs, in turns of the loop. If that is under way already, it is done once more afterwards."""
        if self._looking is None:
            self._go_on_looking(self._begin_some())
        else:
            self._look_again = True

    def _go_on_looking(self, looking: Generator[None, None, None]) -> None:
        self._looking = looking
        goes_on = False
        with self._world.failures.boundary("periodic", "the cleaner"):
            goes_on = next(looking, _OVER) is not _OVER
        if goes_on:
            self._world.clock.call_soon(self._take_turn, looking)
            return
        self._looking = None
        again, self._look_again = self._look_again, False
        if again:
            self._look()
        else:
            self._look_later()

    def _take_turn(self, looking: Generator[None, None, None]) -> None:
        if self._looking is looking:
            self._go_on_looking(looking)

    def _begin_some(self) -> Generator[None, None, None]:
        """Begins as many cleanings as are allowed at a time, with the dirtiest logs."""
        config = self._config()
        self.account.forget_gone(self._store.logs)
        self.account.looked_at = self._world.clock.monotonic()
        most = config.get(settings.LOG_CLEANER_THREADS) if config.get(settings.LOG_CLEANER_ENABLE) else 0
        if len(self.account.under_way) >= most:
            return
        for found in sorted((yield from self._dirty_logs()), key=lambda each: (-each.dirt.ratio, each.log.partition)):
            log = found.log
            if len(self.account.under_way) >= most:
                break
            is_as_found = log.reads.layout == found.layout and log.is_usable
            if is_as_found and self._store.logs.get(log.partition) is log:
                self.account.under_way[log.partition] = Cleaning(log, found.dirt, self._world.clock.monotonic())
                cleaning = self._clean(self.account.under_way[log.partition])
                self._world.spawn(f"clean {log.partition}", cleaning, partial(self._broken, log))

    def _dirty_logs(self) -> Generator[None, None, list[_Dirty]]:
        """Those that want to be cleaned. There may be tens of thousands of segments to look at."""
        found: list[_Dirty] = []
        max_ratio, looked_at = 0.0, 0
        for partition, log in list(self._store.logs.items()):
            if not log.config.compact or log.offline is not None or len(log.segments) < 2:
                continue
            with self._world.failures.boundary("partition", str(partition)):
                layout, shapes = log.reads.layout, list[SegmentShape]()
                for segment in list(log.segments):
                    shapes.append(shape_of(segment))
                    looked_at += 1
                    if not looked_at % PER_TURN:
                        yield
                dirt = self._dirt(log, shapes)
                max_ratio = max(max_ratio, dirt.ratio)
                wanted = dirt.wants_cleaning(log.config) and self._may_try(partition)
                if wanted and partition not in self.account.under_way:
                    found.append(_Dirty(log, dirt, layout))
        self.account.max_ratio = max_ratio
        return found

    def _may_try(self, partition: TopicPartition) -> bool:
        setback = self.account.setbacks.get(partition)
        if setback is None:
            return True
        return not setback.final and self._world.clock.monotonic() >= setback.at + self._backoff()

    async def _clean(self, cleaning: Cleaning) -> None:
        log = cleaning.log
        cleaning.layout = log.reads.layout
        try:
            self._cleaned(cleaning, await self._rewrite(cleaning))
        except Abandoned:
            _log.info("%s or its cleaner has changed while it was compacted: given up", log.partition)
            await self._discard(log)
        except (OSError, ValueError, EOFError) as failed:
            await self._discard(log)
            if cleaning.layout != log.reads.layout and isinstance(failed, FileNotFoundError | BadBatch):
                # Retention or a truncation removed a file that was being read. That is no fault of the disk. As in
                # Kafka, the cleaning is tried again after a pause.
                _log.info("%s has changed while it was compacted: tried again", log.partition)
                return
            elif self._store.logs.get(log.partition) is log:
                self._failed(log, failed)
                if isinstance(failed, BadBatch):
                    log.found_damaged(failed)
        finally:
            del self.account.under_way[log.partition]
            self._ended.set()
        self._go_on()

    def _broken(self, log: Log, failed: Exception) -> None:
        """An unexpected exception would come again, so this log is not cleaned any more. The others are."""
        self._failed(log, failed)
        self._go_on()

    def _go_on(self) -> None:
        if not self._stopped:
            self._look()

    def _cleaned(self, cleaning: Cleaning, cleaned: Cleaned) -> None:
        log, now = cleaning.log, self._world.clock.monotonic()
        log.clean_end = cleaned.clean_end
        self._store.clean_ends.write()
        done = Pass(log, now, now - cleaning.begun, cleaning.dirt.overdue_ms, cleaned)
        self.account.succeeded(log, done)
        _log.info(
            "%s is compacted up to %d: %d bytes became %d in %.1f s",
            log.partition, cleaned.clean_end, cleaned.bytes.read, cleaned.bytes.written, done.seconds,
        )  # fmt: skip

    def _failed(self, log: Log, failed: Exception) -> None:
        again = is_passing(failed) or isinstance(failed, WorkerDied)
        then = "it is tried again" if again else "it is not tried again before the next start"
        _log.error("%s could not be compacted, %s: %s", log.partition, then, failed)
        self.account.failed(Setback(log, self._world.clock.monotonic(), str(failed), final=not again))

    async def _discard(self, log: Log) -> None:
        """Deletes what was written so far: it takes up disk space, perhaps the last."""
        if self._store.logs.get(log.partition) is log:
            try:
                await finished(self._world, _discard, log.directory)
            except OSError as failed:
                _log.error("%s: what a compaction wrote is left behind: %s", log.partition, failed)

    async def _rewrite(self, cleaning: Cleaning) -> Cleaned:
        """Segments are swapped in one after the other, while the next ones are written."""
        log, dirt, news = cleaning.log, cleaning.dirt, cleaning.news
        generation, under = log.generation, self._settings

        def step(step: Step) -> None:
            if isinstance(step.progress, Rewritten):
                news.put_nowait(step.progress)
            elif isinstance(step.progress, CleaningProgress):
                cleaning.done = step.progress

        def void() -> bool:
            kept = log.generation is generation and self._store.logs.get(log.partition) is log and log.config.compact
            return not kept or self._stopped or self._settings != under

        work = self._work(log, dirt)
        size = dirt.clean_bytes + dirt.dirty_bytes
        short = size <= PROCESS_ABOVE_BYTES and size <= work.bytes_per_second * THREAD_SECONDS
        results: list[Cleaned | Exception] = []

        def done(result: Cleaned | Exception) -> None:
            results.append(result)
            news.put_nowait(None)

        job = self._world.run(rewrite, work, done=done, step=step, where="thread" if short else "background")
        try:
            while not (results and news.empty()):
                rewritten = await news.get()
                if void():
                    raise Abandoned
                if rewritten is not None:
                    await self._put_in_place(cleaning, rewritten)
        except (Abandoned, OSError):
            await _closed(job)
            raise
        except asyncio.CancelledError:
            job.cancel()
            raise
        (result,) = results
        if isinstance(result, Exception):
            raise result
        return result

    async def _put_in_place(self, cleaning: Cleaning, rewritten: Rewritten) -> None:
        """If a swap fails halfway, the next start finishes or undoes it. Until then the log is offline."""
        log = cleaning.log
        try:
            removed = await swap_in(self._world, log, rewritten)
        except OSError as failed:
            log.storage_failed(failed)
            raise
        if removed is None:
            raise Abandoned
        cleaning.layout += 1  # this swap has changed it
        self._store.retired.remove_files_later(removed, log.config.file_delete_delay_ms / 1000)

    def _work(self, log: Log, dirt: Dirt) -> Work:
        config = self._config()
        threads = max(config.get(settings.LOG_CLEANER_THREADS), 1)
        shapes = [shape_of(s) for s in log.segments[:-1] if s.base_offset < dirt.dirty_end]
        end = log.segments[len(shapes)].base_offset
        return Work(
            directory=log.directory,
            segments=shapes,
            end=end,
            clean_end=dirt.clean_end,
            dirty_end=dirt.dirty_end,
            config=log.config,
            now_ms=self._store.aging_ms(),
            producers={
                pid: LastWritten(each.batches[-1].last_offset if each.batches else None, each.epoch)
                for pid, each in log.producers.producers.items()
            },
            aborted=log.aborted_transactions(0, end),
            table_bytes=min(config.get(settings.LOG_CLEANER_DEDUPE_BUFFER_SIZE) // threads, LARGEST_TABLE_BYTES),
            load_factor=min(max(config.get(settings.LOG_CLEANER_IO_BUFFER_LOAD_FACTOR), 0.0), 1.0),
            bytes_per_second=max(config.get(settings.LOG_CLEANER_IO_MAX_BYTES_PER_SECOND) / threads, 1.0),
            seed=self._seeds.getrandbits(128).to_bytes(16, "big"),
        )


async def _closed(job: Job) -> None:
    """Waits until the job has ended: the next cleaning of the log writes files with the same names."""
    closed = asyncio.Event()
    job.cancel(closed.set)
    await closed.wait()


def _discard(disk: Disk, directory: PurePath) -> Generator[Step, None, None]:
    yield Step()
    discard_cleaned(disk, directory)


def shape_of(segment: Segment) -> SegmentShape:
    return SegmentShape(
        segment.base_offset,
        segment.size,
        segment.offset_index.file.size,
        segment.time_index.file.size,
        -1 if segment.first_timestamp is None else segment.first_timestamp,
        segment.largest.timestamp,
    )
