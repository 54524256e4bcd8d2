"""Dumps files of record batches: segments, and snapshots of the metadata log."""

from __future__ import annotations

import mmap
import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from highwater import kernel
from highwater.cli.record_decoders import Decoder, describe_control
from highwater.kernel import BadRecords, Record
from highwater.wire.compression import BadCompression, Codec
from highwater.wire.records import HEADER_SIZE, Header, is_intact, read_header, section

Print = Callable[[str], None]

BOOTSTRAP_SNAPSHOT = "bootstrap.checkpoint"
MIN_RECORD_OVERHEAD = 14
_UP_TO_MAGIC = 17
_OFFSET_AND_LENGTH = struct.Struct(">qi")
_SEQUENCES = 2**31


class CorruptFile(ValueError):
    """The content does not match the name of the file. The message says where it breaks."""


@dataclass(slots=True)
class DumpOptions:
    print_contents: bool = False
    deep: bool = False
    skip_metadata: bool = False
    max_bytes: int = 2**31 - 1
    decoder: Decoder | None = None


@dataclass(slots=True)
class Findings:
    """What is printed on stderr after all files are done, by file."""

    gaps: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    index_mismatches: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    time_mismatches: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    out_of_order: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    offsets_not_found: dict[str, list[tuple[int, int]]] = field(default_factory=dict)

    def lines(self) -> Iterator[str]:
        for path, pairs in self.index_mismatches.items():
            yield f"Mismatches in :{path}"
            yield from (f"  Index offset: {a}, log offset: {b}" for a, b in sorted(pairs, reverse=True))
        for path, pairs in self.time_mismatches.items():
            yield f"Found timestamp mismatch in :{path}"
            yield from (f"  Index timestamp: {a}, log timestamp: {b}" for a, b in pairs)
        for path, pairs in self.out_of_order.items():
            yield f"Found out of order timestamp in :{path}"
            yield from (f"  Index timestamp: {a}, Previously indexed timestamp: {b}" for a, b in pairs)
        for path, pairs in self.offsets_not_found.items():
            yield f"The following indexed offsets are not found in :{path}"
            yield from (f"Indexed offset: {a}, found log offset: {b}" for a, b in pairs)
        for path, pairs in self.gaps.items():
            yield f"Non-consecutive offsets in {path}"
            yield from (f"  {a} is followed by {b}" for a, b in sorted(pairs))


def read_whole(path: Path) -> memoryview:
    """The bytes of the file, mapped and not loaded."""
    with path.open("rb") as file:
        if path.stat().st_size == 0:
            return memoryview(b"")
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def batches(data: memoryview, path: Path, start: int = 0) -> Iterator[tuple[int, Header]]:
    """The position and header of each whole batch. It ends before a batch that is cut off. Raises CorruptFile."""
    pos = start
    while len(data) - pos >= _UP_TO_MAGIC:
        length: int = _OFFSET_AND_LENGTH.unpack_from(data, pos)[1]
        if length < MIN_RECORD_OVERHEAD:
            raise CorruptFile(
                f"Found record size {length} smaller than minimum record overhead ({MIN_RECORD_OVERHEAD}) "
                f"in file {path}."
            )
        if pos + 12 + length > len(data):
            return
        if data[pos + 16] != 2 or 12 + length < HEADER_SIZE:
            raise CorruptFile(f"No batch of magic 2 at position {pos} of {path} (magic {data[pos + 16]}).")
        header = read_header(data, pos)
        yield pos, header
        pos += header.size


def dump(path: Path, options: DumpOptions, findings: Findings, out: Print) -> None:
    """A segment, or a snapshot of the metadata log. Raises CorruptFile."""
    out(_first_line(path))
    data = read_whole(path)[: options.max_bytes]
    valid = 0
    last_offset = -1
    for pos, header in batches(data, path):
        out(batch_line(header, pos, is_intact(data, pos, header.size)))
        if options.deep:
            for record in _records(data, pos, header, path):
                if record.offset != last_offset + 1:
                    findings.gaps.setdefault(str(path.absolute()), []).append((last_offset, record.offset))
                last_offset = record.offset
                out(record_line(header, record, options))
        valid = pos + header.size
    if len(data) > valid and options.max_bytes == 2**31 - 1:
        out(f"Found {len(data) - valid} invalid bytes at the end of {path.name}")


