"""What is skipped is not looked at, and the rest of its batch and range is read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater.client.client import Client
from highwater.client.fetched import Fetched
from highwater.kernel import BadRecords
from highwater.model import TopicPartition
from highwater.pipeline import fetching
from highwater.pipeline.ranges import OffsetRange, Skipped, left
from highwater.pipeline.reading import Columns, Reading, read_with
from highwater.pipeline.skipping import unreadable
from highwater.pipeline.work_orders import from_batch, to_batch
from highwater.wire.records import build, stamp

RANGE = OffsetRange("orders", "an-id", 0, 0, 30)
READING = Reading("nowhere:1")


def log_of(*damaged: int) -> bytes:
    """Three batches of ten records; the last byte of some is turned."""
    found = b""
    for number in range(3):
        batch = bytearray(build([(0, None, b"%d" % (10 * number + each), ()) for each in range(10)]))
        stamp(batch, 0, 10 * number, 1)
        if number in damaged:
            batch[-1] ^= 0xFF
        found += bytes(batch)
    return found


def fetched_of(data: bytes) -> Fetched:
    return Fetched(TopicPartition("orders", 0), 0, 30, 30, 30, 0, memoryview(data))


class OneFetch:
    """Stands in for the fetches of a range: one answer has all of it."""

    data = b""

    def __init__(self, *_: object) -> None:
        pass

    def fetched(self) -> Iterator[Fetched]:
        yield fetched_of(self.data)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> object:
    monkeypatch.setattr(fetching, "RangeFetch", OneFetch)

    def act(data: bytes, *skipped: Skipped) -> list[int]:
        OneFetch.data = data
        reading = Reading("nowhere:1", skipped=skipped)
        batches = read_with(cast("Client", None), reading, RANGE, Columns())
        return [int(value) for batch in batches for value in batch.column("value").to_pylist()]

    return act


def test_a_batch_with_a_wrong_checksum_stops_a_reader_until_it_is_skipped(read) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(BadRecords, match="checksum"):
        read(log_of(1))
    assert read(log_of(1), Skipped("orders", "an-id", 0, 10, 20)) == [*range(10), *range(20, 30)]


def test_a_record_is_skipped_alone_where_its_batch_can_be_read(read) -> None:  # type: ignore[no-untyped-def]
    assert read(log_of(), Skipped("orders", "an-id", 0, 13, 14)) == [each for each in range(30) if each != 13]


@pytest.mark.parametrize("other", [("orders", "an-id", 1), ("orders", "another", 0), ("others", "an-id", 0)])
def test_a_skip_of_another_log_leaves_this_one_alone(read, other: tuple[str, str, int]) -> None:  # type: ignore[no-untyped-def]
    assert read(log_of(), Skipped(*other, 13, 14)) == [*range(30)]


def test_of_a_batch_that_cannot_be_read_the_whole_is_found() -> None:
    found = unreadable(fetched_of(log_of(1)), 13)
    assert found is not None
    assert found[:2] == (10, 20)
    assert "checksum" in found[2]
    assert unreadable(fetched_of(log_of(1)), 3) is None


BOUNDS = st.tuples(st.integers(0, 50), st.integers(0, 50)).map(lambda bounds: (min(bounds), max(bounds)))


@given(st.integers(0, 50), st.integers(0, 50), st.lists(BOUNDS, max_size=5))
def test_what_is_left_is_all_that_is_in_no_hole(start: int, end: int, bounds: list[tuple[int, int]]) -> None:
    holes = [Skipped("t", "", 0, begin, stop) for begin, stop in bounds]
    kept = [offset for begin, stop in left(start, end, holes) for offset in range(begin, stop)]
    skipped = {offset for begin, stop in bounds for offset in range(begin, stop)}
    assert kept == [offset for offset in range(start, end) if offset not in skipped]


def test_a_work_order_says_what_to_skip() -> None:
    reading = Reading("nowhere:1", skipped=(Skipped("orders", "an-id", 0, 13, 14),))
    [order] = from_batch(to_batch([RANGE], reading))
    assert asdict(order.reading) == asdict(reading)
    assert hash(order.reading) == hash(reading), "tasks share connections by it"
