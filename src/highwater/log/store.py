"""All logs of one log directory: opens, creates, checkpoints, truncates, deletes and closes them."""

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
from highwater.log.clean_stop import CleanStop
from highwater.log.creation import make_partitions, read_topic_id_if_there
from highwater.log.damage_marks import DamageMarks
from highwater.log.expiry import Expiry
from highwater.log.found import Found, look_around
from highwater.log.loaded import LoadedLog, LoadRequest, find_incomplete
from highwater.log.loader import load_log
from highwater.log.log import Log
from highwater.log.retention import RetentionClock
from highwater.log.retired import Retired
from highwater.log.truncation import StillMeant, always_meant
from highwater.model import Offset, TopicPartition, Uuid
from highwater.world import World, is_passing
from highwater.world.boundary import as_os_error
from highwater.world.jobs import finished, patiently

PROCESS_ABOVE_BYTES = 32 << 20
"""A recovery that reads more than this runs in a process: it would hold the interpreter for too long."""
ABSENT_NAMED = 20
"""The most missing logs that a start names one by one: those of a whole directory may be gone."""
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
        """`at_a_time`: how many logs are loaded in parallel when the directory is opened."""
        self._world = world
        self.directory = directory
        self._at_a_time = at_a_time
        self._config_of = config_of
        self._random = world.random("log")
        self.retired = Retired(world, directory)
        self.logs: dict[TopicPartition, Log] = {}
        self.found = Found()
        self._is_closing = False
        """Then the checkpoint of log starts names all logs: the next start sees whether a first segment is gone."""
        self.unloaded: dict[TopicPartition, Exception] = {}
        """Partitions that could not be opened, and why. They are left unchanged; a later start tries again."""
        self._outdated: set[TopicPartition] = set()
        """Logs that are gone, but may still be in the checkpoints on disk. The checkpoints hold no topic id, and would
        cut or empty the next log of the same name. So that log is not made before the checkpoints are written."""
        self._ending: dict[TopicPartition, Log] = {}
        """Deleted logs with a job that may still write in their directory. The next log of that name waits for its
        end."""
        self._marks = DamageMarks(world, troubled, lambda log: self.logs.get(log.partition) is log)
        self._cuts: dict[Log, Offset] = {}
        """Where logs are about to be cut. No checkpoint may hold a larger offset for them."""
        clock = world.clock
        self._retention_clock = RetentionClock(clock.wall_ms(), clock.monotonic())
        self.expiry = Expiry(world, self.retired, self.aging_ms)
        self.recovery_points = self._checkpoint(
            names.RECOVERY_POINTS, lambda log: self._uncut(log, log.recovery_point), lambda found: found.recovery_points
        )
        self.log_starts = self._checkpoint(
            names.LOG_STARTS,
            lambda log: log.log_start if self._is_closing else _log_start_beside(log),
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
        """A checkpoint of all logs. For partitions that are not loaded it keeps the old value: a later start needs
        it."""

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
        """Loads every partition in the directory. One that cannot be loaded is left out and reported. `progress` is
        called again and again meanwhile: after a crash this may take minutes."""
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
        if self.unloaded:
            self.found.broker_epoch = -1  # what a log lacks that is opened later, or never, is unknown

    def _warn_of_absent(self) -> None:
        """Warns of logs that the checkpoints name and that are missing. Their directories may have been removed by
        hand. Or they were deleted just before the stop: the checkpoints do not show the difference."""
        absent = sorted(self._outdated)
        for partition in absent[:ABSENT_NAMED]:
            _log.warning(
                "%s is not in %s, though the checkpoints name it: unless it was deleted, it begins anew, empty",
                partition,
                self.directory,
            )
        if len(absent) > ABSENT_NAMED:
            _log.warning("%d more that the checkpoints name are not in %s", len(absent) - ABSENT_NAMED, self.directory)

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
                raise ValueError(f"{names.PARTITION_METADATA} is missing: the topic of these records is unknown")
        except (OSError, ValueError, EOFError) as failed:
            if str(self.unloaded.get(partition)) != str(failed):
                _log.error("%s is not loaded: %s", partition, failed)
            self.unloaded[partition] = failed
            return
        begin = self.found.log_starts.get(partition) if self.found.clean else None
        incomplete = find_incomplete(loaded, request, begin)
        is_legal = incomplete is not None and incomplete.is_gap and self._was_compacted(partition, config)
        is_lasting = incomplete is not None and not incomplete.is_refilled and not is_legal
        mark = loaded.mark
        if incomplete is not None and is_lasting and mark is None:
            mark = await self._marks.write(path, incomplete)
        log = self._adopt(partition, loaded, config)
        if is_lasting:
            log.incomplete = incomplete
            self._marks.found(log, mark)
        if incomplete is not None and loaded.mark is None:
            _log.error("this broker may lack committed records, and does not report a clean stop: %s", incomplete)
            self.found.broker_epoch = -1
        self.unloaded.pop(partition, None)

    def _was_compacted(self, partition: TopicPartition, config: LogConfig) -> bool:
        """Then gaps between segments are no losses. Kafka leaves them in the logs of followers, too."""
        return config.compact or partition in self.found.clean_ends

    async def topic_of_unloaded(self, partition: TopicPartition) -> Uuid | None:
        """The topic id of a log that could not be loaded; None if that is unknown, too."""
        path, _ = self._found_at(partition)
        return await finished(self._world, read_topic_id_if_there, path)

    def _found_at(self, partition: TopicPartition) -> tuple[PurePath, int]:
        return next((path, size) for each, path, size in self.found.partitions if each == partition)

    async def open_again(self, partition: TopicPartition) -> Log | None:
        """Tries again to load a log that could not be loaded before. None if it still cannot be."""
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
            self.report_trouble,
        )
        log.move_high_watermark(max(log.log_start, min(self.found.high_watermarks.get(partition, 0), log.log_end)))
        log.clean_end = self.found.clean_ends.get(partition)
        self.logs[partition] = log
        return log

    def report_trouble(self, log: Log) -> None:
        """The log is offline, damaged or incomplete. Its owner hears of it once that is written down."""
        self._marks.report(log)

    async def create_all(self, wanted: Sequence[tuple[TopicPartition, Uuid]]) -> list[Log | KafkaError]:
        """Creates all logs in one job. The results are in the order of `wanted`."""
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
        """Writes all checkpoints. Raises OSError if one cannot be written."""
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
        log = self._opened(partition, made) if isinstance(made, LoadedLog) else made
        if isinstance(log, Log):
            return log
        if not isinstance(log, OSError):
            self._world.failures.note("partition", f"{partition} while it is made", log)
        return KafkaError(Code.KAFKA_STORAGE_ERROR, f"{partition} cannot be created: {log}")

    def _opened(self, partition: TopicPartition, made: LoadedLog) -> Log | OSError:
        """Opens the files of a new log. If that fails, the other logs are opened nevertheless."""
        results: list[Log | OSError] = []

        def refuse(failed: Exception) -> None:
            results.append(as_os_error(failed))

        with self._world.failures.boundary("partition", f"{partition} while it is made", refuse):
            try:
                results.append(self._adopt(partition, made, self._config_of(partition.topic)))
            except OSError as failed:
                results.append(failed)
        return results[0]

    def delete(self, partition: TopicPartition) -> None:
        """Takes the log out of service at once. Its files are deleted after file.delete.delay.ms."""
        delay = self._delete_delay(partition)
        self.retired.delete(partition, self._taken_out(partition), delay)

    def put_aside(self, partition: TopicPartition, topic_id: Uuid) -> None:
        """Puts a damaged log aside, so that it can be made anew. Its files are kept until `replaced`: the replicas that
        should have everything may be dead."""
        log = self.logs.get(partition)
        committed = self.found.high_watermarks.get(partition, 0) if log is None else log.high_watermark
        delay = self._delete_delay(partition)
        self.retired.keep(partition, topic_id, self._taken_out(partition), committed, delay)

    def replaced(self, partition: TopicPartition, topic_id: Uuid, end: Offset | None = None) -> None:
        """The files that were put aside are no longer needed: the new log is in sync up to `end`, or the topic is
        gone."""
        if self.retired.keeps(topic_id, partition.partition):
            self.retired.let_go(topic_id, partition.partition, self._delete_delay(partition), end)

    def _taken_out(self, partition: TopicPartition) -> PurePath:
        """Removes the log from this store, and returns its directory."""
        self.found.forget(partition)
        self._outdated.add(partition)
        if self.unloaded.pop(partition, None) is not None:
            return self._found_at(partition)[0]
        log = self._ending[partition] = self.logs.pop(partition)
        log.close()
        self._marks.when_idle(log, lambda: self._forget_ended(partition, log))
        log.generation.valid = False
        self._marks.forget(log)
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
            self._marks.when_idle(self._ending[partition], lambda: None if idle.done() else idle.set_result(None))
            await idle

    async def truncate(self, log: Log, offset: Offset, still_meant: StillMeant = always_meant) -> bool:
        """As `truncation.truncate`. No checkpoint holds an offset beyond the cut, even before the cut is made."""
        announce = partial(self._announce, log, still_meant)
        try:
            return await truncation.truncate(self._world, log, offset, still_meant=still_meant, announce=announce)
        finally:
            self._cuts.pop(log, None)

    async def restart(
        self, log: Log, offset: Offset, batches: memoryview | None = None, still_meant: StillMeant = always_meant
    ) -> bool:
        """As `truncation.restart`. No checkpoint holds an offset beyond the new end, even before the log is emptied.
        But this does not wait for a full disk: nothing of the log is kept, and this log may be what fills the disk.
        After a power cut the rest of it may be refused then, and is fetched again."""
        announce = partial(self._announce, log, lambda: False)
        try:
            made = await truncation.restart(
                self._world, log, offset, batches, still_meant=still_meant, announce=announce
            )
        finally:
            self._cuts.pop(log, None)
        return made and await self._kept_within(log)

    async def _announce(self, log: Log, patient: Callable[[], bool], end: Offset) -> None:
        """Writes the checkpoints before a cut to `end`. If the disk is full, it waits as long as `patient` says so, and
        then goes on without them."""
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
        """Writes the checkpoints after a restart of the log. It waits for a full disk. After any other error the log
        goes offline: a later start would rely on the old checkpoints."""
        try:
            for file in (self.log_starts, self.recovery_points, self.clean_ends):
                await file.written(lambda: True)
        except OSError as failed:
            log.storage_failed(failed)
        log.durability.start_kept(log.log_start)
        return log.is_usable

    def keep_start(self, log: Log, kept: Callable[[], None]) -> None:
        """Calls `kept` when the log start is durable."""
        start, durability = log.log_start, log.durability
        cuts = durability.cuts

        def written() -> None:
            if cuts == durability.cuts:
                durability.start_kept(start)
                kept()
            else:  # the checkpoint may hold the log start from before the cut, and the log may begin elsewhere now
                self.keep_start(log, kept)

        self.log_starts.write(written)

    def aging_ms(self) -> int:
        """The time by which the age of records, tombstones and producers is measured."""
        clock = self._world.clock
        return self._retention_clock.now_ms(clock.wall_ms(), clock.monotonic())

    async def close(self, broker_epoch: int) -> None:
        """A clean stop: syncs everything, writes all checkpoints, and writes the clean-shutdown mark last. If a log has
        failed, there is no mark."""
        self.retired.close()
        self._is_closing = True
        logs = list(self.logs.values())
        stop = CleanStop(self._world)
        clean = await stop.settle(logs) and not self.unloaded and not self.retired.pending
        try:
            for file in self._checkpoints:
                await file.written(stop.is_patient)
            if clean:
                mark = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":")).encode()
                path = self.directory / names.CLEAN_SHUTDOWN
                await patiently(partial(finished, self._world, checkpoint.replace_file, path, mark), stop.may_pass)
        except OSError as failed:
            _log.error("%s is not marked as cleanly closed: %s", self.directory, failed)
        for file in self._checkpoints:
            file.close()
        for log in logs:
            log.close()


def _log_start_beside(log: Log) -> Offset | None:
    """The log start for its checkpoint. None if the name of the first segment holds it; but until the directory is
    synced, a deleted segment may come back."""
    named = log.segments and log.log_start <= log.segments[0].base_offset and log.durability.directory_in_step
    return None if named or log.log_start == 0 else log.log_start
