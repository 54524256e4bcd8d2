"""What of a batch stays, how long, and what is kept of transactions: by example, without a log."""

from __future__ import annotations

import pytest

from highwater.kernel import KeyTable
from highwater.log.compaction.rewrite import CleaningProgress
from highwater.log.compaction.thinning import LastWritten, Thinning
from highwater.log.compaction.transactions import CleanedTransactions
from highwater.log.producer_state import AbortedTransaction
from highwater.wire import records
from highwater.wire.records import HEADER_SIZE
from highwater.wire.records.control import ControlType


def header_of(pid: int, offset: int = 0, *, transactional: bool) -> records.Header:
    rows = [(0, b"k", b"v", ())]
    data = records.build(rows, producer_id=pid, producer_epoch=0, base_sequence=0, transactional=transactional)
    return records.read_header(data)._replace(base_offset=offset)


def test_a_batch_outside_a_transaction_leaves_its_producers_marker_nothing_to_decide() -> None:
    cleaned = CleanedTransactions([])
    assert not cleaned.data_met(header_of(7, transactional=False))
    assert cleaned.marker_met(header_of(7, 1, transactional=True), ControlType.COMMIT)
    assert not cleaned.data_met(header_of(7, 2, transactional=True))
    assert not cleaned.marker_met(header_of(7, 3, transactional=True), ControlType.COMMIT)
    assert cleaned.marker_met(header_of(7, 4, transactional=True), ControlType.COMMIT)
    assert cleaned.take_kept() == []


def test_an_aborted_transaction_is_named_as_long_as_data_of_it_is_there() -> None:
    with_data, without = AbortedTransaction(7, 0, 1, 0), AbortedTransaction(7, 3, 4, 3)
    cleaned = CleanedTransactions([without, with_data])
    assert cleaned.data_met(header_of(7, 0, transactional=True))
    assert not cleaned.marker_met(header_of(7, 1, transactional=True), ControlType.ABORT)
    assert not cleaned.data_met(header_of(7, 2, transactional=False))
    assert cleaned.marker_met(header_of(7, 4, transactional=True), ControlType.ABORT)
    assert cleaned.take_kept() == [with_data]
    assert cleaned.take_kept() == []


@pytest.mark.parametrize("aborted", [True, False])
@pytest.mark.parametrize("must_stay", [True, False])
def test_a_batch_that_holds_a_producers_sequence_stays_as_its_header(aborted: bool, must_stay: bool) -> None:
    """Of an aborted transaction, or emptied before."""
    rows = [(0, b"k", b"v", ())]
    data = records.build(rows, producer_id=7, producer_epoch=0, base_sequence=0, transactional=aborted)
    transactions = CleanedTransactions([AbortedTransaction(7, 0, 1, 0)] if aborted else [])
    last = {7: LastWritten(0, 0)} if must_stay else {}
    thin = Thinning(KeyTable(8, bytes(16)), 0, 0, 0, last, transactions)
    header = records.read_header(data)
    if not aborted:
        left = Thinning(KeyTable(8, bytes(16)), 0, 0, 0, {7: LastWritten(0, 0)}, transactions)
        emptied = left(header._replace(record_count=0), memoryview(data)[:HEADER_SIZE], False)
        assert emptied is not None
        header = records.read_header(emptied)
        data = bytearray(emptied)
    kept = thin(header, memoryview(data), False)
    if must_stay:
        assert kept is not None and len(kept) == HEADER_SIZE
        assert records.read_header(kept).record_count == 0
        assert records.read_header(kept).last_offset == 0
    else:
        assert kept is None


def test_a_marker_that_was_emptied_before_decides_nothing() -> None:
    cleaned = CleanedTransactions([])
    cleaned.data_met(header_of(7, transactional=True))
    assert cleaned.marker_met(header_of(7, 1, transactional=True), None)
    assert not cleaned.marker_met(header_of(7, 2, transactional=True), ControlType.COMMIT)


def marker_of(kind: ControlType, pid: int = 7) -> bytearray:
    return records.build_marker(kind, timestamp=5, producer_id=pid, producer_epoch=0, coordinator_epoch=1)


def thinned(batch: bytearray, now_ms: int, *, retention_ms: int = 10, met: bool = False) -> bytearray | None:
    """What is left of a batch in a log of which nothing else is known."""
    transactions = CleanedTransactions([])
    if met:
        transactions.data_met(header_of(7, transactional=True))
    thin = Thinning(KeyTable(8, bytes(16)), 0, now_ms, retention_ms, {}, transactions)
    left = thin(records.read_header(batch), memoryview(batch), False)
    return None if left is None else bytearray(left)


def test_a_marker_is_kept_as_long_as_it_decides_and_then_until_its_horizon() -> None:
    marker = marker_of(ControlType.COMMIT)
    assert thinned(marker, 100, met=True) == marker
    begun = thinned(marker, 100)
    assert begun is not None
    assert records.read_header(begun).delete_horizon == 110
    assert thinned(begun, 109) == begun
    assert thinned(begun, 110) is None


def test_a_tombstone_is_kept_until_its_horizon_and_not_at_it() -> None:
    tombstone = records.build([(5, b"k", None, ())])
    begun = thinned(tombstone, 100)
    assert begun is not None
    assert records.read_header(begun).delete_horizon == 110
    assert thinned(begun, 109) == begun
    assert thinned(begun, 110) is None


def test_a_cleaning_begins_with_nothing_done() -> None:
    assert CleaningProgress() == (0, 0, 0)


def test_a_retention_beyond_the_end_of_time_is_one_for_ever() -> None:
    begun = thinned(records.build([(5, b"k", None, ())]), 100, retention_ms=2**63)
    assert begun is not None
    assert records.read_header(begun).delete_horizon == 2**63 - 1


@pytest.mark.parametrize(("epoch", "is_kept"), [(0, True), (1, False)])
def test_the_marker_that_holds_a_producers_epoch_stays_as_its_header(epoch: int, is_kept: bool) -> None:
    begun = thinned(marker_of(ControlType.COMMIT), 100)
    assert begun is not None
    thin = Thinning(KeyTable(8, bytes(16)), 0, 200, 10, {7: LastWritten(None, epoch)}, CleanedTransactions([]))
    left = thin(records.read_header(begun), memoryview(begun), False)
    assert (left is not None) is is_kept
    if left is not None:
        assert (len(left), records.read_header(left).record_count) == (HEADER_SIZE, 0)
