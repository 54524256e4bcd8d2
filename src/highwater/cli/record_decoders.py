"""Decodes the records of Kafka's internal logs, in the words of DumpLogSegments."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import Any

from highwater.cli.record_json import compact, to_json
from highwater.kernel import Record
from highwater.wire.codec import Malformed, Message, Reader
from highwater.wire.messages import index
from highwater.wire.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from highwater.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from highwater.wire.messages.end_txn_marker import EndTxnMarker
from highwater.wire.messages.group_metadata_value import GroupMetadataValue

Decoded = tuple[str | None, str | None]
"""The text of key and value; None prints nothing."""

Decoder = Callable[[Record], Decoded]

_FRAME_VERSION = 1
_SHORT = struct.Struct(">h")

TRANSACTION_KEYS = {0: "TransactionLogKey"}
TRANSACTION_VALUES = {0: "TransactionLogValue"}
QUORUM_RECORDS = {
    2: ("LeaderChange:", "LeaderChangeMessage"),
    3: ("SnapshotHeader", "SnapshotHeaderRecord"),
    4: ("SnapshotFooter", "SnapshotFooterRecord"),
    5: ("KRaftVersion", "KRaftVersionRecord"),
    6: ("KRaftVoters", "VotersRecord"),
}
"""By the type in a control record's key: the label and the message."""


def decode_text(record: Record) -> Decoded:
    """Keys and values as UTF-8."""
    return _text(record.key), _text(record.value)


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "replace")


def describe_control(record: Record) -> str:
    """What a control record adds to its line. Raises Malformed."""
    kind = _int16(record.key or b"", 2)
    value = record.value or b""
    if kind in (0, 1):
        marker = EndTxnMarker.decode(value[2:], 0)
        return f" endTxnMarker: {'COMMIT' if kind else 'ABORT'} coordinatorEpoch: {marker.coordinator_epoch}"
    if kind not in QUORUM_RECORDS:
        return f" controlType: UNKNOWN({kind})"
    label, name = QUORUM_RECORDS[kind]
    # The value begins with its own version, which is also its first field.
    version = _int16(value, 0)
    message = _decode(_load(name), value, version)
    return f" {label} {compact(to_json(message, version))}"


def decode_metadata(record: Record) -> Decoded:
    """A record of the metadata log: uvarint frame version, uvarint type, uvarint version, body."""
    try:
        reader = Reader(record.value or b"")
        frame, kind, version = reader.uvarint(), reader.uvarint(), reader.uvarint()
        if frame != _FRAME_VERSION:
            raise Malformed(f"Could not deserialize metadata record with unknown frame version {frame}")
        if kind not in index.METADATA_RECORDS:
            raise Malformed(f"Unknown metadata id {kind}")
        name = index.METADATA_RECORDS[kind]
        message = _decode(_load(name), memoryview(record.value or b"")[reader.pos :], version)
        text = compact({"type": _constant_case(name), "version": version, "data": to_json(message, version)})
    except Malformed as error:
        text = f"Error at {record.offset}, skipping. {error}"
    return None, text


def decode_offsets(record: Record) -> Decoded:
    """A record of __consumer_offsets."""
    return _coordinator_record(record, index.GROUP_KEYS, index.GROUP_VALUES)


def decode_transactions(record: Record) -> Decoded:
    """A record of __transaction_state."""
    return _coordinator_record(record, TRANSACTION_KEYS, TRANSACTION_VALUES)


def _coordinator_record(record: Record, keys: dict[int, str], values: dict[int, str]) -> Decoded:
    if record.key is None:
        raise Malformed(
            f"Failed to decode message at offset {record.offset} using the specified decoder "
            "(message had a missing key)"
        )
    try:
        kind = _int16(record.key, 0)
        if kind not in keys:
            return f"Unknown record type {kind} at offset {record.offset}, skipping.", None
        key = _decode(_load(keys[kind]), record.key[2:], 0)
        key_text = compact({"type": str(kind), "data": to_json(key, 0)})
        if record.value is None:
            return key_text, "<DELETE>"
        version = _int16(record.value, 0)
        value = _decode(_load(values[kind]), record.value[2:], version)
        data = to_json(value, version)
        if isinstance(value, GroupMetadataValue) and value.protocol_type == "consumer":
            _open_members(data, value)
        return key_text, compact({"version": str(version), "data": data})
    except Malformed as error:
        return f"Error at offset {record.offset}, skipping. {error}", None


def _open_members(data: dict[str, Any], group: GroupMetadataValue) -> None:
    """Show what consumers wrote into their group's record instead of its bytes."""
    for shown, member in zip(data["members"], group.members, strict=True):
        for field, raw, kind in (
            ("subscription", member.subscription, ConsumerProtocolSubscription),
            ("assignment", member.assignment, ConsumerProtocolAssignment),
        ):
            try:
                version = _int16(raw, 0)
                shown[field] = to_json(_decode(kind, raw[2:], version), version)
            except Malformed:
                continue  # not in the consumer's format: the bytes are printed unchanged


def _load(name: str) -> type[Message]:
    return index.load(name)


def _decode(kind: type[Message], data: bytes | memoryview, version: int) -> Message:
    low, high = kind.VERSIONS
    if not low <= version <= high:
        raise Malformed(f"{kind.__name__} has no version {version}")
    return kind.decode(data, version)


def _int16(data: bytes, at: int) -> int:
    if len(data) < at + 2:
        raise Malformed(f"{len(data)} bytes where at least {at + 2} are needed")
    value: int = _SHORT.unpack_from(data, at)[0]
    return value


def _constant_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).upper()
