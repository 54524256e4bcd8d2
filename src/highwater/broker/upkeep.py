"""The periodic tasks of a broker: retention, checkpoints, flushes by age, expiry of producers, and the check which
followers are still in sync."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from highwater import config as settings
from highwater.broker.broker import Broker
from highwater.partition.hosted import NEVER_MS
from highwater.partition.partition import Partition
from highwater.world import Timer
from highwater.world.boundary import Boundary
from highwater.world.periodic import SHORTEST_SECONDS

SLICE = 50
"""The number of partitions that are handled between two turns of the loop."""
FLUSH_CHECK_SECONDS = 0.1
AFTER_FAILURE_MS = 1000


class Upkeep:
    """Each task begins again one interval after it ended. Changed settings apply from then on.

    If a task fails unexpectedly for one partition, that partition is skipped this time, and all others are handled.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._timers: dict[str, Timer] = {}
        self._stopped = False
        self._unflushed_since: dict[Partition, float] = {}

    def start(self) -> None:
        get = self._broker.metadata.config.get
        first = get(settings.LOG_INITIAL_TASK_DELAY_MS)
        self._later("retention", first, self._retain)
        self._later("recovery-points", first, self._checkpoint_recovery_points)
        self._later("log-starts", first, self._checkpoint_log_starts)
        self._later("high-watermarks", self._high_watermark_ms(), self._checkpoint_high_watermarks)
        self._later("producers", get(settings.PRODUCER_ID_EXPIRATION_CHECK_INTERVAL_MS), self._expire_producers)
        self._later("in-sync", self._in_sync_ms(), self._shrink)
        self._later("flush", int(FLUSH_CHECK_SECONDS * 1000), self._flush_by_age)

    def stop(self) -> None:
        self._stopped = True
        for timer in self._timers.values():
            timer.cancel()

    def _later(self, name: str, ms: int, task: Callable[[], None]) -> None:
        if not self._stopped and ms < NEVER_MS:
            seconds = max(ms / 1000, SHORTEST_SECONDS)
            self._timers[name] = self._broker.world.clock.call_later(seconds, self._begin, name, task)

    def _begin(self, name: str, task: Callable[[], None]) -> None:
        failures = self._broker.world.failures
        with failures.boundary("periodic", name, lambda _: self._later(name, AFTER_FAILURE_MS, task)):
            task()

    def _at(self, partition: Partition) -> Boundary:
        return self._broker.world.failures.boundary("partition", str(partition.tp))

    def _each(self, do: Callable[[Partition], object], then: Callable[[], None]) -> None:
        """Handles all partitions in slices, so that thousands of them do not block the loop."""
        partitions = list(self._broker.hosted)

        def slice_from(at: int) -> None:
            if self._stopped:
                return
            for partition in partitions[at : at + SLICE]:
                with self._at(partition):
                    if partition.log.offline is None and self._broker.hosted.get(partition.tp) is partition:
                        do(partition)
            if at + SLICE < len(partitions):
                self._broker.world.clock.call_soon(slice_from, at + SLICE)
            else:
                then()

        slice_from(0)

    def _retain(self) -> None:
        due: list[Partition] = []

        def look(partition: Partition) -> None:
            if self._broker.store.expiry.is_due(partition.log):
                due.append(partition)

        def again(ms: int) -> None:
            self._later("retention", ms, self._retain)

        async def let_go() -> None:
            await self._let_go(due)
            again(self._broker.metadata.config.get(settings.LOG_RETENTION_CHECK_INTERVAL_MS))

        def begin() -> None:
            self._broker.world.spawn("retention", let_go(), lambda _: again(AFTER_FAILURE_MS))

        self._each(look, begin)

    async def _let_go(self, due: Sequence[Partition]) -> None:
        """One partition after the other. A new segment and the renames of the old one's files hold the loop for some
        milliseconds, so that those of many partitions would keep all clients waiting."""
        for partition in due:
            with self._at(partition):
                if await self._broker.store.expiry.apply(partition.log, partial(self._still_meant, partition)):
                    self._broker.fetchers.restate(partition)
            await asyncio.sleep(0)  # nothing was awaited where there was no room to delete anything

    def _still_meant(self, partition: Partition) -> bool:
        return not self._stopped and self._broker.hosted.get(partition.tp) is partition

    def _checkpoint_recovery_points(self) -> None:
        self._broker.store.recovery_points.write()
        interval = self._broker.metadata.config.get(settings.LOG_FLUSH_OFFSET_CHECKPOINT_INTERVAL_MS)
        self._later("recovery-points", interval, self._checkpoint_recovery_points)

    def _checkpoint_log_starts(self) -> None:
        self._broker.store.log_starts.write()
        interval = self._broker.metadata.config.get(settings.LOG_FLUSH_START_OFFSET_CHECKPOINT_INTERVAL_MS)
        self._later("log-starts", interval, self._checkpoint_log_starts)

    def _high_watermark_ms(self) -> int:
        return self._broker.metadata.config.get(settings.REPLICA_HIGH_WATERMARK_CHECKPOINT_INTERVAL_MS)

    def _checkpoint_high_watermarks(self) -> None:
        self._broker.store.high_watermarks.write()
        self._later("high-watermarks", self._high_watermark_ms(), self._checkpoint_high_watermarks)

    def _in_sync_ms(self) -> int:
        return self._broker.metadata.config.get(settings.REPLICA_LAG_TIME_MAX_MS) // 2

    def _shrink(self) -> None:
        self._each(Partition.tick, lambda: self._later("in-sync", self._in_sync_ms(), self._shrink))

    def _expire_producers(self) -> None:
        now = self._broker.store.aging_ms()
        after = self._broker.metadata.config.get(settings.PRODUCER_ID_EXPIRATION_MS)
        interval = self._broker.metadata.config.get(settings.PRODUCER_ID_EXPIRATION_CHECK_INTERVAL_MS)
        self._each(
            lambda partition: partition.log.producers.expire(now, after),
            lambda: self._later("producers", interval, self._expire_producers),
        )

    def _flush_by_age(self) -> None:
        """flush.ms: no record stays unsynced for longer. In Kafka this depends on the interval of the flush
        scheduler."""
        now = self._broker.world.clock.monotonic()
        before, self._unflushed_since = self._unflushed_since, {}
        for partition in self._broker.hosted.flushed_by_age:
            with self._at(partition):
                log = partition.log
                if log.offline is not None or log.durable_end >= log.log_end:
                    continue
                since = before.get(partition, now)
                if now - since >= log.config.flush_ms / 1000:
                    log.flush()
                else:
                    self._unflushed_since[partition] = since
        self._later("flush", int(FLUSH_CHECK_SECONDS * 1000), self._flush_by_age)
