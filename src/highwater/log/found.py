"""The content of a log directory when it is opened: partitions, checkpoints, and leftovers of deletions."""

from __future__ import annotations

import json
import logging
from collections.abc import Generator, Sequence
from contextlib import suppress
from pathlib import PurePath

from highwater.log import checkpoint, names
from highwater.log.checkpoint import BadCheckpoint
from highwater.log.creation import read_topic_id_if_there
from highwater.model import METADATA_TOPIC, Offset, TopicPartition, Uuid
from highwater.world import Disk, Step

_log = logging.getLogger(__name__)


class Found:
    def __init__(self) -> None:
        self.clean = False
        self.broker_epoch = -1
        self.partitions: list[tuple[TopicPartition, PurePath, int]] = []
        """(partition, its directory, bytes of its segments)"""
        self.leftovers: list[PurePath] = []
        self.kept: list[tuple[Uuid, int, PurePath]] = []
        """Damaged copies: (topic id, partition, directory)"""
        self.recovery_points: dict[TopicPartition, Offset] = {}
        self.log_starts: dict[TopicPartition, Offset] = {}
        self.high_watermarks: dict[TopicPartition, Offset] = {}
        self.clean_ends: dict[TopicPartition, Offset] = {}

    @property
    def _checkpoints(self) -> Sequence[dict[TopicPartition, Offset]]:
        return self.recovery_points, self.log_starts, self.high_watermarks, self.clean_ends

    def forget(self, partition: TopicPartition) -> None:
        """Forgets a log that is gone: its checkpoints must not count for the next log of the same name."""
        for offsets in self._checkpoints:
            offsets.pop(partition, None)

    def forget_absent(self) -> set[TopicPartition]:
        """Forgets, and returns, partitions that the checkpoints name and that are not in the directory. After a clean
        stop somebody removed them: this broker may lack committed records, so it must not report a clean stop."""
        absent = {partition for offsets in self._checkpoints for partition in offsets}
        absent.difference_update(partition for partition, _, _ in self.partitions)
        for partition in absent:
            self.forget(partition)
        if absent:
            self.broker_epoch = -1
        return absent


def look_around(disk: Disk, directory: PurePath) -> Generator[Step, None, Found]:
    """A job: reads the directory and its checkpoints. It deletes the clean-shutdown mark, which is valid for one
    start."""
    found = Found()
    mark = directory / names.CLEAN_SHUTDOWN
    data = checkpoint.read_file(disk, mark)
    if data is not None:
        found.clean = True
        with suppress(ValueError, KeyError, TypeError):
            found.broker_epoch = int(json.loads(data)["brokerEpoch"])
        disk.unlink(mark)
    # A checkpoint may have been renamed just before a kill, and not be durable yet. Its offsets are sent to other
    # nodes.
    disk.sync_dir(directory)
    yield Step()
    _read_checkpoints(disk, directory, found)
    yield from _list_partitions(disk, directory, found)
    return found


def _read_checkpoints(disk: Disk, directory: PurePath, found: Found) -> None:
    for file_name, target in (
        (names.RECOVERY_POINTS, found.recovery_points),
        (names.LOG_STARTS, found.log_starts),
        (names.HIGH_WATERMARKS, found.high_watermarks),
    ):
        data = checkpoint.read_file(disk, directory / file_name)
        if data is None and found.clean and file_name != names.HIGH_WATERMARKS:
            # Every clean stop writes it. Without it nothing shows that the end or the beginning of a log is gone, too.
            _log.warning("%s is missing, so this broker does not report a clean stop", file_name)
            found.broker_epoch = -1
        try:
            target.update(checkpoint.decode_offsets(data or b"0\n0\n"))
        except BadCheckpoint as bad:
            _log.warning("%s is unreadable (%s): everything is recovered from the logs", file_name, bad)
            found.clean = False
            found.broker_epoch = -1  # recovery may cut damaged batches: this replica may lack committed records
    try:
        found.clean_ends = checkpoint.decode_offsets(
            checkpoint.read_file(disk, directory / names.CLEANER_POINTS) or b"0\n0\n"
        )
    except BadCheckpoint as bad:
        _log.warning("%s is unreadable (%s): compaction begins anew", names.CLEANER_POINTS, bad)


def _list_partitions(disk: Disk, directory: PurePath, found: Found) -> Generator[Step, None, None]:
    for name in disk.list(directory):
        path = directory / name
        partition = names.partition_of(name)
        status = disk.stat(path)
        if status is None or not status.is_dir:
            continue
        if names.is_deleted_directory(name):
            found.leftovers.append(path)
        elif (index := names.stray_partition(name)) is not None:
            topic_id = yield from read_topic_id_if_there(disk, path)
            if topic_id is None:
                _log.warning("%s is kept: its topic id cannot be read", path)
            else:
                found.kept.append((topic_id, index, path))
        elif partition is not None and partition.topic != METADATA_TOPIC:
            sizes = (disk.stat(path / file) for file in disk.list(path) if file.endswith(names.LOG))
            found.partitions.append((partition, path, sum(size.size for size in sizes if size is not None)))
        yield Step()
