"""All logs of one log directory: opened, created, kept within their retention, checkpointed and closed."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import PurePath

from highwater.config import LogConfig
from highwater.errors import Code, KafkaError
from highwater.log import checkpoint, names, truncation
from highwater.log.checkpoint import CheckpointFile
from highwater.log.creation import make_partitions, read_topic_id_if_there
from highwater.log.durability import synced
from highwater.log.expiry import Expiry
from highwater.log.found import Found, look_around
from highwater.log.loader import LoadedLog, LoadRequest, load_log
from highwater.log.log import Log
from highwater.log.retention import RetentionClock
from highwater.log.retired import Retired
from highwater.log.truncation import StillMeant, always_meant
from highwater.model import Offset, TopicPartition, Uuid
from highwater.world import World, is_passing
from highwater.world.boundary import as_os_error
from highwater.world.jobs import finished

PROCESS_ABOVE_BYTES = 32 << 20
"""A recovery that reads more than this would hold the interpreter for too long: it goes to a process."""
SETTLE_AT_ONCE = 16
SETTLE_TRIES = 50
ABSENT_TOLD = 20
"""Names in the log of a start at which the logs of a whole directory are gone."""
_log = logging.getLogger(__name__)


class LogStore:
    def __init__(
        self,
        world: World,
        directory: PurePath,
        config_of: Callable[[str], LogConfig],
        troubled: Callable[[Log], None],
        at_a_time: int = 1,
    ) -> None:
        """`at_a_time`: how many logs are loaded side by side when the directory is opened."""
        self._world = world
        self.directory = directory
        self._at_a_time = at_a_time
        self._config_of = config_of
        self._troubled = troubled
        self._random = world.random("log")
        self.retired = Retired(world, directory)
        self.logs: dict[TopicPartition, Log] = {}
        self.found = Found()
        self.unloaded: dict[TopicPartition, Exception] = {}
        """Partitions that are there and could not be opened, and why: left as they are, for a later start to try."""
        self._outdated: set[TopicPartition] = set()
        """Logs that are gone, of which the checkpoints on disk may still speak: the next log of such a name is not made
        before they do no more. They have no topic id, and it would be cut, or emptied, by what they say."""
        self._ending: dict[TopicPartition, Log] = {}
        """Deleted ones, in whose directories a job may still write: the next log of that name waits for its end."""
        self._cuts: dict[Log, Offset] = {}
        """Where logs are about to be cut: no checkpoint says more of them."""
        clock = world.clock
        self._retention_clock = RetentionClock(clock.wall_ms(), clock.monotonic())
        self.expiry = Expiry(world, self.retired, self.aging_ms)
        self.recovery_points = self._checkpoint(
            names.RECOVERY_POINTS, lambda log: self._uncut(log, log.recovery_point), lambda found: found.recovery_points
        )
        self.log_starts = self._checkpoint(
            names.LOG_STARTS,
            _log_start_beside,
            lambda found: found.log_starts,
        )
        self.high_watermarks = self._checkpoint(
            names.HIGH_WATERMARKS, lambda log: log.high_watermark, lambda found: found.high_watermarks
        )
        self.clean_ends = self._checkpoint(
            names.CLEANER_POINTS, lambda log: self._uncut(log, log.clean_end), lambda found: found.clean_ends
        )

    @property
    def _checkpoints(self) -> tuple[CheckpointFile, ...]:
        return self.recovery_points, self.log_starts, self.high_watermarks, self.clean_ends

    def _checkpoint(
        self,
        name: str,
        value: Callable[[Log], Offset | None],
        before: Callable[[Found], dict[TopicPartition, Offset]],
    ) -> CheckpointFile:
        """Of the logs, and for partitions that are not loaded what it said before: a later start needs that."""

        def content() -> bytes:
            values = {partition: value(log) for partition, log in self.logs.items()}
            values.update((partition, before(self.found).get(partition)) for partition in self.unloaded)
            return checkpoint.encode_offsets({p: offset for p, offset in values.items() if offset is not None})

        return CheckpointFile(self._world, self.directory / name, content, self._checkpoint_failed)

    def _checkpoint_failed(self, failed: Exception) -> bool:
        if isinstance(failed, OSError):
            line = f"a checkpoint in {self.directory} could not be written: {failed}"
            if self._world.failures.is_news(line):
                _log.error("%s", line)
        else:
            self._world.failures.note("job", f"a checkpoint in {self.directory}", failed)
        return True

    async def open(self, progress: Callable[[], None] = lambda: None) -> None:
        """Load every partition that is there; one that cannot be loaded is left out and reported. `progress` is told
        again and again meanwhile: after a crash this may take minutes."""
        self.found = await finished(self._world, look_around, self.directory)
        self._outdated = self.found.forget_absent()
        self._warn_of_absent()
        for leftover in self.found.leftovers:
            self.retired.remove_later(leftover, 0.0)
        for topic_id, index, path in self.found.kept:
            self.retired.remember(topic_id, index, path)
        remaining = iter(self.found.partitions)

        async def load_one_after_another() -> None:
            for partition, path, size in remaining:
                await self._try_to_load(partition, path, size, progress)

        loaders = min(self._at_a_time, len(self.found.partitions))
        await asyncio.gather(*(load_one_after_another() for _ in range(loaders)))

    def _warn_of_absent(self) -> None:
        """Somebody may have removed them, and the checkpoints do not tell that from a deletion just before the stop."""
        absent = sorted(self._outdated)
        for partition in absent[:ABSENT_TOLD]:
            _log.warning(
                "%s is not in %s, though the checkpoints name it: unless it was deleted, it begins anew, empty",
                partition,
                self.directory,
            )
        if len(absent) > ABSENT_TOLD:
            _log.warning("%d more that the checkpoints name are not in %s", len(absent) - ABSENT_TOLD, self.directory)

    async def _try_to_load(
        self,
        partition: TopicPartition,
        path: PurePath,
        size: int,
        progress: Callable[[], None] = lambda: None,
    ) -> None:
        def left_out(failed: Exception) -> None:
            self.unloaded[partition] = failed

        with self._world.failures.boundary("partition", f"{partition} while it is loaded", left_out):
            await self._load(partition, path, size, progress)

    async def _load(
        self,
        partition: TopicPartition,
        path: PurePath,
        size: int,
        progress: Callable[[], None],
    ) -> None:
        config = self._config_of(partition.topic)
        request = LoadRequest(
            directory=path,
            recovery_point=self.found.recovery_points.get(partition, 0),
            log_start=self.found.log_starts.get(partition, 0),
            clean=self.found.clean,
            index_interval=config.index_interval_bytes,
            clean_end=self.found.clean_ends.get(partition, 0),
        )
        scans = not self.found.clean and size > PROCESS_ABOVE_BYTES
        try:
            loaded = await finished(
                self._world,
                load_log,
                request,
                step=lambda step: progress(),
                where="process" if scans else "thread",
            )
            if loaded.topic_id is None and loaded.log_end > 0:
                raise ValueError(f"{names.PARTITION_METADATA} is missing: whose records these are is unknown")
        except (OSError, ValueError, EOFError) as failed:
            if str(self.unloaded.get(partition)) != str(failed):
                _log.error("%s is not loaded: %s", partition, failed)
            self.unloaded[partition] = failed
            return
        self._adopt(partition, loaded, config)
        self.unloaded.pop(partition, None)

    async def topic_of_unloaded(self, partition: TopicPartition) -> Uuid | None:
        """Whose log it is that could not be loaded; None where that is not known either."""
        path, _ = self._found_at(partition)
        return await finished(self._world, read_topic_id_if_there, path)

    def _found_at(self, partition: TopicPartition) -> tuple[PurePath, int]:
        return next((path, size) for each, path, size in self.found.partitions if each == partition)

    async def open_again(self, partition: TopicPartition) -> Log | None:
        """One that is there and could not be loaded before; None where it still cannot be."""
        path, size = self._found_at(partition)
        await self._try_to_load(partition, path, size)
        return self.logs.get(partition)

    def _adopt(self, partition: TopicPartition, loaded: LoadedLog, config: LogConfig) -> Log:
        for repair in loaded.repairs:
            _log.warning("%s: %s", partition, repair)
        log = Log(
            self._world,
            partition,
            loaded.topic_id or Uuid(bytes(16)),
            config,
            loaded,
            self._random,
            self._troubled,
        )
        log.move_high_watermark(max(log.log_start, min(self.found.high_watermarks.get(partition, 0), log.log_end)))
        log.clean_end = self.found.clean_ends.get(partition)
        self.logs[partition] = log
        return log

    async def create_all(self, wanted: Sequence[tuple[TopicPartition, Uuid]]) -> list[Log | KafkaError]:
        """As one job; in the order in which they are wanted."""
        for partition, _ in wanted:
            await self._ended(partition)
        new = [each for each in wanted if each[0] not in self.unloaded and not self.retired.is_in_the_way(each[0])]
        made: list[LoadedLog | Exception] = []

        def refuse(failed: Exception) -> None:
            made.extend([as_os_error(failed)] * len(new))

        with self._world.failures.boundary("job", "the creation of logs", refuse):
            made.extend(await self._made(new))
        results = dict(zip((partition for partition, _ in new), made, strict=True))
        return [self._created(partition, results.get(partition)) for partition, _ in wanted]

    async def _made(self, new: Sequence[tuple[TopicPartition, Uuid]]) -> Sequence[LoadedLog | Exception]:
        try:
            if any(partition in self._outdated for partition, _ in new):
                await self._bring_up_to_date()
            return await finished(self._world, make_partitions, self.directory, new, self._world.clock.wall_ms())
        except OSError as failed:
            return [failed] * len(new)

    async def _bring_up_to_date(self) -> None:
        """OSError where a checkpoint cannot be written."""
        outdated = set(self._outdated)
        for file in self._checkpoints:
            await file.written()
        self._outdated -= outdated

    def _created(self, partition: TopicPartition, made: LoadedLog | Exception | None) -> Log | KafkaError:
        if made is None:
            unloaded = self.unloaded.get(partition)
            why = (
                "its directory is still that of a deleted log" if unloaded is None else f"it is not loaded: {unloaded}"
            )
            return KafkaError(Code.KAFKA_STORAGE_ERROR, f"{partition} cannot be created: {why}")
        if isinstance(made, Exception):
            if not isinstance(made, OSError):
                self._world.failures.note("partition", f"{partition} while it is made", made)
            return KafkaError(Code.KAFKA_STORAGE_ERROR, f"{partition} cannot be created: {made}")
        return self._adopt(partition, made, self._config_of(partition.topic))

    def delete(self, partition: TopicPartition) -> None:
        """Out of service at once; the files go after file.delete.delay.ms."""
        delay = self._delete_delay(partition)
        self.retired.delete(partition, self._taken_out(partition), delay)

    def put_aside(self, partition: TopicPartition, topic_id: Uuid) -> None:
        """A damaged log, so that it can be made anew. Its files are kept until `replaced`: those who are to have all of
        it may be dead."""
        log = self.logs.get(partition)
        committed = self.found.high_watermarks.get(partition, 0) if log is None else log.high_watermark
        delay = self._delete_delay(partition)
        self.retired.keep(partition, topic_id, self._taken_out(partition), committed, delay)

    def replaced(self, partition: TopicPartition, topic_id: Uuid, end: Offset | None = None) -> None:
        """What was put aside is not needed: its log is in sync, up to `end`, or its topic is gone."""
        if self.retired.keeps(topic_id, partition.partition):
            self.retired.let_go(topic_id, partition.partition, self._delete_delay(partition), end)

    def _taken_out(self, partition: TopicPartition) -> PurePath:
        """Its directory, of which nothing is known here any more."""
        self.found.forget(partition)
        self._outdated.add(partition)
        if self.unloaded.pop(partition, None) is not None:
            return self._found_at(partition)[0]
        log = self._ending[partition] = self.logs.pop(partition)
        log.close()
        log.when_idle(lambda: self._forget_ended(partition, log))
        log.generation.valid = False
        return log.directory

    def _delete_delay(self, partition: TopicPartition) -> float:
        log = self.logs.get(partition)
        config = self._config_of(partition.topic) if log is None else log.config
        return config.file_delete_delay_ms / 1000

    def _forget_ended(self, partition: TopicPartition, log: Log) -> None:
        if self._ending.get(partition) is log:
            del self._ending[partition]

    async def _ended(self, partition: TopicPartition) -> None:
        if partition in self._ending:
            idle: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._ending[partition].when_idle(lambda: None if idle.done() else idle.set_result(None))
            await idle

    async def truncate(self, log: Log, offset: Offset, still_meant: StillMeant = always_meant) -> bool:
        """As `truncation.truncate`, and no checkpoint lies beyond the cut, from before it is made."""
        announce = partial(self._announce, log, still_meant)
        try:
            return await truncation.truncate(self._world, log, offset, still_meant=still_meant, announce=announce)
        finally:
            self._cuts.pop(log, None)

    async def restart(
        self, log: Log, offset: Offset, batches: memoryview | None = None, still_meant: StillMeant = always_meant
    ) -> bool:
        """As `truncation.restart`, and no checkpoint lies beyond the new end, from before it is made. But a full disk
        is not waited for: nothing of the log is kept, and it may be the very thing that fills the disk. What a power
        cut then leaves of it may be refused, and is fetched anew."""
        announce = partial(self._announce, log, lambda: False)
        try:
            made = await truncation.restart(
                self._world, log, offset, batches, still_meant=still_meant, announce=announce
            )
        finally:
            self._cuts.pop(log, None)
        return made and await self._kept_within(log)

    async def _announce(self, log: Log, patient: Callable[[], bool], end: Offset) -> None:
        """A disk that stays full is waited for by who is patient. Others go on."""
        self._cuts[log] = end
        try:
            await self.recovery_points.written(patient)
            await self.clean_ends.written(patient)
        except OSError as failed:
            if not is_passing(failed):
                raise

    def _uncut(self, log: Log, offset: Offset | None) -> Offset | None:
        return offset if offset is None or log not in self._cuts else min(offset, self._cuts[log])

    async def _kept_within(self, log: Log) -> bool:
        """A full disk has room again some time. With any other error the log must not go on: a later start would
        believe what the checkpoints still say."""
        try:
            for file in (self.log_starts, self.recovery_points, self.clean_ends):
                await file.written(lambda: True)
        except OSError as failed:
            log.storage_failed(failed)
        log.durability.start_kept(log.log_start)
        return log.is_usable

    def keep_start(self, log: Log, kept: Callable[[], None]) -> None:
        """`kept` once the log's start is durable."""
        start, durability = log.log_start, log.durability
        cuts = durability.cuts

        def written() -> None:
            if cuts == durability.cuts:
                durability.start_kept(start)
                kept()
            else:  # what was written may be of before the cut, and the log may begin elsewhere now
                self.keep_start(log, kept)

        self.log_starts.write(written)

    def aging_ms(self) -> int:
        """The time by which records, tombstones and producers grow old."""
        clock = self._world.clock
        return self._retention_clock.now_ms(clock.wall_ms(), clock.monotonic())

    async def close(self, broker_epoch: int) -> None:
        """A clean stop: all durable, all checkpoints written, the mark last. A log that failed forbids the mark."""
        self.retired.close()
        logs = list(self.logs.values())
        for at in range(0, len(logs), SETTLE_AT_ONCE):
            await asyncio.gather(*(self._settle(log) for log in logs[at : at + SETTLE_AT_ONCE]))
        clean = not self.unloaded and not self.retired.pending and all(log.offline is None for log in logs)
        try:
            for file in self._checkpoints:
                await file.written()
            if clean:
                mark = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":")).encode()
                await finished(self._world, checkpoint.replace_file, self.directory / names.CLEAN_SHUTDOWN, mark)
        except OSError as failed:
            _log.error("%s is not marked as cleanly closed: %s", self.directory, failed)
        for file in self._checkpoints:
            file.close()
        for log in logs:
            log.close()

    async def _settle(self, log: Log) -> None:
        if log.offline is not None:
            return
        try:
            log.active.close_indexes()
            end, files = log.unsynced()
            await synced(self._world, [*files, *log.active.files], log.directory, SETTLE_TRIES)
            if not log.epoch_file.in_step:
                await log.epoch_file.written()
        except OSError as failed:
            log.storage_failed(failed)
            return
        log.durability.settled(end)
        await self._snapshot(log)

    async def _snapshot(self, log: Log) -> None:
        written: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
        log.snapshots.write(log.log_end, log.producers.copies(), written.set_result)
        failed = await written
        if failed is not None:
            log.storage_failed(failed)


def _log_start_beside(log: Log) -> Offset | None:
    """None where the first segment's name says it as well; but a deleted one may come back until that is synced."""
    named = log.segments and log.log_start <= log.segments[0].base_offset and log.durability.directory_in_step
    return None if named or log.log_start == 0 else log.log_start
