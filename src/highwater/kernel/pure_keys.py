"""The kernel's part of compaction in plain Python. `_fast` must give equal results."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b

from highwater.kernel.contract import Section
from highwater.kernel.pure import _parsed, _put_varint, _Span, _varint, _varlong, _wrapped


class KeyTable:
    """The last offset of each key. A key is known by 16 bytes of a keyed hash: keys with equal hashes count as
    equal."""

    def __init__(self, slots: int, seed: bytes) -> None:
        if slots < 2 or len(seed) != 16:
            raise ValueError("a table has two slots or more, and a seed of 16 bytes")
        self.slots = slots
        self._seed = seed
        self._offsets: dict[bytes, int] = {}

    @property
    def size(self) -> int:
        return len(self._offsets)

    def _digest(self, key: bytes | memoryview) -> bytes:
        return blake2b(key, digest_size=16, key=self._seed).digest()

    def find(self, key: bytes | memoryview) -> int:
        """-1 if the key is not known."""
        return self._offsets.get(self._digest(key), -1)

    def put_all(self, section: Section, start: int, limit: int) -> int | None:
        """Takes in every record with a key from offset `start` on. Returns the offset of the first record for which
        there was no room, because `limit` keys were in the table."""
        if limit >= self.slots:
            raise ValueError("a table must keep an empty slot")
        data = memoryview(section.data)
        for delta, _, key, _, _, _ in _parsed(section):
            offset = _wrapped(section.base_offset + delta)
            if key[1] < 0 or offset < start:
                continue
            if self.size >= limit:
                return offset
            self._offsets[self._digest(data[key[0] : key[0] + key[1]])] = offset
        return None


def retain(
    section: Section, table: KeyTable, latest: int, tombstones: bool, reserve: int
) -> tuple[bytearray, int, int, bool]:
    """Removes records without a key, and records for whose key the table has a later offset. Records beyond `latest`,
    the end of the table, stay; tombstones stay if `tombstones` allows it. Returns the section after `reserve` zero
    bytes, the number of records in it, their largest timestamp, and whether a tombstone is among them."""
    data = memoryview(section.data)
    out = bytearray(reserve)
    kept, largest, has_tombstone = 0, -1, False
    for (begin, end), (delta, timestamp, key, value, _, _) in zip(_extents(section), _parsed(section), strict=True):
        offset = _wrapped(section.base_offset + delta)
        if offset <= latest:
            superseded = key[1] < 0 or offset < table.find(data[key[0] : key[0] + key[1]])
            if superseded or (value[1] < 0 and not tombstones):
                continue
        out += data[begin:end]
        kept += 1
        largest = max(largest, timestamp)
        has_tombstone = has_tombstone or value[1] < 0
    return out, kept, largest, has_tombstone


def rebased(section: Section, base_timestamp: int, reserve: int) -> bytearray:
    """The same records after `reserve` zero bytes, with timestamps relative to another base."""
    data = memoryview(section.data)
    out = bytearray(reserve)
    for begin, end in _extents(section):
        _, body = _varint(data, begin, end)
        delta, rest = _varlong(data, body + 1, end)
        moved = bytearray(data[body : body + 1])
        _put_varint(moved, _wrapped(delta + section.base_timestamp - base_timestamp))
        moved += data[rest:end]
        _put_varint(out, len(moved))
        out += moved
    return out


def _extents(section: Section) -> Iterator[_Span]:
    """The start and the end of each record, after all were checked to be well-formed."""
    for _ in _parsed(section):
        pass
    data = memoryview(section.data)
    end = 0
    for _ in range(section.record_count):
        begin = end
        size, body = _varint(data, begin, len(data))
        end = body + size
        yield begin, end
