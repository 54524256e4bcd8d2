"""Places found by offset and by time, in segments of a few batches."""

from __future__ import annotations

import tracemalloc
from collections.abc import Generator
from pathlib import Path, PurePath
from typing import TypeVar

import pytest

from highwater.log.lookup import Found, first_at_or_after, locate, with_largest_timestamp
from highwater.log.places import Place
from highwater.log.segment import Segment
from highwater.wire.compression import Codec
from highwater.wire.records import build
from highwater.world import Step
from highwater.world.real_disk import RealDisk
from tests.unit.log.bench import batch

T = TypeVar("T")
DISK = RealDisk()
TIMES = [[10, 30, 20], [40, 5], [40, 41, 7], [6]]
"""Of the records of each batch; the first two batches are one segment, the others the next."""


def done(job: Generator[Step, None, T]) -> T:
    while True:
        try:
            next(job)
        except StopIteration as end:
            return end.value


def segments(directory: Path) -> list[Segment]:
    found = [Segment(DISK, PurePath(directory), base, 0, create=True) for base in (0, 5)]
    offset = 0
    for number, times in enumerate(TIMES):
        data = batch([b"v"] * len(times), timestamps=times)
        data[:8] = offset.to_bytes(8, "big")
        data[12:16] = number.to_bytes(4, "big")
        offset += len(times)
        found[number // 2].append(data, offset - 1, max(times), 0)
    return found


@pytest.mark.parametrize(
    ("time", "start", "expected"),
    [
        (0, 0, Found(0, 10, 0)),
        (10, 0, Found(0, 10, 0)),
        (11, 0, Found(1, 30, 0)),
        (30, 2, Found(3, 40, 1)),
        (20, 2, Found(2, 20, 0)),
        (40, 0, Found(3, 40, 1)),
        (40, 4, Found(5, 40, 2)),
        (41, 0, Found(6, 41, 2)),
        (41, 6, Found(6, 41, 2)),
        (41, 7, None),
        (42, 0, None),
        (0, 4, Found(4, 5, 1)),
        (0, 8, Found(8, 6, 3)),
        (0, 9, None),
    ],
)
def test_the_first_record_that_is_not_older_is_found(
    tmp_path: Path, time: int, start: int, expected: Found | None
) -> None:
    assert done(first_at_or_after(DISK, segments(tmp_path), time, start)) == expected


@pytest.mark.parametrize(
    ("start", "expected"),
    [(0, Found(6, 41, 2)), (6, Found(6, 41, 2)), (7, Found(7, 7, 2)), (8, Found(8, 6, 3)), (9, None)],
)
def test_the_first_record_of_the_largest_time_is_found(tmp_path: Path, start: int, expected: Found | None) -> None:
    assert done(with_largest_timestamp(DISK, segments(tmp_path), start)) == expected


def test_of_two_batches_with_one_largest_time_the_first_that_is_left_has_it(tmp_path: Path) -> None:
    """Part of the segment is deleted, so that its batches are looked at."""
    segment = Segment(DISK, PurePath(tmp_path), 0, 0, create=True)
    for offset, time in enumerate((50, 40, 40, 30)):
        data = batch(timestamps=[time])
        data[:8] = offset.to_bytes(8, "big")
        segment.append(data, offset, time, 0)
    assert done(with_largest_timestamp(DISK, [segment], 1)) == Found(1, 40, -1)


def test_a_batch_of_very_many_records_is_not_in_memory_at_once(tmp_path: Path) -> None:
    """Its records take two hundred bytes each as objects, and seven in the batch, which is compressed on top."""
    segment = Segment(DISK, PurePath(tmp_path), 0, 0, create=True)
    times = [7] * 100_000
    segment.append(build([(time, None, None, ()) for time in times], codec=Codec.ZSTD), len(times) - 1, 7, 0)
    tracemalloc.start()
    try:
        assert done(with_largest_timestamp(DISK, [segment], 5)) == Found(5, 7, -1)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def test_of_two_segments_with_one_largest_time_the_first_has_it(tmp_path: Path) -> None:
    (first, second) = segments(tmp_path)
    second.largest = second.largest._replace(timestamp=40)
    assert done(with_largest_timestamp(DISK, [first, second], 0)) == Found(3, 40, 1)
    assert done(with_largest_timestamp(DISK, [], 0)) is None


def test_a_batch_is_found_by_offset_in_the_segment_that_has_it(tmp_path: Path) -> None:
    both = segments(tmp_path)
    sizes = [len(batch([b"v"] * len(times), timestamps=times)) for times in TIMES]
    assert done(locate(DISK, both, 2)) == Place(0, 0, sizes[0])
    assert done(locate(DISK, both, 3)) == Place(0, sizes[0], sizes[1])
    assert done(locate(DISK, both, 8)) == Place(5, sizes[2], sizes[3])
    assert done(locate(DISK, both, 9)) is None
