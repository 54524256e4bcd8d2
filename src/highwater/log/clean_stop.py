"""A clean stop: completes and syncs every log, so that the next start can trust it without a scan."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from functools import partial

from highwater.log.durability import synced
from highwater.log.log import Log
from highwater.world import World, is_passing
from highwater.world.jobs import is_exhausted, patiently

AT_ONCE = 16
PATIENCE_SECONDS = 5.0
"""How long a stop waits in all, over all logs, for disk space, descriptors or memory."""
_log = logging.getLogger(__name__)


class CleanStop:
    """If disk space, descriptors or memory are short, a stop waits for a while. After that it leaves the log as it is:
    nothing is wrong with the disk, and the next start scans the log."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._until = world.clock.monotonic() + PATIENCE_SECONDS

    async def settle(self, logs: Sequence[Log]) -> bool:
        """Whether all logs are whole and durable."""
        settled: list[bool] = []
        for at in range(0, len(logs), AT_ONCE):
            settled += await asyncio.gather(*(self._settle(log) for log in logs[at : at + AT_ONCE]))
        return all(settled)

    def is_patient(self) -> bool:
        return self._world.clock.monotonic() < self._until

    def may_pass(self, failed: OSError) -> bool:
        """Whether to try again after an error that was not one of a sync."""
        return is_passing(failed) and self.is_patient()

    def _may_open(self, failed: OSError) -> bool:
        return is_exhausted(failed) and self.is_patient()

    async def _settle(self, log: Log) -> bool:
        if log.offline is not None:
            return False
        try:
            await patiently(partial(_complete_indexes, log), self.may_pass)
            await self._sync(log)
            if not log.epoch_file.in_step:
                await log.epoch_file.written(self.is_patient)
            await patiently(partial(_write_snapshot, log), self.may_pass)
        except Exception as failed:  # noqa: BLE001 the boundary of one log: the others are closed, too
            if is_passing(failed):
                _log.error("%s is not closed cleanly: %s", log.partition, failed)
            else:
                log.storage_failed(failed)
            return False
        # The damage is known in memory only. A clean stop would say that this log has everything.
        return log.offline is None and not log.reads.damage

    async def _sync(self, log: Log) -> None:
        end, files = log.unsynced()
        try:
            await synced(self._world, [*files, *log.active.files], log.directory, self._may_open)
        except OSError as failed:
            if not is_exhausted(failed):  # an error of a sync is final, a full disk among them
                log.storage_failed(failed)
            raise
        log.durability.settled(end)


async def _complete_indexes(log: Log) -> None:
    log.active.close_indexes()


async def _write_snapshot(log: Log) -> None:
    """The next start reads the producers from it, and no batch."""
    written: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
    log.snapshots.write(log.log_end, log.producers.snapshot(), written.set_result)
    failed = await written
    if failed is not None:
        raise failed
