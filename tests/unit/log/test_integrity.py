"""Bytes on their way out of a log: what is not what was written does not pass, however it is cut into pieces."""

from __future__ import annotations

from itertools import pairwise
from pathlib import PurePath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater.log.integrity import FRESH_SECONDS, BatchCheck, Damaged, Freshness
from highwater.log.scan import BadBatch
from highwater.wire import records

PATH = PurePath("/data/orders-0/00000000000000000100.log")
FIRST = 100
EPOCH_BYTES = range(records.header.LEADER_EPOCH_AT, records.header.MAGIC_AT)
"""Not covered by the checksum: a broker writes them when it appends."""


def batches(*sizes: int) -> bytearray:
    data = bytearray()
    offset = FIRST
    for size in sizes:
        batch = records.build([(1, b"key", bytes([value % 251]) * 9, ()) for value in range(size)])
        records.stamp(batch, 0, offset, 7)
        data += batch
        offset += size
    return data


def judged(data: bytes, cuts: list[int], end: int = FIRST + 6, position: int = 0) -> BadBatch | None:
    """What a check says of the bytes, handed to it in pieces."""
    found: list[BadBatch] = []
    check = BatchCheck(PATH, position, FIRST, end, found.append)
    edges = [0, *sorted(cuts), len(data)]
    for start, stop in pairwise(edges):
        if not check.passes(data[start:stop]):
            break
    return found[0] if found else None


INTACT = bytes(batches(1, 2, 3))
CUTS = st.lists(st.integers(0, len(INTACT)), max_size=6)


@given(CUTS)
def test_intact_batches_pass_the_check_in_pieces_of_any_size(cuts: list[int]) -> None:
    assert judged(INTACT, cuts) is None


@given(CUTS, st.integers(0, len(INTACT)))
def test_a_batch_that_is_cut_off_at_the_end_is_not_judged(cuts: list[int], end: int) -> None:
    assert judged(INTACT[:end], [cut for cut in cuts if cut <= end]) is None


@pytest.mark.parametrize("cuts", [[], [3], [70, 75, 80, 140], list(range(len(INTACT)))])
def test_no_flipped_bit_passes(cuts: list[int]) -> None:
    starts = [at for at, _, _ in records.walk(memoryview(INTACT))]
    for at in range(len(INTACT)):
        begin = max(start for start in starts if start <= at)
        if at - begin in EPOCH_BYTES:
            continue
        for bit in range(8):
            flipped = bytearray(INTACT)
            flipped[at] ^= 1 << bit
            # A length that is too large reaches beyond the slice: then nobody has taken the batch for whole.
            unfinished = records.read_header(flipped, begin).size > len(INTACT) - begin
            assert judged(flipped, cuts) is not None or unfinished, (at, bit)


def test_a_bad_batch_is_named_by_its_place_in_the_file() -> None:
    flipped = bytearray(INTACT)
    position, size, _ = list(records.walk(memoryview(INTACT)))[1]
    flipped[position + size - 1] ^= 1
    bad = judged(flipped, [5], position=4096)
    assert bad is not None and bad.position == 4096 + position
    assert str(Damaged(bad)) == f"[Errno 5] damaged at {4096 + position}: its checksum is wrong: '{PATH}'"


def test_intact_batches_in_the_wrong_place_do_not_pass() -> None:
    (first, size, _), _, (last, _, _) = records.walk(memoryview(INTACT))
    repeated = INTACT[first : first + size] * 2
    assert "offsets 100 to 100 where 101 to 105 are due" in str(judged(repeated, []))
    assert "offsets 103 to 105 where 100 to 104 are due" in str(judged(INTACT[last:], [], end=FIRST + 5))


def test_a_batch_without_records_which_compaction_leaves_passes_and_is_checked() -> None:
    empty = bytearray(records.HEADER_SIZE)
    records.HEADER.pack_into(empty, 0, FIRST, records.HEADER_SIZE - 12, 7, 2, 0, 0, 4, 1, 1, 5, 0, 0, 0)
    records.seal(empty, 0, len(empty))
    for cuts in ([], [30], [1, 60]):
        assert judged(empty, cuts) is None
    empty[-1] ^= 1
    for cuts in ([], [30], [1, 60]):
        assert judged(empty, cuts) is not None, "whatever pieces it comes in"


def test_only_what_was_written_a_moment_ago_is_fresh() -> None:
    freshness = Freshness()
    assert not freshness.holds(0, 0, 0.0)
    freshness.written(0, 0, 0.0)
    freshness.written(0, 100, 1.0)
    assert freshness.holds(0, 0, 2 * FRESH_SECONDS) and freshness.holds(0, 100, 2.0)
    assert not freshness.holds(0, 100, 2 * FRESH_SECONDS + 0.1), "nothing was written since"
    freshness.written(0, 200, FRESH_SECONDS + 0.5)
    assert freshness.holds(0, 0, FRESH_SECONDS + 1), "it may have been written just before the mark"
    freshness.written(0, 300, 2 * FRESH_SECONDS + 1)
    assert not freshness.holds(0, 100, 2 * FRESH_SECONDS + 1)
    assert freshness.holds(0, 200, 2 * FRESH_SECONDS + 1) and freshness.holds(1, 0, 2 * FRESH_SECONDS + 1)
    freshness.written(1, 0, 5 * FRESH_SECONDS)
    assert not freshness.holds(0, 300, 5 * FRESH_SECONDS), "there was a pause between the two"
