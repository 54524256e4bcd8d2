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
PIECES = 8
"""The most pieces of one job. The next job begins when the event loop has taken them: records that it does not keep up
with would fill the memory."""
PIECE_BYTES = 1 << 20
"""A piece with more bytes of keys and values is whole, even if its records are few."""


class Loaded(NamedTuple):
    """A record, or the end of a transaction: then `ended` says whether it was committed."""

    key: bytes
    value: bytes | None
    producer_id: int
    ended: bool | None = None


class Piece:
    """Records that the event loop takes together."""

    def __init__(self) -> None:
        self.records: list[Loaded] = []
        self.bytes = 0

    @property
    def room(self) -> int:
        """How many more records it takes."""
        return PIECE - len(self.records) if self.bytes < PIECE_BYTES else 0

    def add(self, record: Loaded) -> None:
        self.records.append(record)
        self.bytes += len(record.key) + len(record.value or b"")


def read_records(
    disk: Disk, segments: Sequence[Segment], start: Offset, end: Offset
) -> Generator[Step, None, tuple[int, Offset]]:
    """A job. Its steps hold the pieces as progress. Returns the number of records, and the offset to read on at: `end`,
    if these were the last."""
    piece, pieces, count = Piece(), 0, 0
    for segment in segments:
        first = segment.locate(start, blocking)
        for batch in () if first is None else scan(segment.file, first.position, 0):
            if batch.header.base_offset >= end:
                break
            following = start
            while following <= batch.header.last_offset:
                following = _read_some(piece, batch.header, batch.data, following)
                if piece.room > 0:
                    continue
                count += len(piece.records)
                pieces += 1
                yield Step(progress=piece.records)
                if pieces == PIECES:
                    return count, min(following, end)
                piece = Piece()
    yield Step(progress=piece.records)
    return count + len(piece.records), end


def _read_some(piece: Piece, header: records.Header, data: memoryview, start: Offset) -> Offset:
    """Adds the next records of the batch to the piece. Returns the offset behind them. However many records the batch
    has, only these are in memory."""
    behind = header.last_offset + 1
    if header.is_control:
        for each in parse_control(data):
            if each.type in (ControlType.COMMIT, ControlType.ABORT):
                piece.add(Loaded(b"", None, header.producer_id, each.type == ControlType.COMMIT))
        return behind
    producer_id = header.producer_id if header.is_transactional else -1
    most = piece.room
    some = records.iterate_some(data, start, most)
    for record in some:
        if record.key is not None:
            piece.add(Loaded(record.key, record.value, producer_id))
    return behind if len(some) < most else some[-1].offset + 1
