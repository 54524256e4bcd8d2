"""The bytes of the indexes, and the searches in them."""

from __future__ import annotations

import struct
from pathlib import Path, PurePath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater.log.index import NO_TIMESTAMP, OffsetIndex, TimeIndex, TimestampOffset, TransactionIndex
from highwater.log.peek import blocking
from highwater.log.producer_state import AbortedTransaction
from highwater.world.real_disk import RealDisk

BASE = 1000


def offset_index(directory: Path, entries: list[tuple[int, int]]) -> OffsetIndex:
    index = OffsetIndex(RealDisk().open(PurePath(directory / "x.index"), create=True), BASE)
    for offset, position in entries:
        index.append(offset, position)
    return index


def test_the_offset_index_has_kafkas_bytes(tmp_path: Path) -> None:
    offset_index(tmp_path, [(1005, 0), (1100, 4200)])
    assert (tmp_path / "x.index").read_bytes() == struct.pack(">iiii", 5, 0, 100, 4200)


def test_the_time_index_has_kafkas_bytes_and_only_times_that_rise(tmp_path: Path) -> None:
    index = TimeIndex(RealDisk().open(PurePath(tmp_path / "x.timeindex"), create=True), BASE)
    for entry in ((50, 1003), (50, 1004), (49, 1005), (60, 1009)):
        index.maybe_append(TimestampOffset(*entry))
    assert (tmp_path / "x.timeindex").read_bytes() == struct.pack(">qiqi", 50, 3, 60, 9)
    assert index.last == (60, 1009)
    assert [index.floor(when, blocking) for when in (0, 50, 51, 60, 61)] == [BASE, BASE, 1003, 1003, 1009]
    assert index.entries_below(1009, blocking) == 1
    index.keep(0, NO_TIMESTAMP)
    index.maybe_append(TimestampOffset(10, 1001))
    assert (tmp_path / "x.timeindex").read_bytes() == struct.pack(">qi", 10, 1)


def test_the_transaction_index_has_kafkas_bytes(tmp_path: Path) -> None:
    path = PurePath(tmp_path / "x.txnindex")
    index = TransactionIndex(RealDisk(), path)
    assert not Path(path).exists()
    entries = [AbortedTransaction(7, 10, 20, 15), AbortedTransaction(8, 15, 25, 26)]
    for entry in entries:
        index.append(entry)
    data = Path(path).read_bytes()
    assert data == struct.pack(">hqqqqhqqqq", 0, 7, 10, 20, 15, 0, 8, 15, 25, 26)
    assert TransactionIndex.decode(data) == entries
    for bad in (b"", data[:-1], bytes(34 * 2), data[34:] + data[:34], b"\1" * 34):
        with pytest.raises(ValueError):
            TransactionIndex.decode(bad)
    index.keep(1)
    assert Path(path).read_bytes() == data[:34]


@given(st.lists(st.integers(1, 50), max_size=40), st.integers(-5, 1500))
def test_the_floor_is_the_last_entry_at_or_before(steps: list[int], offset: int) -> None:
    import tempfile

    entries = [(BASE + sum(steps[: at + 1]), 70 * at) for at in range(len(steps))]
    with tempfile.TemporaryDirectory() as directory:
        index = offset_index(Path(directory), entries)
        asked = BASE + offset
        assert index.floor(asked, blocking) == max((p for o, p in entries if o <= asked), default=0)
        assert index.entries_below(asked, blocking) == sum(1 for o, _ in entries if o < asked)


def test_a_search_begins_at_the_first_entry_that_is_not_beyond(tmp_path: Path) -> None:
    index = offset_index(tmp_path, [(1005, 300), (1100, 4200)])
    assert [index.floor(offset, blocking) for offset in (1000, 1004, 1005, 1099, 1100, 9999)] == [
        0,
        0,
        300,
        300,
        4200,
        4200,
    ]
    assert [index.entries_below(offset, blocking) for offset in (1005, 1006, 1100, 1101)] == [0, 1, 1, 2]


def test_no_timestamp_is_what_kafka_has_for_it() -> None:
    assert NO_TIMESTAMP == (-1, -1)


@pytest.mark.parametrize("entries", range(9))
def test_every_entry_is_found_whatever_their_number(tmp_path: Path, entries: int) -> None:
    index = TimeIndex(RealDisk().open(PurePath(tmp_path / "x.timeindex"), create=True), BASE)
    offsets = offset_index(tmp_path, [(BASE + 10 * at, 100 * at) for at in range(1, entries + 1)])
    for at in range(1, entries + 1):
        index.maybe_append(TimestampOffset(10 * at, BASE + 5 * at))
    for when in range(10 * entries + 12):
        below = max((at for at in range(entries + 1) if 10 * at < when or at == 0), default=0)
        assert index.floor(when, blocking) == BASE + 5 * below
        found = max(at for at in range(entries + 1) if 10 * at <= when)
        assert offsets.floor(BASE + when, blocking) == 100 * found
        assert offsets.entries_below(BASE + when, blocking) == sum(10 * at < when for at in range(1, entries + 1))
        assert index.entries_below(BASE + when, blocking) == sum(5 * at < when for at in range(1, entries + 1))
