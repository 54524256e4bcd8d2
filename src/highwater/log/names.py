"""The names of the files and directories of a log."""

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
"""The files of a segment, with the producer snapshot at its base offset."""
DELETED = ".deleted"
CLEANED = ".cleaned"
SWAP = ".swap"
ASIDE = ".tmp"
"""The suffix of a file that is being made. It has no meaning until it gets its final name."""

EPOCH_CHECKPOINT = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
CLEANER_POINTS = "cleaner-offset-checkpoint"
META_PROPERTIES = "meta.properties"
DAMAGE_MARK = "highwater-damage"
"""In the directory of a log that must be fetched again. It holds the reason. Kafka ignores it."""
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
LOCK = ".lock"

DIRECTORY_NAME_LIMIT = 255
_PARTITION_DIRECTORY = re.compile(r"^(?P<topic>[a-zA-Z0-9._-]+)-(?P<partition>[0-9]+)$")
_DELETED_DIRECTORY = re.compile(r"^.+\.[0-9a-f]{32}-delete$")
_STRAY_DIRECTORY = re.compile(r"^.+-(?P<partition>[0-9]+)\.(?P<high_watermark>[0-9a-f]{16})0[0-9a-f]{15}-stray$")
"""Only directories that Highwater made. Kafka has a random UUID there, and its 17th digit is never 0."""


def segment_file(directory: PurePath, base_offset: int, suffix: str) -> PurePath:
    return directory / f"{base_offset:020d}{suffix}"


def base_offset_of(name: str) -> int:
    """The base offset in the name of a segment's file."""
    return int(name.split(".", 1)[0])


def partition_of(directory_name: str) -> TopicPartition | None:
    """None if this is not the directory of a partition. Leftovers of a deletion are not."""
    matched = _PARTITION_DIRECTORY.match(directory_name)
    if matched is None:
        return None
    return TopicPartition(matched["topic"], int(matched["partition"]))


def deleted_directory(partition: TopicPartition, unique: str) -> str:
    """The name of a partition's directory while it waits for its deletion, within the file system's limit."""
    return _aside(partition, unique, "delete")


def stray_directory(partition: TopicPartition, high_watermark: int, random: int) -> str:
    """The name of a directory that is out of service and kept. It holds the high watermark and 60 random bits."""
    return _aside(partition, f"{high_watermark:016x}{random:016x}", "stray")


def _aside(partition: TopicPartition, unique: str, why: str) -> str:
    suffix = f"-{partition.partition}.{unique}-{why}"
    return partition.topic[: DIRECTORY_NAME_LIMIT - len(suffix)] + suffix


def is_deleted_directory(name: str) -> bool:
    return _DELETED_DIRECTORY.match(name) is not None


def stray_partition(name: str) -> int | None:
    """The partition number of a stray directory that Highwater made. The topic's name in it may be cut off."""
    matched = _STRAY_DIRECTORY.match(name)
    return None if matched is None else int(matched["partition"])


def stray_high_watermark(name: str) -> int:
    """The high watermark of a log that Highwater put aside."""
    matched = _STRAY_DIRECTORY.match(name)
    assert matched is not None, name
    return int(matched["high_watermark"], 16)
