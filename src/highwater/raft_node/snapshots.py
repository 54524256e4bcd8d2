"""Snapshots of the metadata: files of batches between a header and a footer.

A file is named `%020d-%010d.checkpoint` after its end offset and epoch. It is written under another name and renamed
when it is whole, so after a crash it is either missing or complete. A file without a footer is not used.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath

from highwater.log.checkpoint import replace_file
from highwater.log.scan import BadBatch, scan
from highwater.metadata.cluster import MetadataImage
from highwater.metadata.records import decode, encode
from highwater.metadata.replay import apply
from highwater.metadata.snapshot import snapshot_records
from highwater.quorum import KRAFT_VERSION, LogPosition, VoterSet
from highwater.wire import records
from highwater.wire.codec import Message
from highwater.wire.messages.kraft_version_record import KRaftVersionRecord
from highwater.wire.messages.snapshot_footer_record import SnapshotFooterRecord
from highwater.wire.messages.snapshot_header_record import SnapshotHeaderRecord
from highwater.wire.messages.voters_record import VotersRecord
from highwater.wire.records.control import ControlType, build_control, parse_control
from highwater.world import Disk, Step

_NAME = re.compile(r"^(\d{20})-(\d{10})\.checkpoint$")
_log = logging.getLogger(__name__)


CONTROL_VERSION = 0
"""The version of every control record's value. The first field of the value repeats it."""


def snapshot_name(position: LogPosition) -> str:
    return f"{position.offset:020d}-{position.epoch:010d}.checkpoint"


def position_of(name: str) -> LogPosition | None:
    matched = _NAME.match(name)
    return None if matched is None else LogPosition(int(matched[2]), int(matched[1]))


@dataclass(slots=True)
class Snapshot:
    position: LogPosition
    timestamp: int = -1
    kraft_version: int | None = None
    voters: VoterSet | None = None
    batches: list[list[Message]] = field(default_factory=list)
    whole: bool = False


def image_of(snapshot: Snapshot, cluster_id: str) -> MetadataImage:
    records = [record for batch in snapshot.batches for record in batch]
    position = snapshot.position
    image, _ = apply(MetadataImage(cluster_id), records, position.offset - 1, position.epoch)
    return image


def list_snapshots(disk: Disk, directory: PurePath) -> list[LogPosition]:
    """The snapshots in the directory, sorted by end offset. Leftovers of an interrupted write are deleted."""
    found = []
    for name in disk.list(directory):
        position = position_of(name)
        if position is not None:
            found.append(position)
        elif name.endswith((".checkpoint.tmp", ".checkpoint.part", ".checkpoint.deleted")):
            disk.unlink(directory / name)
    return sorted(found, key=lambda position: (position.offset, position.epoch))


def read_snapshot(disk: Disk, directory: PurePath, position: LogPosition) -> Snapshot | None:
    """For jobs only. None if the file is damaged or not whole: then the snapshot before it, or the log, is used."""
    snapshot = Snapshot(position)
    file = disk.open(directory / snapshot_name(position))
    try:
        for batch in scan(file, 0, 0):
            if batch.header.is_control:
                _read_control(snapshot, batch.data)
            else:
                values = records.iterate(batch.data)
                snapshot.batches.append([decode(record.value or b"") for record in values])
    except (BadBatch, ValueError) as bad:
        _log.error("snapshot %s is damaged and not used: %s", snapshot_name(position), bad)
        return None
    finally:
        file.close()
    return snapshot if snapshot.whole else None


def _read_control(snapshot: Snapshot, data: memoryview) -> None:
    for control in parse_control(data):
        body, version = control.value, CONTROL_VERSION
        if control.type == ControlType.SNAPSHOT_HEADER:
            snapshot.timestamp = SnapshotHeaderRecord.decode(body, version).last_contained_log_timestamp
        elif control.type == ControlType.KRAFT_VERSION:
            snapshot.kraft_version = KRaftVersionRecord.decode(body, version).kraft_version
        elif control.type == ControlType.KRAFT_VOTERS:
            snapshot.voters = VoterSet.from_record(VotersRecord.decode(body, version))
        elif control.type == ControlType.SNAPSHOT_FOOTER:
            snapshot.whole = True


def encode_snapshot(
    epoch: int, voters: VoterSet | None, timestamp: int, batches: Iterator[Sequence[Message]]
) -> Iterator[bytes]:
    """The bytes of a snapshot, batch by batch. The offsets within a snapshot begin at 0."""
    head = [
        (
            ControlType.SNAPSHOT_HEADER,
            SnapshotHeaderRecord(last_contained_log_timestamp=timestamp).encode(CONTROL_VERSION),
        )
    ]
    if voters is not None:
        head.append(
            (ControlType.KRAFT_VERSION, KRaftVersionRecord(kraft_version=KRAFT_VERSION).encode(CONTROL_VERSION))
        )
        head.append((ControlType.KRAFT_VOTERS, voters.to_record().encode(CONTROL_VERSION)))
    yield bytes(build_control(head, timestamp=timestamp, leader_epoch=epoch))
    offset = len(head)
    for batch in batches:
        values = [(timestamp, None, encode(record), ()) for record in batch]
        yield bytes(records.build(values, base_offset=offset, leader_epoch=epoch))
        offset += len(batch)
    footer = [(ControlType.SNAPSHOT_FOOTER, SnapshotFooterRecord().encode(CONTROL_VERSION))]
    yield bytes(build_control(footer, timestamp=timestamp, base_offset=offset, leader_epoch=epoch))


def write_snapshot(
    disk: Disk,
    directory: PurePath,
    image: MetadataImage,
    position: LogPosition,
    voters: VoterSet | None,
    timestamp: int,
) -> Generator[Step, None, LogPosition]:
    """A job."""
    parts = []
    for part in encode_snapshot(position.epoch, voters, timestamp, snapshot_records(image)):
        parts.append(part)
        yield Step()
    yield from replace_file(disk, directory / snapshot_name(position), b"".join(parts))
    return position
