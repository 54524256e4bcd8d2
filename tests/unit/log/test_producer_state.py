"""Idempotent producers: the window of five, gaps, epochs, the wrap, expiry and snapshots."""

from __future__ import annotations

import struct

import pytest
from crc32c import crc32c

from highwater.errors import Code, KafkaError
from highwater.log import producer_snapshot
from highwater.log.producer_snapshot import BadSnapshot
from highwater.log.producer_state import MAX_SEQUENCE, AbortedTransaction, BatchSeen, ProducerState

PID = 9


def write(state: ProducerState, sequence: int, count: int = 1, *, epoch: int = 0, at: int | None = None) -> None:
    known = state.producers.get(PID)
    offset = at if at is not None else (known.batches[-1].last_offset + 1 if known and known.batches else 0)
    last = (sequence + count - 1) % (MAX_SEQUENCE + 1)
    state.check(PID, epoch, sequence)
    state.appended(PID, epoch, sequence, last, offset, offset + count - 1, 1000 + offset)


def refused(state: ProducerState, sequence: int, epoch: int = 0) -> Code:
    with pytest.raises(KafkaError) as refusal:
        state.check(PID, epoch, sequence)
    return refusal.value.code


def test_the_last_five_batches_are_recognised_and_answered_with_their_offsets() -> None:
    state = ProducerState()
    for number in range(7):
        write(state, number * 2, 2)
    for number in range(2, 7):
        seen = state.find_duplicate(PID, 0, number * 2, number * 2 + 1)
        assert seen is not None
        assert (seen.first_offset, seen.last_offset) == (number * 2, number * 2 + 1)
    assert state.find_duplicate(PID, 0, 2, 3) is None
    assert state.find_duplicate(PID, 0, 12, 12) is None
    assert state.find_duplicate(PID, 1, 12, 13) is None
    assert refused(state, 2) is Code.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_gap_is_refused_and_an_unknown_producer_may_begin_anywhere() -> None:
    state = ProducerState()
    write(state, 40)
    assert refused(state, 42) is Code.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refused(state, 40) is Code.OUT_OF_ORDER_SEQUENCE_NUMBER
    state.check(PID, 0, 41)


def test_an_older_epoch_is_fenced_and_a_newer_one_begins_at_zero() -> None:
    state = ProducerState()
    write(state, 0, epoch=3)
    assert refused(state, 1, epoch=2) is Code.INVALID_PRODUCER_EPOCH
    assert refused(state, 1, epoch=4) is Code.OUT_OF_ORDER_SEQUENCE_NUMBER
    write(state, 0, epoch=4)
    assert state.find_duplicate(PID, 3, 0, 0) is None
    assert refused(state, 1, epoch=3) is Code.INVALID_PRODUCER_EPOCH


def test_after_a_marker_of_a_new_epoch_data_begins_at_zero() -> None:
    state = ProducerState()
    write(state, 0)
    state.marker_appended(PID, 1, 5, 1000, 0, aborted=True)
    assert refused(state, 7, epoch=1) is Code.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refused(state, 1, epoch=0) is Code.INVALID_PRODUCER_EPOCH, "it is fenced by the marker"
    state.check(PID, 1, 0)


@pytest.mark.parametrize("count", [1, 3])
def test_the_sequence_wraps_to_zero(count: int) -> None:
    assert MAX_SEQUENCE == 2_147_483_647
    state = ProducerState()
    write(state, MAX_SEQUENCE, count)
    assert state.producers[PID].last_sequence == (count - 2) % (MAX_SEQUENCE + 1)
    state.check(PID, 0, count - 1)
    seen = state.find_duplicate(PID, 0, MAX_SEQUENCE, state.producers[PID].last_sequence)
    assert seen is not None


def test_silent_producers_are_forgotten_but_not_inside_a_transaction() -> None:
    state = ProducerState()
    state.appended(1, 0, 0, 0, 0, 0, 1000)
    state.appended(2, 0, 0, 0, 1, 1, 2000)
    state.appended(3, 0, 0, 0, 2, 2, 1000, transactional=True)
    assert state.expire(2999, 1000) == 1
    assert sorted(state.producers) == [2, 3]
    assert state.expire(3000, 1000) == 1


def test_the_last_stable_offset_waits_for_the_marker_to_be_committed() -> None:
    state = ProducerState()
    state.appended(1, 0, 0, 4, 10, 14, 1000, transactional=True)
    state.appended(2, 0, 0, 0, 15, 15, 1000, transactional=True)
    assert state.first_unstable(16) == 10
    assert state.marker_appended(1, 0, 16, 1000, 0, aborted=True) == AbortedTransaction(1, 10, 16, 15)
    assert state.first_unstable(16) == 10
    assert state.first_unstable(17) == 15
    assert state.marker_appended(2, 0, 17, 1000, 0, aborted=False) is None
    assert state.first_unstable(18) is None


