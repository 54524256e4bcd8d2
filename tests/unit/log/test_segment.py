"""One segment and the indexes beside it: what is entered when, what is found, and which indexes are believed."""

from __future__ import annotations

import os
from pathlib import Path, PurePath

import pytest

from highwater.log import soundness
from highwater.log.index import TimestampOffset
from highwater.log.peek import blocking
from highwater.log.places import LOCATED_PLACES, RECENT_BATCHES, Place, Places
from highwater.log.producer_state import AbortedTransaction
from highwater.log.scan import BadBatch
from highwater.log.segment import Segment
from highwater.log.soundness import indexes_hold
from highwater.wire import records
from highwater.world.real_disk import RealDisk
from tests.unit.log.bench import batch, settings

BASE = 100
SIZE = len(batch())


def segment_of(directory: Path, *times: int, interval: int = 0) -> Segment:
    """A batch of one record for each time, at offsets from the base on."""
    segment = Segment(RealDisk(), PurePath(directory), BASE, created_ms=7, create=True)
    for number, time in enumerate(times):
        add(segment, BASE + number, time, interval)
    return segment


def add(segment: Segment, offset: int, time: int, interval: int = 0) -> None:
    data = batch(timestamps=[time])
    data[:8] = offset.to_bytes(8, "big")
    segment.append(data, offset, time, interval)


def offset_entries(segment: Segment) -> list[tuple[int, int]]:
    index = segment.offset_index
    return [index.entry(at, blocking) for at in range(index.entries)]


def time_entries(segment: Segment) -> list[TimestampOffset]:
    index = segment.time_index
    return [index.entry(at, blocking) for at in range(index.entries)]


def test_a_batch_is_indexed_once_more_than_the_interval_lies_before_it(tmp_path: Path) -> None:
    segment = segment_of(tmp_path, *range(1, 8), interval=2 * SIZE)
    assert offset_entries(segment) == [(BASE + 3, 3 * SIZE), (BASE + 6, 6 * SIZE)]
    assert time_entries(segment) == [(4, BASE + 3), (7, BASE + 6)]


def test_indexes_that_are_made_anew_are_those_that_were_made(tmp_path: Path) -> None:
    (tmp_path / "anew").mkdir()
    first = segment_of(tmp_path, 3, 1, 5, 5, 2, 9, 4, interval=SIZE)
    anew = Segment(RealDisk(), PurePath(tmp_path / "anew"), BASE, created_ms=7, create=True)
    for number, time in enumerate((3, 1, 5, 5, 2, 9, 4)):
        anew.index_batch(number * SIZE, SIZE, BASE + number, time, SIZE)
    assert offset_entries(anew) == offset_entries(first)
    assert time_entries(anew) == time_entries(first) == [(5, BASE + 2), (9, BASE + 5)]
    assert (anew.largest, anew.first_timestamp) == (first.largest, first.first_timestamp) == ((9, BASE + 5), 3)


def test_the_first_of_several_batches_with_one_time_is_found(tmp_path: Path) -> None:
    segment = segment_of(tmp_path, 5, 5, 4)
    assert segment.largest == (5, BASE)
    segment.close_indexes()
    assert time_entries(segment) == [(5, BASE)]


