"""Reads the records of a partition off the event loop, piece by piece."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import NamedTuple

from highwater.log.peek import blocking
from highwater.log.scan import scan
from highwater.log.segment import Segment
from highwater.model import Offset
from highwater.wire import records
from highwater.wire.records.control import ControlType, parse_control
from highwater.world import Disk, Step

PIECE = 500
"""The number of records that the event loop takes at a time."""


class Loaded(NamedTuple):
    """A record, or the end of a transaction: then `ended` says whether it was committed."""

    key: bytes
    value: bytes | None
    producer_id: int
    ended: bool | None = None


def read_records(disk: Disk, segments: Sequence[Segment], start: Offset, end: Offset) -> Generator[Step, None, int]:
    """A job. Its steps hold the pieces as progress. Returns the number of records."""
    piece: list[Loaded] = []
    count = 0
    for segment in segments:
        first = segment.locate(start, blocking)
        for batch in () if first is None else scan(segment.file, first.position, 0):
            header = batch.header
            if header.base_offset >= end:
                break
            piece += _loaded(header, batch.data, start)
            if len(piece) >= PIECE:
                count += len(piece)
                yield Step(progress=piece)
                piece = []
    yield Step(progress=piece)
    return count + len(piece)


def _loaded(header: records.Header, data: memoryview, start: Offset) -> list[Loaded]:
    if header.is_control:
        return [
            Loaded(b"", None, header.producer_id, each.type == ControlType.COMMIT)
            for each in parse_control(data)
            if each.type in (ControlType.COMMIT, ControlType.ABORT)
        ]
    producer_id = header.producer_id if header.is_transactional else -1
    return [
        Loaded(record.key, record.value, producer_id)
        for record in records.iterate(data)
        if record.key is not None and record.offset >= start
    ]