def test_a_snapshot_is_kafkas_and_has_an_entry_for_each_of_the_last_batches() -> None:
    """Of a producer's entries Kafka keeps the last one, so that one has what Kafka would have written."""
    state = ProducerState()
    for number in range(3):
        write(state, number * 2, 2)
    state.appended(4, 1, 0, 0, 6, 6, 77, transactional=True)
    state.appended(4, 1, 1, 1, 7, 7, 70, transactional=True)
    state.marker_appended(11, 2, 8, 99, 3, aborted=False)
    data = producer_snapshot.encode(state.producers)
    entries = [
        (4, 1, 0, 6, 0, 70, -1, -1),
        (4, 1, 1, 7, 0, 70, -1, 6),
        (PID, 0, 1, 1, 1, 1000, -1, -1),
        (PID, 0, 3, 3, 1, 1002, -1, -1),
        (PID, 0, 5, 5, 1, 1004, -1, -1),
        (11, 2, -1, -1, 0, 99, 3, -1),
    ]
    body = struct.pack(">i", len(entries)) + b"".join(struct.pack(">qhiqiqiq", *entry) for entry in sorted(entries))
    assert data == struct.pack(">hI", 1, crc32c(body)) + body

    restored = ProducerState()
    restored.restore_all(producer_snapshot.decode(data))
    assert producer_snapshot.encode(restored.producers) == data
    assert {pid: known.batches for pid, known in restored.producers.items()} == {
        4: [seen._replace(timestamp=70) for seen in state.producers[4].batches],
        PID: state.producers[PID].batches,
        11: [],
    }
    assert restored.first_unstable(100) == 6
    restored.check(PID, 0, 6)


def test_an_earlier_batch_is_never_younger_than_the_last_since_kafka_leaves_out_what_is_too_old() -> None:
    """Else Kafka would go on with an earlier batch than the last."""
    state = ProducerState()
    for sequence, timestamp in enumerate([900, 100, 500]):
        state.appended(PID, 0, sequence, sequence, sequence, sequence, timestamp)
    data = producer_snapshot.encode(state.producers)
    stamps = [entry[5] for entry in struct.iter_unpack(">qhiqiqiq", data[10:])]
    assert stamps == [500, 100, 500]


def test_a_snapshot_of_kafkas_has_one_batch_and_one_with_too_many_entries_leaves_the_last_five() -> None:
    def snapshot(*entries: tuple[int, ...]) -> bytes:
        body = struct.pack(">i", len(entries)) + b"".join(struct.pack(">qhiqiqiq", *entry) for entry in entries)
        return struct.pack(">hI", 1, crc32c(body)) + body

    ((_, one),) = producer_snapshot.decode(snapshot((PID, 3, 9, 20, 1, 77, -1, -1)))
    assert one.batches == [BatchSeen(8, 9, 19, 20, 77)]
    many = [(PID, 3 if number > 1 else 2, number, number, 0, 77, -1, -1) for number in range(9)]
    ((_, last),) = producer_snapshot.decode(snapshot(*many))
    assert [seen.last_sequence for seen in last.batches] == [4, 5, 6, 7, 8]
    ((_, renewed),) = producer_snapshot.decode(snapshot(*many[:4]))
    assert [seen.last_sequence for seen in renewed.batches] == [2, 3], "those of an older epoch are forgotten"


def test_a_snapshot_of_a_wrapped_batch_knows_where_it_began() -> None:
    state = ProducerState()
    write(state, MAX_SEQUENCE - 1, 4)
    (_, restored) = producer_snapshot.decode(producer_snapshot.encode(state.producers))[0]
    assert restored.batches[0][:2] == (MAX_SEQUENCE - 1, 1)


def test_every_damaged_byte_of_a_snapshot_is_noticed() -> None:
    state = ProducerState()
    write(state, 0)
    data = producer_snapshot.encode(state.producers)
    for at in range(len(data)):
        with pytest.raises(BadSnapshot):
            producer_snapshot.decode(data[:at])
        with pytest.raises(BadSnapshot):
            producer_snapshot.decode(data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :])


def test_a_producer_is_as_young_as_its_last_marker() -> None:
    state = ProducerState()
    write(state, 0)
    state.marker_appended(PID, 0, 9, 77_777, 1, aborted=False)
    assert state.producers[PID].timestamp == 77_777
    assert state.producers[PID].coordinator_epoch == 1


def test_a_transaction_begins_with_its_first_batch_even_at_offset_zero() -> None:
    state = ProducerState()
    for number in range(3):
        state.appended(PID, 0, number, number, number, number, 5, True)
    assert state.producers[PID].txn_first_offset == 0
    assert state.first_unstable(3) == 0
    aborted = state.marker_appended(PID, 0, 3, 5, 1, aborted=True)
    assert aborted == (PID, 0, 3, 4)
    assert state.first_unstable(3) == 0, "its marker is not committed yet"
    assert state.first_unstable(4) is None


def test_a_snapshot_stays_unchanged_while_its_producers_write_more() -> None:
    state = ProducerState()
    write(state, 0)
    for again in range(3):
        snapshot = state.snapshot()
        before = producer_snapshot.encode(snapshot)
        write(state, 1 + again)
        state.appended(PID + 1 + again, 0, 0, 0, 100 + again, 100 + again, 2000)
        assert producer_snapshot.encode(snapshot) == before
    snapshot = state.snapshot()
    before = producer_snapshot.encode(snapshot)
    state.marker_appended(PID, 1, 200, 3000, 0, aborted=False)
    assert producer_snapshot.encode(snapshot) == before
    assert producer_snapshot.encode(state.snapshot()) != before


def test_a_snapshot_of_very_many_producers_copies_none_of_them() -> None:
    state = ProducerState()
    for pid in range(10):
        state.appended(pid, 0, 0, 0, pid, pid, 1000)
    assert all(each is state.producers[pid] for pid, each in state.snapshot().items())