def _first_line(path: Path) -> str:
    if path.suffix == ".log":
        return f"Log starting offset: {base_offset(path)}"
    if path.name == BOOTSTRAP_SNAPSHOT:
        return "KRaft bootstrap snapshot"
    match = re.fullmatch(r"(\d{20})-(\d{10})\.checkpoint", path.name)
    if match is None:
        raise CorruptFile(f"{path.name} is not the name of a snapshot: offset-epoch.checkpoint")
    return f"Snapshot end offset: {int(match[1])}, epoch: {int(match[2])}"


def base_offset(path: Path) -> int:
    """From the name of a segment's file. Raises CorruptFile."""
    text = path.name.partition(".")[0]
    if not text.isascii() or not text.isdigit():
        raise CorruptFile(f"{path.name} does not begin with an offset")
    return int(text)


def _records(data: memoryview, pos: int, header: Header, path: Path) -> list[Record]:
    try:
        return kernel.iterate(section(header, data[pos : pos + header.size]))
    except (BadRecords, BadCompression) as error:
        raise CorruptFile(f"The batch at position {pos} of {path} cannot be read: {error}") from error


def batch_line(header: Header, position: int, intact: bool) -> str:
    horizon = header.delete_horizon
    return (
        f"baseOffset: {header.base_offset} lastOffset: {header.last_offset} count: {header.record_count} "
        f"baseSequence: {header.base_sequence} lastSequence: {header.last_sequence} "
        f"producerId: {header.producer_id} producerEpoch: {header.producer_epoch} "
        f"partitionLeaderEpoch: {header.leader_epoch} isTransactional: {_java(header.is_transactional)} "
        f"isControl: {_java(header.is_control)} "
        f"deleteHorizonMs: {'OptionalLong.empty' if horizon is None else f'OptionalLong[{horizon}]'} "
        f"position: {position} {_timestamp_type(header)}: {header.max_timestamp} size: {header.size} "
        f"magic: {header.magic} compresscodec: {_codec(header.codec)} crc: {header.crc} isvalid: {_java(intact)}"
    )


def record_line(header: Header, record: Record, options: DumpOptions) -> str:
    parts = []
    if not options.skip_metadata:
        sequence = -1
        if header.base_sequence >= 0:
            sequence = (header.base_sequence + record.offset - header.base_offset) % _SEQUENCES
        parts.append(
            f"| offset: {record.offset} {_timestamp_type(header)}: {record.timestamp} keySize: {_size(record.key)} "
            f"valueSize: {_size(record.value)} sequence: {sequence} "
            f"headerKeys: [{','.join(_readable(key) for key, _ in record.headers)}]"
        )
        if header.is_control:
            parts.append(describe_control(record))
    if options.print_contents and options.decoder is not None and not header.is_control:
        key, value = options.decoder(record)
        prefix = "| " if options.skip_metadata else " "
        if key is not None:
            parts.append(f"{prefix}key: {key}")
            prefix = " "
        if value is not None:
            parts.append(f"{prefix}payload: {value}")
    return "".join(parts)


def _readable(key: str) -> str:
    """Bytes that are not UTF-8 come as surrogates; they are shown as Java shows them."""
    return key.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _size(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _timestamp_type(header: Header) -> str:
    return "LogAppendTime" if header.is_log_append_time else "CreateTime"


def _codec(codec: int) -> str:
    return Codec(codec).name.lower() if codec in Codec.__members__.values() else f"unknown({codec})"


def _java(value: bool) -> str:
    return "true" if value else "false"
