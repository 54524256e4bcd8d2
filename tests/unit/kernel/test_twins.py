"""The Cython kernel equals its pure twin: on records, on damaged bytes, in what it gives and in what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.kernel import BadRecords, NewRecord, Section, Wanted, pure
from tests.wire.record_samples import damaged, some_records

pytestmark = pytest.mark.slow

fast = pytest.importorskip("highwater.kernel._fast", reason="the Cython kernel was not built")

INT64 = st.integers(-(2**63), 2**63 - 1)
NAME = st.text(st.characters(codec="utf-8"), max_size=5) | st.just("\udcff\udc80")
FIELD = st.none() | st.binary(max_size=200)
RECORDS = st.lists(
    st.tuples(INT64, FIELD, FIELD, st.lists(st.tuples(NAME, FIELD), max_size=3)), min_size=1, max_size=20
)
SIZE = st.sampled_from((1, 30, 300, 2**40))
WHOLE = Wanted(headers=True)
WANTED = st.builds(Wanted, INT64, INT64, st.booleans(), st.booleans(), st.booleans(), SIZE, SIZE) | st.builds(
    lambda size, rows: WHOLE._replace(batch_bytes=size, batch_rows=rows), SIZE, SIZE
)


def outcome(work: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return work(*arguments)
    except BadRecords:
        return BadRecords


def assert_equal_on(section: Section, random: Random, wanted: Wanted) -> bool:
    """Both twins agree on everything about this section; gives whether its bytes were accepted."""
    read = outcome(pure.iterate, section)
    assert outcome(fast.iterate, section) == read
    rules = (*random.choice(((-(2**63), 2**63 - 1), (0, 1000), (9, 5))), random.random() < 0.5)
    assert outcome(fast.validate_records, section, *rules) == outcome(pure.validate_records, section, *rules)
    sought = (random.choice((0, 1000, 2**40, -(2**63))), random.choice((0, 3, 2**62)))
    assert outcome(fast.find_timestamp, section, *sought) == outcome(pure.find_timestamp, section, *sought)
    start = min(section.base_offset + 1, 2**63 - 1)
    assert outcome(fast.latest, section, start) == outcome(pure.latest, section, start)
    assert outcome(fast.iterate, section, start, 2) == outcome(pure.iterate, section, start, 2)
    ours, theirs = (
        outcome(lambda kernel=kernel: list(kernel.columns([section] * 3, wanted))) for kernel in (fast, pure)
    )
    if theirs is BadRecords:
        assert ours is BadRecords
    else:
        for our, their in zip(ours, theirs, strict=True):
            our.validate(full=True)
            assert our.schema.equals(their.schema) and our.equals(their)
    return read is not BadRecords


@settings(max_examples=300, deadline=None)
@given(RECORDS, INT64, INT64, st.none() | INT64, WANTED, st.randoms(use_true_random=False))
def test_the_twins_agree_on_every_record(
    new: list[NewRecord], base_offset: int, base_timestamp: int, append_time: int | None, wanted: Wanted, random: Random
) -> None:
    data = fast.encode(new, base_timestamp, None, 3)
    assert data == pure.encode(new, base_timestamp, None, 3)
    assert assert_equal_on(Section(data[3:], len(new), base_offset, base_timestamp, append_time), random, wanted)


def test_the_twins_agree_on_damaged_bytes() -> None:
    random = Random(1)
    accepted = {True: 0, False: 0}
    for turn in range(4000):
        if turn % 20 == 0:
            new = some_records(random, random.choice((1, 2, 9)))
            data = bytes(fast.encode(new, new[0][0], None, 0))
        count = random.choice((len(new), len(new), len(new), len(new) + 1, 0, -1, 2**31 - 1))
        base = random.choice((0, 2**63 - 1))
        section = Section(damaged(random, data), count, base, new[0][0], random.choice((None, None, 5)))
        accepted[assert_equal_on(section, random, Wanted(headers=turn % 2 == 0, batch_rows=1 + turn % 5))] += 1
    assert min(accepted.values()) > 300


@given(st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=5))
def test_the_twins_write_the_same_given_offsets(deltas: list[int]) -> None:
    new: list[NewRecord] = [(0, b"k", None, ())] * len(deltas)
    assert fast.encode(new, 0, deltas, 0) == pure.encode(new, 0, deltas, 0)


@pytest.mark.parametrize(
    ("record", "deltas"),
    [((2**63, None, None, ()), None), ((-(2**63) - 1, None, None, ()), None), ((0, None, None, ()), [2**31])],
)
def test_the_twins_refuse_to_write_what_does_not_fit(record: NewRecord, deltas: list[int] | None) -> None:
    for kernel in (fast, pure):
        with pytest.raises(OverflowError):
            kernel.encode([record], 0, deltas, 0)


@pytest.mark.parametrize("field", [5, "text", [1]])
def test_the_twins_refuse_to_write_what_is_not_bytes(field: object) -> None:
    for kernel in (fast, pure):
        with pytest.raises(TypeError):
            kernel.encode([(0, field, None, ())], 0, None, 0)