def test_a_segment_that_is_not_there_is_not_made_by_a_look_at_it(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Segment(RealDisk(), PurePath(tmp_path), BASE, created_ms=7)


def test_a_cut_leaves_what_a_segment_would_be_that_never_had_more(tmp_path: Path) -> None:
    segment = segment_of(tmp_path, 5, 5, 9, interval=10_000)
    cut = segment.plan_cut(2 * SIZE, BASE + 2)
    assert (cut.largest, cut.end) == ((5, BASE), BASE + 2), "of two records with one time, the first counts"
    segment.cut(cut)
    assert (segment.largest, segment.first_timestamp) == ((5, BASE), 5)
    segment.cut(segment.plan_cut(0, BASE))
    assert segment.first_timestamp is None
    add(segment, BASE, 70)
    assert segment.first_timestamp == 70


def test_a_cut_keeps_the_aborted_transactions_that_ended_before_it(tmp_path: Path) -> None:
    segment = segment_of(tmp_path, *range(8))
    aborted = [AbortedTransaction(pid, BASE + 2 * pid, BASE + 2 * pid + 1, BASE) for pid in range(4)]
    for each in aborted:
        segment.aborted.append(each)
    segment.cut(segment.plan_cut(4 * SIZE, BASE + 4))
    assert segment.aborted.entries == aborted[:2]


def test_a_batch_is_found_by_each_of_its_offsets_and_the_next_one_where_there_is_a_gap(tmp_path: Path) -> None:
    segment = segment_of(tmp_path)
    for offset in (BASE, BASE + 5, BASE + 9):
        add(segment, offset, offset)
    found = {offset: segment.locate(offset, blocking) for offset in range(BASE, BASE + 11)}
    assert {offset: at.base_offset - BASE for offset, at in found.items() if at is not None} == {
        BASE + offset: 0 if offset == 0 else 5 if offset <= 5 else 9 for offset in range(10)
    }
    assert found[BASE + 10] is None
    last = found[BASE + 9]
    assert last is not None
    assert last == (2 * SIZE, SIZE, BASE + 9, BASE + 9)


@pytest.mark.parametrize(
    ("length", "delta", "is_refused"), [(49, 0, False), (48, 0, True), (49, -1, True), (0, 0, True)]
)
def test_a_header_of_an_impossible_length_is_refused(tmp_path: Path, length: int, delta: int, is_refused: bool) -> None:
    """A batch is its header of 61 bytes at least, of which the length counts all but the first twelve."""
    segment = segment_of(tmp_path, 1)
    header = bytearray(records.HEADER_SIZE)
    header[:12] = (BASE + 1).to_bytes(8, "big") + length.to_bytes(4, "big")
    header[23:27] = delta.to_bytes(4, "big", signed=True)
    segment.file.append(header)
    if is_refused:
        with pytest.raises(BadBatch, match=f"length {length}, last offset delta {delta}"):
            segment.locate(BASE + 1, blocking)
    else:
        assert segment.locate(BASE + 1, blocking) == (SIZE, 61, BASE + 1, BASE + 1)


@pytest.mark.parametrize(
    ("written", "size", "offset", "time", "is_full"),
    [
        (0, 10_000, 0, 0, False),
        (0, 10, 2**31 - 1, 0, False),
        (0, 10, 2**31, 0, True),
        (1, 1_000 - SIZE, 1, 0, False),
        (1, 1_001 - SIZE, 1, 0, True),
        (1, 10, 2**31 - 1, 0, False),
        (1, 10, 2**31, 0, True),
        (1, 10, 1, 1_090, False),
        (1, 10, 1, 1_091, True),
    ],
)
def test_a_segment_is_full_by_size_by_age_or_by_an_offset_too_far_off(
    tmp_path: Path, written: int, size: int, offset: int, time: int, is_full: bool
) -> None:
    """It began with a batch of time 100; ten of the thousand milliseconds that it may have are jitter."""
    segment = segment_of(tmp_path, *([100] * written), interval=10_000)
    config = settings(segment_bytes=1_000, segment_ms=1_000)
    assert segment.is_full_for(size, BASE + offset, time, config, 10, lambda: 7) is is_full


@pytest.mark.parametrize(("now", "is_full"), [(1_007, False), (1_008, True)])
def test_batches_without_times_are_as_old_as_their_segment(tmp_path: Path, now: int, is_full: bool) -> None:
    segment = segment_of(tmp_path, -1)
    config = settings(segment_ms=1_000)
    assert segment.is_full_for(10, BASE + 1, -1, config, 0, lambda: now) is is_full


def test_a_segment_is_full_with_its_indexes(tmp_path: Path) -> None:
    segment = segment_of(tmp_path, *range(5))
    assert (segment.offset_index.file.size, segment.time_index.file.size) == (32, 48)

    def is_full(index_bytes: int) -> bool:
        return segment.is_full_for(10, BASE + 5, 0, settings(segment_index_bytes=index_bytes), 0, lambda: 7)

    assert not is_full(72)
    assert is_full(71), "the closing entry of the time index would have no room"
    segment.time_index.file.truncate(0)
    assert not is_full(40)
    assert is_full(39), "the offset index has no room"


# Which indexes are believed


def holds(segment: Segment, interval: int = 0) -> bool:
    return indexes_hold(segment, interval)


def test_indexes_as_they_were_written_are_believed(tmp_path: Path) -> None:
    segment = segment_of(tmp_path, 3, 1, 5, 5, 2, 9, 4, interval=SIZE)
    segment.close_indexes()
    assert holds(segment, SIZE)


def test_a_first_segment_without_an_entry_is_believed(tmp_path: Path) -> None:
    segment = Segment(RealDisk(), PurePath(tmp_path), 0, created_ms=7, create=True)
    add(segment, 0, 5, interval=10_000)
    segment.close_indexes()
    assert holds(segment, 10_000)


def test_an_offset_index_that_says_anything_else_is_not_believed(tmp_path: Path) -> None:
    segment = segment_of(tmp_path, *range(1, 8))
    index = segment.offset_index
    whole = bytes(index.file.read(0, index.file.size))
    pack = index.ENTRY.pack
    last = (6, 6 * SIZE)
    for wrong in (
        whole[:-1],
        whole + b"\x00",
        whole[:-8],
        whole[:-8] + pack(5, 6 * SIZE),
        whole[:-8] + pack(6, 5 * SIZE),
        whole[:-8] + pack(6, 6 * SIZE + 1),
        whole[:-8] + pack(6, 7 * SIZE),
        whole[:-8] + pack(6, -1),
        whole[:-8] + pack(7, 6 * SIZE),
        whole + pack(*last),
        pack(-1, 0) + whole,
    ):
        index.file.truncate(0)
        index.file.append(wrong)
        assert not holds(segment), wrong
    index.file.truncate(0)
    index.file.append(whole)
    segment.close_indexes()
    assert holds(segment)


def test_a_time_index_that_says_anything_else_is_not_believed(tmp_path: Path) -> None:
    segment = segment_of(tmp_path, 1, 2, 3, 3, 4)
    segment.close_indexes()
    index = segment.time_index
    whole = bytes(index.file.read(0, index.file.size))
    assert time_entries(segment) == [(2, BASE + 1), (3, BASE + 2), (4, BASE + 4)]
    pack = index.ENTRY.pack
    for wrong in (
        whole[:-1],
        whole + b"\x00",
        whole[:-12],
        whole[:-12] + pack(3, 4),
        whole[:-12] + pack(5, 4),
        whole[:-12] + pack(4, 3),
        whole[:-12] + pack(4, 5),
        whole[:12] + pack(3, 3) + whole[12:24],
        pack(0, -1) + whole,
        pack(9, 0),
    ):
        index.file.truncate(0)
        index.file.append(wrong)
        assert not holds(segment), wrong
    index.file.truncate(0)
    index.file.append(whole)
    assert holds(segment)


def test_indexes_of_what_can_be_no_batch_are_not_believed(tmp_path: Path) -> None:
    segment = segment_of(tmp_path, 1, 2, 3)
    segment.close_indexes()
    path = Path(segment.file.path)
    data = bytearray(path.read_bytes())
    data[SIZE : 2 * SIZE] = bytes(SIZE)
    path.write_bytes(data)
    assert not holds(segment)


@pytest.mark.parametrize("read_whole", [1 << 20, 0])
def test_a_time_beyond_the_last_entry_is_noticed_in_small_segments_and_in_large_ones(
    tmp_path: Path, read_whole: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In large ones as far as batches are indexed."""
    monkeypatch.setattr(soundness, "READ_WHOLE", read_whole)
    segment = segment_of(tmp_path, 1, 2, 3)
    segment.close_indexes()
    assert holds(segment)
    add(segment, BASE + 3, 9)
    add(segment, BASE + 4, 2)
    segment.time_index.file.truncate(2 * 12)
    assert not holds(segment)


def test_a_batch_behind_the_last_entry_that_no_index_was_due_for_is_no_fault(tmp_path: Path) -> None:
    segment = segment_of(tmp_path, 5, 1, 1, interval=10_000)
    segment.close_indexes()
    assert holds(segment, 2 * SIZE)
    assert holds(segment, 2 * SIZE - 1) is False
    segment.time_index.file.truncate(0)
    assert not holds(segment, 10_000), "the largest time is missing"


def test_of_many_entries_some_are_looked_at_and_always_the_last() -> None:
    assert soundness._sample(0) == []
    assert soundness._sample(64) == list(range(64))
    sampled = soundness._sample(1_000)
    assert (sampled[0], sampled[-1]) == (0, 999)
    assert sampled == sorted(set(sampled))
    assert 64 <= len(sampled) <= 70


def test_a_header_that_is_cut_off_has_no_time(tmp_path: Path) -> None:
    segment = segment_of(tmp_path, 5)
    assert soundness.max_timestamp_at(segment, 0) == 5
    with pytest.raises(BadBatch, match="no whole header") as refused:
        soundness.max_timestamp_at(segment, SIZE - records.HEADER_SIZE + 1)
    assert refused.value.cut_off


# Places that readers come for


def test_the_newest_batches_are_found_without_a_look_at_the_disk() -> None:
    places = Places()
    for offset in range(RECENT_BATCHES):
        places.written(offset, Place(0, offset, 1))
    assert places.get(0) == Place(0, 0, 1)
    places.written(RECENT_BATCHES, Place(0, RECENT_BATCHES, 1))
    assert places.get(RECENT_BATCHES) == Place(0, RECENT_BATCHES, 1)
    half = RECENT_BATCHES // 2
    assert (places.get(half - 1), places.get(half)) == (None, Place(0, half, 1))


def test_places_that_were_looked_up_are_kept_and_the_oldest_goes_first() -> None:
    places = Places()
    for offset in range(LOCATED_PLACES):
        places.located(offset, Place(0, offset, 1))
    assert places.get(0) == Place(0, 0, 1)
    places.located(LOCATED_PLACES, Place(0, LOCATED_PLACES, 1))
    assert (places.get(0), places.get(1)) == (None, Place(0, 1, 1))
    places.written(9_999, Place(0, 1, 1))
    places.clear()
    assert (places.get(1), places.get(9_999)) == (None, None)


@pytest.mark.parametrize("kept", range(8))
def test_a_segment_that_is_cut_is_indexed_on_as_one_that_never_had_more(tmp_path: Path, kept: int) -> None:
    (tmp_path / "fresh").mkdir()
    cut = segment_of(tmp_path, *range(1, 8), interval=2 * SIZE)
    cut.cut(cut.plan_cut(kept * SIZE, BASE + kept))
    fresh = segment_of(tmp_path / "fresh", *range(1, kept + 1), interval=2 * SIZE)
    for each in (cut, fresh):
        for number in range(kept, kept + 4):
            add(each, BASE + number, number + 1, 2 * SIZE)
    assert offset_entries(cut) == offset_entries(fresh)
    assert time_entries(cut) == time_entries(fresh)
    assert (cut.first_timestamp, cut.largest) == (fresh.first_timestamp, fresh.largest)


def test_a_file_that_was_cut_since_it_was_opened_is_damaged(tmp_path: Path) -> None:
    segment = segment_of(tmp_path, 1, 2, interval=10_000)
    os.truncate(segment.file.path, 5)
    with pytest.raises(BadBatch, match="the file is shorter than it was"):
        segment.locate(BASE + 1, blocking)


def test_indexes_of_records_without_a_time_are_believed(tmp_path: Path) -> None:
    segment = segment_of(tmp_path, -1, -1, -1)
    segment.close_indexes()
    assert time_entries(segment) == []
    assert indexes_hold(segment, 0)
