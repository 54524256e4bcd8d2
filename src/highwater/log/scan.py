"""Reads the batches of a file in order, in jobs: for recovery, look-up by time, and replay of producers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePath
from typing import NamedTuple

from highwater.log.producer_state import AbortedTransaction, ProducerState
from highwater.wire import records
from highwater.wire.records import HEADER_SIZE, Header
from highwater.wire.records.control import ControlType, marker_epoch, parse_control
from highwater.world import File

CHUNK = 1 << 20


class ScannedBatch(NamedTuple):
    position: int
    header: Header
    data: memoryview


class BadBatch(ValueError):
    """The bytes at `position` are not a whole, intact batch that continues the log. `cut_off`: the file just ends
    there. `goes_back`: the offsets are below the end of the batch before."""

    def __init__(self, path: PurePath, position: int, why: str, cut_off: bool = False, goes_back: bool = False) -> None:
        super().__init__(path, position, why, cut_off, goes_back)  # unchanged, since worker processes pickle it
        self.path = path
        self.position = position
        self.why = why
        self.cut_off = cut_off
        self.goes_back = goes_back

    def __str__(self) -> str:
        return f"at {self.position}: {self.why}"


def scan(
    file: File, position: int, next_offset: int, check: bool = True, below: int | None = None
) -> Iterator[ScannedBatch]:
    """Every batch from `position` to the end of the file. Offsets must rise, and with `check` the checksums must be
    right. No checksum covers the offset of a batch, so offsets must also be less than `below`, if that is known."""
    end = file.size
    chunk = memoryview(b"")
    chunk_at = position
    while position < end:
        within = position - chunk_at
        if within + HEADER_SIZE > len(chunk):
            chunk_at, within, chunk = position, 0, memoryview(file.read(position, min(CHUNK, end - position)))
        if len(chunk) - within < HEADER_SIZE:
            raise BadBatch(file.path, position, f"{len(chunk) - within} bytes are no batch", cut_off=True)
        header = records.read_header(chunk, within)
        size = header.size
        if header.magic != 2 or size < HEADER_SIZE:
            raise BadBatch(file.path, position, f"length {header.length}, magic {header.magic}")
        if position + size > end:
            raise BadBatch(file.path, position, f"{size} bytes announced, {end - position} are left", cut_off=True)
        if within + size > len(chunk):
            chunk_at, within, chunk = (
                position,
                0,
                memoryview(file.read(position, max(size, min(CHUNK, end - position)))),
            )
        data = chunk[within : within + size]
        if len(data) < size:
            raise BadBatch(file.path, position, "the file is shorter than it said")
        if header.base_offset < next_offset or header.last_offset_delta < 0:
            why = f"offset {header.base_offset} where {next_offset} or more is due"
            raise BadBatch(file.path, position, why, goes_back=True)
        if below is not None and header.last_offset >= below:
            raise BadBatch(file.path, position, f"offset {header.base_offset} is too far off")
        if check and not records.is_intact(data):
            raise BadBatch(file.path, position, "its checksum is wrong")
        yield ScannedBatch(position, header, data)
        next_offset = header.next_offset
        position += size


def intact_batch_follows(file: File, position: int, next_offset: int) -> bool:
    """Whether an intact batch begins after `position`. Then the bytes there are damage, and not the end of the log."""
    high = next_offset >> 32
    candidate = re.compile(b"(?=" + re.escape(high.to_bytes(4, "big")) + b".{12}\\x02)", re.DOTALL)
    for window_at in range(position + 1, file.size, CHUNK):
        window = bytes(file.read(window_at, CHUNK + HEADER_SIZE))
        for found in candidate.finditer(window):
            header_bytes = window[found.start() : found.start() + HEADER_SIZE]
            if len(header_bytes) < HEADER_SIZE:
                break
            header = records.read_header(header_bytes)
            at = window_at + found.start()
            if header.size < HEADER_SIZE or at + header.size > file.size or header.base_offset < next_offset:
                continue
            if records.is_intact(memoryview(file.read(at, header.size))):
                return True
    return False


def follow_producer(header: Header, data: memoryview, producers: ProducerState) -> AbortedTransaction | None:
    if header.producer_id < 0:
        return None
    if not header.is_control:
        producers.appended(
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            header.last_sequence,
            header.base_offset,
            header.last_offset,
            header.max_timestamp,
            header.is_transactional,
        )
        return None
    for control in parse_control(data):
        if control.type in (ControlType.ABORT, ControlType.COMMIT):
            return producers.marker_appended(
                header.producer_id,
                header.producer_epoch,
                control.offset,
                header.max_timestamp,
                marker_epoch(control.value),
                aborted=control.type == ControlType.ABORT,
            )
    return None
