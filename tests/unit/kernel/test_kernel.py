"""What the kernel accepts, refuses and finds; each case holds for both implementations."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest

from highwater.kernel import KEY_MISSING, MAX_FAULTS, TIMESTAMP_OUT_OF_RANGE, BadRecords, Record, Section, Wanted, pure

pytestmark = pytest.mark.slow

try:
    from highwater.kernel import _fast

    KERNELS = [pure, _fast]
except ImportError:
    KERNELS = [pure]

ALWAYS = (-(2**63), 2**63 - 1)


@pytest.fixture(params=KERNELS, ids=lambda module: module.__name__.rpartition(".")[2])
def kernel(request: pytest.FixtureRequest) -> ModuleType:
    module: ModuleType = request.param
    return module


def one(body: bytes, length: int | None = None) -> Section:
    """A section of one record with this body and, if it is to lie, this length."""
    return Section(bytes([2 * (len(body) if length is None else length)]) + body, 1, 0, 0)


PLAIN = bytes([0, 0, 0, 1, 1, 0])  # attributes, timestamp, offset, null key, null value, no headers


def test_the_smallest_record_is_seven_bytes(kernel: ModuleType) -> None:
    assert kernel.iterate(one(PLAIN)) == [Record(0, 0, None, None, [])]


BAD = {
    "an empty section that should hold a record": Section(b"", 1, 0, 0),
    "a count that the bytes cannot hold": Section(one(PLAIN).data, 2, 0, 0),
    "a count of two thousand million": Section(one(PLAIN).data, 2**31 - 1, 0, 0),
    "a negative count": Section(one(PLAIN).data, -1, 0, 0),
    "bytes after the last record": Section(bytes(one(PLAIN).data) + b"\0" * 7, 1, 0, 0),
    "bytes without a record": Section(b"\0" * 7, 0, 0, 0),
    "a length beyond the end": one(PLAIN, 7),
    "a length that is too short": one(PLAIN, 5),
    "a length of nothing": one(PLAIN, 0),
    "a negative length": Section(b"\x01" + PLAIN, 1, 0, 0),
    "a length that never ends": Section(b"\x80" * 5 + PLAIN, 1, 0, 0),
    "a body with bytes to spare": one(PLAIN + b"\0"),
    "a key beyond the record": one(bytes([0, 0, 0, 126, 1, 0])),
    "a value beyond the record": one(bytes([0, 0, 0, 1, 126, 0])),
    "a key of two gigabytes": one(b"\0\0\0\xfe\xff\xff\xff\x0f\x01\0"),
    "a negative number of headers": one(bytes([0, 0, 0, 1, 1, 1])),
    "more headers than bytes": one(bytes([0, 0, 0, 1, 1, 6, 0, 1])),
    "two thousand million headers": one(b"\0\0\0\x01\x01\xfe\xff\xff\xff\x0f"),
    "a header without a name": one(bytes([0, 0, 0, 1, 1, 2, 1, 1])),
    "a header value beyond the record": one(bytes([0, 0, 0, 1, 1, 2, 0, 40])),
    "a length that swallows the next record": Section(b"\x1a" + PLAIN + b"\x0c" + PLAIN, 2, 0, 0),
    "a timestamp of eleven bytes": one(b"\0" + b"\xff" * 10 + b"\0" + b"\0\x01\x01\0"),
    "an offset of six bytes": one(b"\0\0" + b"\xff" * 5 + b"\0" + b"\x01\x01\0"),
}


@pytest.mark.parametrize("what", BAD)
def test_it_refuses(kernel: ModuleType, what: str) -> None:
    for work in (
        lambda section: kernel.iterate(section),
        lambda section: kernel.validate_records(section, *ALWAYS, False),
        lambda section: list(kernel.columns([section], Wanted(headers=True))),
        lambda section: kernel.latest(section, 0),
        lambda section: kernel.find_timestamp(section, 2**62, 0),
    ):
        with pytest.raises(BadRecords):
            work(BAD[what])


def test_numbers_longer_than_needed_and_any_negative_length_are_read_as_java_reads_them(kernel: ModuleType) -> None:
    null_as_minus_two = bytes([0, 0, 0, 3, 1, 0])
    assert kernel.iterate(one(null_as_minus_two)) == [Record(0, 0, None, None, [])]
    padded = (
        b"\0" + b"\x82\x80\x00" + b"\x84\x80\x80\x80\x70" + b"\x01\x01\0"
    )  # surplus bits of the fifth byte fall away
    assert kernel.iterate(one(padded)) == [Record(2, 1, None, None, [])]
    wrapping = Section(one(PLAIN[:1] + b"\x02\x02\x01\x01\0").data, 1, 2**63 - 1, 2**63 - 1)
    assert kernel.iterate(wrapping) == [Record(-(2**63), -(2**63), None, None, [])]


def section(kernel: ModuleType, *records: Any, base_offset: int = 0, append_time: int | None = None) -> Section:
    return Section(kernel.encode(records, 0, None, 0), len(records), base_offset, 0, append_time)


def test_offsets_of_a_new_batch_must_be_consecutive(kernel: ModuleType) -> None:
    gapped = Section(kernel.encode([(0, None, None, ())] * 2, 0, [0, 2], 0), 2, 0, 0)
    assert [record.offset for record in kernel.iterate(gapped)] == [0, 2]
    with pytest.raises(BadRecords, match="consecutive"):
        kernel.validate_records(gapped, *ALWAYS, False)


def test_validation_gives_the_largest_timestamp_and_names_each_fault_once(kernel: ModuleType) -> None:
    some = section(kernel, (5, b"k", None, ()), (50, None, None, ()), (500, b"k", None, ()), (-1, b"k", None, ()))
    assert kernel.validate_records(some, 0, 1000, False) == (500, [])
    faults = [(1, KEY_MISSING, 50), (2, TIMESTAMP_OUT_OF_RANGE, 500)]
    assert kernel.validate_records(some, 0, 20, True) == (500, faults)
    assert kernel.validate_records(some._replace(append_time=7), 0, 20, False) == (7, [])
    assert kernel.validate_records(section(kernel, (-9, b"k", None, ())), *ALWAYS, True) == (-1, [])


def test_the_list_of_faults_is_bounded(kernel: ModuleType) -> None:
    many = section(kernel, *[(0, None, None, ())] * (MAX_FAULTS + 5))
    assert len(kernel.validate_records(many, *ALWAYS, True)[1]) == MAX_FAULTS


def test_look_up_by_time_finds_the_first_record_at_or_after_it(kernel: ModuleType) -> None:
    some = section(kernel, *((when, None, None, ()) for when in (10, 30, 20, 30)), base_offset=100)
    assert kernel.find_timestamp(some, 15, 0) == (101, 30)
    assert kernel.find_timestamp(some, 15, 102) == (102, 20)
    assert kernel.find_timestamp(some, 31, 0) is None
    assert kernel.find_timestamp(some, 30, 104) is None
    assert kernel.latest(some, 0) == (101, 30)
    assert kernel.latest(some, 101) == (101, 30)
    assert kernel.latest(some, 102) == (103, 30)
    assert kernel.latest(some, 104) is None
    assert kernel.latest(some._replace(append_time=7), 0) == (100, 7)
    assert kernel.latest(Section(b"", 0, 0, 0), 0) is None


def test_some_records_of_a_section_can_be_read_without_the_others(kernel: ModuleType) -> None:
    some = section(kernel, *((when, b"k", None, ()) for when in range(5)), base_offset=100)
    assert [each.offset for each in kernel.iterate(some)] == [100, 101, 102, 103, 104]
    assert [each.offset for each in kernel.iterate(some, 102)] == [102, 103, 104]
    assert [each.offset for each in kernel.iterate(some, 101, 2)] == [101, 102]
    assert kernel.iterate(some, 105) == []


def test_columns_hold_every_field(kernel: ModuleType) -> None:
    one = section(kernel, (1, b"k", b"v", [("name", b"x"), ("n", None)]), (2, None, None, ()), base_offset=7)
    two = section(kernel, (3, b"", b"", ()), base_offset=9, append_time=2**62)
    (table,) = kernel.columns(iter([one, two]), Wanted(headers=True))
    assert table.schema.field("timestamp").type == pa.timestamp("us", tz="UTC")
    assert table.column("key").to_pylist() == [b"k", None, b""]
    assert table.column("value").to_pylist() == [b"v", None, b""]
    assert table.column("offset").to_pylist() == [7, 8, 9]
    assert table.column("timestamp").cast(pa.int64()).to_pylist() == [1000, 2000, 2**63 - 1]
    assert table.column("timestamp_type").to_pylist() == [0, 0, 1]
    assert table.column("headers").to_pylist() == [
        [{"key": "name", "value": b"x"}, {"key": "n", "value": None}],
        [],
        [],
    ]


def test_columns_are_only_those_wanted_and_rows_only_those_in_range(kernel: ModuleType) -> None:
    some = section(kernel, *((0, b"%d" % i, b"v", ()) for i in range(9)), base_offset=10)
    (table,) = kernel.columns([some], Wanted(start=12, end=15, values=False))
    assert table.schema.names == ["key", "offset", "timestamp", "timestamp_type"]
    assert table.column("key").to_pylist() == [b"2", b"3", b"4"]
    assert list(kernel.columns([], Wanted(headers=True))) == []
    assert list(kernel.columns([some], Wanted(start=100))) == []


def test_header_names_that_are_not_text_survive_a_round_trip_and_become_text_in_columns(kernel: ModuleType) -> None:
    some = section(kernel, (0, None, None, [("\udcff", b"")]))
    (record,) = kernel.iterate(some)
    assert record.headers == [("\udcff", b"")]
    assert kernel.encode([record[1:]], 0, None, 0) == some.data
    (table,) = kernel.columns([some], Wanted(headers=True))
    assert table.column("headers").to_pylist() == [[{"key": "�", "value": b""}]]


def test_columns_are_cut_by_bytes_and_by_rows_wherever_a_section_ends(kernel: ModuleType) -> None:
    some = section(kernel, *((0, b"k", bytes(100), [("h", b"x")]) for _ in range(9)))
    size = len(some.data) // 9
    for wanted, sizes in (
        (Wanted(headers=True, batch_bytes=4 * size), [4, 4, 4, 4, 2]),
        (Wanted(headers=True, batch_bytes=4 * size - 1), [3] * 6),
        (Wanted(headers=True, batch_rows=5), [5, 5, 5, 3]),
        (Wanted(start=2, end=7, batch_rows=5), [5, 5]),
        (Wanted(headers=True, batch_bytes=1), [1] * 18),
        (Wanted(headers=True, batch_bytes=2**62), [18]),
    ):
        batches = list(kernel.columns([some, some], wanted))
        assert [batch.num_rows for batch in batches] == sizes
        rows = [offset for batch in batches for offset in batch.column("offset").to_pylist()]
        assert rows == [*range(max(0, wanted.start), min(9, wanted.end))] * 2
        assert all(batch.column("value").to_pylist() == [bytes(100)] * batch.num_rows for batch in batches)


def test_more_than_arrow_can_address_comes_in_several_batches_of_which_one_is_held(kernel: ModuleType) -> None:
    large = section(kernel, (0, None, bytes(2**27), ()))
    before, rows = pa.total_allocated_bytes(), 0
    for batch in kernel.columns(iter([large] * 20), Wanted()):
        rows += batch.num_rows
        assert pa.total_allocated_bytes() - before < 2**29
        del batch
    assert rows == 20


def test_fields_may_be_any_bytes_like_value(kernel: ModuleType) -> None:
    some = section(kernel, (0, bytearray(b"k"), memoryview(b"-v-")[1:2], [("h", bytearray(b"x"))]))
    assert kernel.iterate(some) == [Record(0, 0, b"k", b"v", [("h", b"x")])]
