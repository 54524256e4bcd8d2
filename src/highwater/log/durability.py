"""How far a log is synced: the durable end, and the syncs that move it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Sequence
from functools import partial
from pathlib import PurePath

from highwater.log import names
from highwater.model import Offset
from highwater.world import EXHAUSTED_SECONDS, Disk, Exhausted, File, Place, Step, World
from highwater.world.jobs import finished, is_exhausted, patiently

_log = logging.getLogger(__name__)


def sync_with_directory(disk: Disk, files: Sequence[File], directory: PurePath) -> Generator[Step, None, None]:
    """A job for files with new names: syncs the data first, then the directory that lists them."""
    for file in files:
        file.sync()
        yield Step()
    disk.sync_dir(directory)


async def synced(
    world: World,
    files: Sequence[File],
    directory: PurePath,
    may_open: Callable[[OSError], bool] = is_exhausted,
    where: Place = "sync",
) -> None:
    """Syncs the files and the directory, as `sync_with_directory` does. If no descriptor is left, nothing is synced,
    and it tries again as long as `may_open` says so. Any other error is final and is raised."""
    job = partial(finished, world, sync_with_directory, files, directory, where=where)
    await patiently(job, may_open)


class Durability:
    """`durable_end` moves only after a sync that began when everything below it was written.

    A failed sync is final, because the kernel may have dropped the dirty pages: `failed` is called and no sync follows.
    Two cases are no failure. A sync for which no descriptor was left is tried again. If retention or a truncation has
    removed a file meanwhile, the rest of the log is synced again.
    """

    def __init__(
        self,
        world: World,
        directory: PurePath,
        log_start: Offset,
        durable_end: Offset,
        unsynced: Callable[[], tuple[Offset, Sequence[File]]],
        moved: Callable[[], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self._world = world
        self._directory = directory
        self.log_start = log_start
        """The durable log start. Only this one may be sent to a leader: records below a higher start may come back
        after a power cut, while the leader would report them as deleted."""
        self.durable_end = durable_end
        self.directory_changed = False
        """A file was created or renamed since the directory was last synced."""
        self._unsynced = unsynced
        """Returns the log end, and the files with records that are not known to be durable."""
        self._moved = moved
        self._failed = failed
        self.under_way = False
        self._again = False
        self._stopped = False
        self.cuts = 0
        self._short = False

    @property
    def directory_in_step(self) -> bool:
        """Whether everything that was created, renamed or deleted in the directory is durable."""
        return not (self.directory_changed or self.under_way)

    def flush(self) -> None:
        """Syncs everything that is written now. There is one sync at a time; the next one covers later writes."""
        if self._stopped:
            return
        if self.under_way:
            self._again = True
            return
        end, files = self._unsynced()
        if end <= self.durable_end and not self.directory_changed:
            return
        self.under_way = True
        cuts = self.cuts
        if self.directory_changed:
            self.directory_changed = False
            self._world.run(
                sync_with_directory,
                files,
                self._directory,
                done=lambda result: self._synced(end, cuts, result, True),
                where="sync",
            )
        else:
            self._world.disk.flush(files, lambda error: self._synced(end, cuts, error, False))

    def _synced(self, end: Offset, cuts: int, result: Exception | None, with_directory: bool) -> None:
        if isinstance(result, Exhausted) and not self._stopped:
            self.directory_changed = self.directory_changed or with_directory
            self._wait_for_descriptors(result)
            return
        self.under_way = self._short = False
        if self._stopped:
            return
        if isinstance(result, FileNotFoundError) and str(result.filename).endswith(names.DELETED):
            self.directory_changed = self.directory_changed or with_directory
            self.flush()
            return
        if result is not None:
            self._stopped = True
            self._failed(result)
            return
        again, self._again = self._again, False
        if end > self.durable_end and cuts == self.cuts:
            self.durable_end = end
            self._moved()
        if again:
            self.flush()

    def _wait_for_descriptors(self, short: Exhausted) -> None:
        if not self._short:
            self._short = True
            _log.warning("%s is not synced yet, and that is tried until it is: %s", self._directory, short)
        self._world.clock.call_later(EXHAUSTED_SECONDS, self._flush_again)

    def _flush_again(self) -> None:
        self.under_way = False
        self.flush()

    def cut(self, end: Offset) -> None:
        """The log was truncated to `end`. A sync that began before does not cover records that are appended later."""
        self.cuts += 1
        self._again = self._again or self.under_way
        self.log_start = min(self.log_start, end)
        self.durable_end = min(self.durable_end, end)

    def start_kept(self, log_start: Offset) -> None:
        """This log start is durable: it is in the checkpoint, or everything below it is deleted for good."""
        self.log_start = max(self.log_start, log_start)

    def settled(self, end: Offset) -> None:
        """The log closes, and the caller has synced everything below `end`."""
        self.durable_end = max(self.durable_end, end)

    def stop(self) -> None:
        """The log is closed. A sync may fail because the files are being deleted; its result is ignored."""
        self._stopped = True
