"""What the files and directories of a log are called."""

from __future__ import annotations

import re
from pathlib import PurePath

from highwater.model import TopicPartition

LOG = ".log"
INDEX = ".index"
TIME_INDEX = ".timeindex"
TXN_INDEX = ".txnindex"
SNAPSHOT = ".snapshot"
SEGMENT_KINDS = (LOG, INDEX, TIME_INDEX, TXN_INDEX)
SEGMENT_FILES = (*SEGMENT_KINDS, SNAPSHOT)
"""Those, and the producers as they were where the segment begins."""
DELETED = ".deleted"
CLEANED = ".cleaned"
SWAP = ".swap"

EPOCH_CHECKPOINT = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
CLEANER_POINTS = "cleaner-offset-checkpoint"
META_PROPERTIES = "meta.properties"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
LOCK = ".lock"

DIRECTORY_NAME_LIMIT = 255
_PARTITION_DIRECTORY = re.compile(r"^(?P<topic>[a-zA-Z0-9._-]+)-(?P<partition>[0-9]+)$")
_DELETED_DIRECTORY = re.compile(r"^.+\.[0-9a-f]{32}-delete$")
_STRAY_DIRECTORY = re.compile(r"^.+-(?P<partition>[0-9]+)\.[0-9a-f]{32}-stray$")


def segment_file(directory: PurePath, base_offset: int, suffix: str) -> PurePath:
    return directory / f"{base_offset:020d}{suffix}"


def base_offset_of(name: str) -> int:
    """The base offset in the name of a segment's file."""
    return int(name.split(".", 1)[0])


def partition_of(directory_name: str) -> TopicPartition | None:
    """None where the directory is no partition's: leftovers of a deletion among them."""
    matched = _PARTITION_DIRECTORY.match(directory_name)
    if matched is None:
        return None
    return TopicPartition(matched["topic"], int(matched["partition"]))


def deleted_directory(partition: TopicPartition, unique: str) -> str:
    """The name a partition's directory gets while it waits for its deletion, within the file system's limit."""
    return _aside(partition, unique, "delete")


def stray_directory(partition: TopicPartition, unique: str) -> str:
    """The name it gets while it is out of service and kept."""
    return _aside(partition, unique, "stray")


def _aside(partition: TopicPartition, unique: str, why: str) -> str:
    suffix = f"-{partition.partition}.{unique}-{why}"
    return partition.topic[: DIRECTORY_NAME_LIMIT - len(suffix)] + suffix


def is_deleted_directory(name: str) -> bool:
    return _DELETED_DIRECTORY.match(name) is not None


def stray_partition(name: str) -> int | None:
    """The partition whose stray directory this is; its topic's name may have been cut off."""
    matched = _STRAY_DIRECTORY.match(name)
    return None if matched is None else int(matched["partition"])
