"""What compaction asks of the kernel, in both twins: the last record of each key, batches without the others."""

from __future__ import annotations

import mmap
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.kernel import BadRecords, NewRecord, Section, pure, pure_keys
from tests.wire.record_samples import damaged, some_records

SEED = bytes(range(16))
PURE = SimpleNamespace(KeyTable=pure_keys.KeyTable, retain=pure_keys.retain, rebased=pure_keys.rebased)
TWINS: list[Any] = [PURE]
try:
    from highwater.kernel import _fast

    TWINS.append(_fast)
except ImportError:
    pass
both = pytest.mark.parametrize("kernel", TWINS, ids=["pure", "cython"][: len(TWINS)])
KEY = st.none() | st.binary(max_size=3) | st.binary(min_size=7, max_size=20)
RECORDS = st.lists(
    st.tuples(st.integers(-(2**63), 2**63 - 1), KEY, st.none() | st.binary(max_size=9), st.just(())),
    min_size=1,
    max_size=30,
)


def section_of(new: list[NewRecord], base_offset: int = 100, base_timestamp: int = 0) -> Section:
    return Section(pure.encode(new, base_timestamp, None, 0), len(new), base_offset, base_timestamp, None)


def record(key: bytes | None, value: bytes | None = b"v", timestamp: int = 5) -> NewRecord:
    return timestamp, key, value, ()


@both
def test_a_table_knows_the_last_offset_of_each_key(kernel: Any) -> None:
    table = kernel.KeyTable(100, SEED)
    assert table.put_all(section_of([record(b"a"), record(b"b"), record(None), record(b"a")]), 0, 90) is None
    assert (table.find(b"a"), table.find(b"b"), table.find(b"c"), table.size) == (103, 101, -1, 2)


@both
def test_records_before_the_start_are_not_taken_in(kernel: Any) -> None:
    table = kernel.KeyTable(100, SEED)
    table.put_all(section_of([record(b"a"), record(b"b")]), 101, 90)
    assert (table.find(b"a"), table.find(b"b")) == (-1, 101)


@both
def test_a_full_table_says_so_and_holds_what_it_took_in(kernel: Any) -> None:
    table = kernel.KeyTable(10, SEED)
    assert table.put_all(section_of([record(str(n).encode()) for n in range(8)]), 0, 5) == 105
    assert [table.find(str(n).encode()) for n in range(6)] == [100, 101, 102, 103, 104, -1]
    with pytest.raises(ValueError, match="empty slot"):
        table.put_all(section_of([record(b"a")]), 0, 10)


@both
def test_all_keys_are_found_in_a_crowded_table(kernel: Any) -> None:
    table = kernel.KeyTable(1000, SEED)
    keys = [n.to_bytes(n % 40 + 2, "big") for n in range(999)]
    assert table.put_all(section_of([record(key) for key in keys], 0), 0, 999) is None
    assert [table.find(key) for key in keys] == list(range(999))


@both
def test_the_last_record_of_a_key_stays_and_keyless_ones_go(kernel: Any) -> None:
    new = [record(b"a", b"1"), record(None), record(b"a", b"2", 9), record(b"b", None, 7)]
    table = kernel.KeyTable(10, SEED)
    table.put_all(section_of(new), 0, 9)
    data, kept, largest, has_tombstone = kernel.retain(section_of(new), table, 103, True, 4)
    left = pure.iterate(Section(data[4:], kept, 100, 0, None))
    assert [(each.offset, each.key, each.value) for each in left] == [(102, b"a", b"2"), (103, b"b", None)]
    assert (largest, has_tombstone) == (9, True)


@both
def test_tombstones_go_when_they_may_and_what_lies_beyond_the_table_stays(kernel: Any) -> None:
    new = [record(b"a", None), record(None), record(b"a", None)]
    table = kernel.KeyTable(10, SEED)
    table.put_all(section_of(new), 0, 9)
    assert kernel.retain(section_of(new), table, 102, False, 0)[1:] == (0, -1, False)
    assert kernel.retain(section_of(new), table, 100, False, 0)[1:] == (2, 5, True)


@both
@settings(max_examples=100, deadline=None)
@given(RECORDS, st.integers(-(2**63), 2**63 - 1))
def test_rebased_records_are_the_same_records(kernel: Any, new: list[NewRecord], base: int) -> None:
    section = section_of(new, base_timestamp=new[0][0])
    moved = kernel.rebased(section, base, 2)
    assert pure.iterate(Section(moved[2:], len(new), 100, base, None)) == pure.iterate(section)


@pytest.mark.skipif(len(TWINS) < 2, reason="the Cython kernel was not built")
@settings(max_examples=200, deadline=None)
@given(RECORDS, RECORDS, st.integers(90, 140), st.integers(90, 140), st.booleans(), st.integers(0, 40))
def test_the_twins_agree(
    first: list[NewRecord], second: list[NewRecord], start: int, latest: int, tombstones: bool, limit: int
) -> None:
    tables = [kernel.KeyTable(50, SEED) for kernel in TWINS]
    later = section_of(second, 100 + len(first))
    assert len({(table.put_all(section_of(first), start, limit), table.size) for table in tables}) == 1
    assert len({(table.put_all(later, start, limit), table.size) for table in tables}) == 1
    for section in (section_of(first), later):
        retained = [k.retain(section, table, latest, tombstones, 3) for k, table in zip(TWINS, tables, strict=True)]
        assert retained[0] == retained[1]


@pytest.mark.skipif(len(TWINS) < 2, reason="the Cython kernel was not built")
def test_the_twins_agree_on_damaged_bytes() -> None:
    random = Random(2)

    def outcome(kernel: Any, section: Section) -> object:
        table = kernel.KeyTable(100, SEED)
        try:
            put = table.put_all(section, 0, 50)
            return put, kernel.retain(section, table, 5, False, 0), bytes(kernel.rebased(section, 7, 0))
        except BadRecords:
            return BadRecords

    accepted = 0
    for turn in range(2000):
        if turn % 20 == 0:
            new = some_records(random, random.choice((1, 2, 9)))
            data = bytes(pure.encode(new, new[0][0], None, 0))
        section = Section(damaged(random, data), len(new), 0, new[0][0], None)
        outcomes = [outcome(kernel, section) for kernel in TWINS]
        assert outcomes[0] == outcomes[1]
        accepted += outcomes[0] is not BadRecords
    assert 100 < accepted < 1900


@both
def test_bytes_that_are_no_records_take_no_memory_for_those_that_their_count_promises(kernel: Any) -> None:
    """So many that what they would need at most does not fit 32 bits; the pages themselves are never touched."""
    size = (1 << 30) + (1 << 20)
    with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as nothing:
        section = Section(memoryview(nothing).toreadonly(), size // 7, 100, 0, None)
        with pytest.raises(BadRecords):
            kernel.rebased(section, 5, 0)
        del section
