"""Control records, which the broker and the quorum write between data records (transaction markers, leader changes
…)."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from highwater.kernel import BadRecords
from highwater.wire.records.batch import build, iterate

if TYPE_CHECKING:
    from typing_extensions import Buffer

_KEY = struct.Struct(">hh")
_KEY_VERSION = 0
_MARKER = struct.Struct(">hi")
_MARKER_VERSION = 0


class ControlType(IntEnum):
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


class ControlRecord(NamedTuple):
    """`type` is a `ControlType`, or a plain number for a type of a newer version, which is ignored."""

    offset: int
    timestamp: int
    type: int
    value: bytes


def control_key(kind: ControlType) -> bytes:
    return _KEY.pack(_KEY_VERSION, kind)


def control_type(key: Buffer | None) -> int:
    """The type in the key of a control record. As in Kafka, a key of a later version is read as one of the first
    version."""
    if key is None or memoryview(key).nbytes < _KEY.size:
        raise BadRecords("a control record's key is too short")
    version, kind = _KEY.unpack_from(key)
    if version < 0:
        raise BadRecords(f"a control record's key has version {version}")
    try:
        return ControlType(kind)
    except ValueError:
        return int(kind)


def build_control(
    values: Sequence[tuple[ControlType, bytes]], *, timestamp: int, base_offset: int = 0, leader_epoch: int
) -> bytearray:
    """A batch of control records of the quorum. Each value begins with its int16 version already."""
    records = [(timestamp, control_key(kind), value, ()) for kind, value in values]
    return build(records, base_offset=base_offset, leader_epoch=leader_epoch, control=True)


def build_marker(
    kind: ControlType,
    *,
    timestamp: int,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytearray:
    """The marker that ends a transaction."""
    return build(
        [(timestamp, control_key(kind), _MARKER.pack(_MARKER_VERSION, coordinator_epoch), ())],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )


def parse_control(batch: Buffer) -> list[ControlRecord]:
    """The control records of one control batch."""
    return [ControlRecord(r.offset, r.timestamp, control_type(r.key), r.value or b"") for r in iterate(batch)]


def marker_epoch(value: Buffer) -> int:
    """The coordinator epoch inside a transaction marker's value."""
    if memoryview(value).nbytes < _MARKER.size:
        raise BadRecords("a transaction marker is too short")
    version, epoch = _MARKER.unpack_from(value)
    if version < 0:
        raise BadRecords(f"a transaction marker has version {version}")
    return int(epoch)
