"""Jobs that make the files of new, empty partitions, and that read the topic id of a partition's directory."""

from __future__ import annotations

import errno
from collections.abc import Generator, Sequence
from pathlib import PurePath

from highwater.log import checkpoint, names, partition_metadata
from highwater.log.index import NO_TIMESTAMP
from highwater.log.loaded import LoadedLog, LoadedSegment
from highwater.model import TopicPartition, Uuid
from highwater.world import Disk, Step


def make_partitions(
    disk: Disk, directory: PurePath, wanted: Sequence[tuple[TopicPartition, Uuid]], now_ms: int
) -> Generator[Step, None, list[LoadedLog | Exception]]:
    """A job: makes the files of new, empty partitions. They are durable when it ends. The result holds an exception for
    each partition that could not be made.

    All partitions take the same step before any takes the next one: consecutive syncs cost the file system less than
    syncs with new files between them.
    """
    making = {partition: make_partition(disk, directory / str(partition), id_, now_ms) for partition, id_ in wanted}
    made: dict[TopicPartition, LoadedLog | Exception] = {}
    while making:
        for partition, steps in list(making.items()):
            try:
                yield next(steps)
            except StopIteration as end:
                made[partition] = end.value
            except Exception as failed:  # noqa: BLE001 the boundary of this partition: the others are made
                made[partition] = failed
            if partition in made:
                del making[partition]
    disk.sync_dir(directory)
    return [made[partition] for partition, _ in wanted]


def make_partition(disk: Disk, directory: PurePath, topic_id: Uuid, now_ms: int) -> Generator[Step, None, LoadedLog]:
    """When it ends, everything except the name of the directory is durable. Raises FileExistsError if there is data."""
    disk.mkdir(directory)
    for name in disk.list(directory):
        status = disk.stat(directory / name)
        if name.endswith(names.LOG) and status is not None and status.size:
            raise FileExistsError(errno.EEXIST, "there is a log already", str(directory / name))
    for suffix in (names.LOG, names.INDEX, names.TIME_INDEX):
        disk.open(names.segment_file(directory, 0, suffix), create=True).close()
    yield Step()
    yield from checkpoint.replace_file(disk, directory / names.PARTITION_METADATA, partition_metadata.encode(topic_id))
    empty = LoadedSegment(0, now_ms, NO_TIMESTAMP, NO_TIMESTAMP, None, 0)
    return LoadedLog(directory, [empty], 0, 0, 0, [], [], topic_id)


def read_topic_id_if_there(disk: Disk, directory: PurePath) -> Generator[Step, None, Uuid | None]:
    """A job."""
    yield Step()
    try:
        return partition_metadata.read_topic_id(disk, directory)
    except (OSError, ValueError):
        return None
