"""Dumps the files beside a segment: its indexes, producer snapshots, and the text checkpoints."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

from crc32c import crc32c

from highwater import kernel
from highwater.cli.dump_batches import CorruptFile, Findings, Print, base_offset, batches, read_whole
from highwater.kernel import BadRecords
from highwater.wire.codec import Malformed
from highwater.wire.compression import BadCompression
from highwater.wire.messages.producer_snapshot import ProducerEntry, ProducerSnapshot
from highwater.wire.records import Header, section

_OFFSET_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")
_TRANSACTION_ENTRY = struct.Struct(">hqqqq")
_SNAPSHOT_HEAD = struct.Struct(">hI")
_SNAPSHOT_VERSION = 1
_SEQUENCES = 2**31

EPOCH_CHECKPOINT = "leader-epoch-checkpoint"
OFFSET_CHECKPOINTS = (
    "replication-offset-checkpoint",
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "cleaner-offset-checkpoint",
)


def dump_index(path: Path, *, sanity_only: bool, verify_only: bool, findings: Findings, out: Print) -> None:
    base = base_offset(path)
    log_path = path.with_suffix(".log")
    log = read_whole(log_path)
    data = read_whole(path)
    if len(data) < _OFFSET_ENTRY.size:
        out(f"{path} is empty.")
        return
    if sanity_only:
        _check_whole(path, len(data), _OFFSET_ENTRY.size)
        last, _ = _OFFSET_ENTRY.unpack_from(data, len(data) - _OFFSET_ENTRY.size)
        if last < 0:
            raise CorruptFile(
                f"Corrupt index found, index file ({path.absolute()}) has non-zero size but the last offset is "
                f"{base + last} which is less than the base offset {base}."
            )
        out(f"{path} passed sanity check.")
        return
    for offset, position in _offset_entries(data, base):
        found = next((header.last_offset for _, header in batches(log, log_path, position)), -1)
        if found != offset:
            findings.index_mismatches.setdefault(str(path.absolute()), []).append((offset, found))
        if not verify_only:
            out(f"offset: {offset} position: {position}")


def dump_time_index(path: Path, *, sanity_only: bool, verify_only: bool, findings: Findings, out: Print) -> None:
    base = base_offset(path)
    log_path = path.with_suffix(".log")
    log, data = read_whole(log_path), read_whole(path)
    positions = list(_offset_entries(read_whole(path.with_suffix(".index")), base))
    if sanity_only:
        _check_time_index(path, data, base)
        out(f"{path} passed sanity check.")
        return
    name = str(path.absolute())
    previous = -1
    for timestamp, offset in _time_entries(data, base):
        start = max((position for indexed, position in positions if indexed <= offset), default=0)
        match = next(
            ((pos, header) for pos, header in batches(log, log_path, start) if header.last_offset >= offset), None
        )
        if match is None or match[1].last_offset != offset:
            findings.offsets_not_found.setdefault(name, []).append((offset, match[1].last_offset if match else -1))
        else:
            largest = _largest_timestamp(log, *match, log_path)
            if largest != timestamp:
                findings.time_mismatches.setdefault(name, []).append((timestamp, largest))
            if previous >= timestamp:
                findings.out_of_order.setdefault(name, []).append((timestamp, previous))
        if not verify_only:
            out(f"timestamp: {timestamp} offset: {offset}")
        previous = timestamp


def _offset_entries(data: memoryview, base: int) -> Iterator[tuple[int, int]]:
    """(offset, position); a preallocated file ends in zeros, so the first zero entry but one ends the index."""
    for at in range(0, len(data) - _OFFSET_ENTRY.size + 1, _OFFSET_ENTRY.size):
        relative, position = _OFFSET_ENTRY.unpack_from(data, at)
        if relative == 0 and at > 0:
            return
        yield base + relative, position


def _time_entries(data: memoryview, base: int) -> Iterator[tuple[int, int]]:
    for at in range(0, len(data) - _TIME_ENTRY.size + 1, _TIME_ENTRY.size):
        timestamp, relative = _TIME_ENTRY.unpack_from(data, at)
        if relative == 0 and at > 0:
            return
        yield timestamp, base + relative


def _check_whole(path: Path, length: int, entry: int) -> None:
    if length % entry:
        raise CorruptFile(
            f"Index file {path.absolute()} is corrupt, found {length} bytes which is neither positive nor a multiple "
            f"of {entry}"
        )


def _check_time_index(path: Path, data: memoryview, base: int) -> None:
    _check_whole(path, len(data), _TIME_ENTRY.size)
    if not len(data):
        return
    first_timestamp, _ = _TIME_ENTRY.unpack_from(data, 0)
    last_timestamp, last = _TIME_ENTRY.unpack_from(data, len(data) - _TIME_ENTRY.size)
    if last_timestamp < first_timestamp:
        raise CorruptFile(
            f"Corrupt time index found, time index file ({path.absolute()}) has non-zero size but the last timestamp "
            f"is {last_timestamp} which is less than the first timestamp {first_timestamp}"
        )
    if last < 0:
        raise CorruptFile(
            f"Corrupt time index found, time index file ({path.absolute()}) has non-zero size but the last offset is "
            f"{base + last} which is less than the first offset {base}"
        )


def _largest_timestamp(log: memoryview, pos: int, header: Header, path: Path) -> int:
    try:
        records = kernel.iterate(section(header, log[pos : pos + header.size]))
    except (BadRecords, BadCompression) as error:
        raise CorruptFile(f"The batch at position {pos} of {path} cannot be read: {error}") from error
    return max((record.timestamp for record in records), default=-1)


def dump_transaction_index(path: Path, out: Print) -> None:
    data = read_whole(path)
    for at in range(0, len(data) - _TRANSACTION_ENTRY.size + 1, _TRANSACTION_ENTRY.size):
        version, producer, first, last, stable = _TRANSACTION_ENTRY.unpack_from(data, at)
        if version > 0:
            raise CorruptFile(f"Unexpected aborted transaction version {version} in transaction index {path}")
        out(
            f"version: {version} producerId: {producer} firstOffset: {first} lastOffset: {last} "
            f"lastStableOffset: {stable}"
        )


def dump_producer_snapshot(path: Path, out: Print) -> None:
    data = read_whole(path)
    if len(data) < _SNAPSHOT_HEAD.size:
        raise CorruptFile(f"Snapshot failed schema validation: {len(data)} bytes")
    version, stored = _SNAPSHOT_HEAD.unpack_from(data)
    if version != _SNAPSHOT_VERSION:
        raise CorruptFile(f"Snapshot contained an unknown file version {version}")
    computed = crc32c(data[_SNAPSHOT_HEAD.size :])
    if stored != computed:
        raise CorruptFile(
            f"Snapshot is corrupt (CRC is no longer valid). Stored crc: {stored}. Computed crc: {computed}"
        )
    try:
        snapshot = ProducerSnapshot.decode(data[2:], version)
    except Malformed as error:
        raise CorruptFile(f"Snapshot failed schema validation: {error}") from error
    for entry in snapshot.producer_entries:
        out(_producer_line(entry))


def _producer_line(entry: ProducerEntry) -> str:
    started = entry.current_txn_first_offset
    line = (
        f"producerId: {entry.producer_id} producerEpoch: {entry.epoch} coordinatorEpoch: {entry.coordinator_epoch} "
        f"currentTxnFirstOffset: {'OptionalLong.empty' if started < 0 else f'OptionalLong[{started}]'} "
        f"lastTimestamp: {entry.timestamp}"
    )
    if entry.last_offset >= 0:
        first_sequence = (entry.last_sequence - entry.offset_delta) % _SEQUENCES
        line += (
            f" firstSequence: {first_sequence} lastSequence: {entry.last_sequence} lastOffset: {entry.last_offset} "
            f"offsetDelta: {entry.offset_delta} timestamp: {entry.timestamp}"
        )
    return line


def dump_checkpoint(path: Path, out: Print) -> None:
    """The text checkpoints, which Apache's tool skips: one entry per line, with named fields."""
    lines = path.read_text("ascii", "replace").splitlines()
    names = ("epoch", "startOffset") if path.name == EPOCH_CHECKPOINT else ("topic", "partition", "offset")
    if len(lines) < 2 or lines[0] != "0" or lines[1] != str(len(lines) - 2):
        raise CorruptFile(f"{path} does not hold the entries that it announces")
    for line in lines[2:]:
        fields = line.split(" ")
        if len(fields) != len(names):
            raise CorruptFile(f"Malformed line in checkpoint file ({path}): {line}")
        out(" ".join(f"{name}: {value}" for name, value in zip(names, fields, strict=True)))
