"""Batches: their header, walking over them, stamping, control records, time look-ups and columns."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pyarrow as pa
import pytest

from highwater.kernel.contract import BATCH_BYTES, BATCH_ROWS
from highwater.wire import compression, records
from highwater.wire.records import BadRecords, ControlType, Record
from tests.wire.locks import CountedLock
from tests.wire.record_samples import CODECS, damaged, some_records


def filled(count: int, base_offset: int = 0, **options: int | bool | None) -> bytearray:
    new = [(1000 + i, b"k%d" % i, b"v", ()) for i in range(count)]
    return records.build(new, base_offset=base_offset, **options)  # type: ignore[arg-type]


def test_the_header_says_what_the_batch_was_built_with() -> None:
    batch = filled(
        3, 50, codec=4, leader_epoch=6, producer_id=7, producer_epoch=8, base_sequence=2**31 - 2, transactional=True
    )
    header = records.read_header(batch)
    assert records.HEADER_SIZE == 61
    assert header.size == len(batch)
    assert (header.base_offset, header.last_offset, header.next_offset, header.record_count) == (50, 52, 53, 3)
    assert (header.leader_epoch, header.magic, header.codec) == (6, 2, 4)
    assert (header.base_timestamp, header.max_timestamp) == (1000, 1002)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 8, 2**31 - 2)
    assert header.last_sequence == 0, "sequences wrap"
    assert header.is_transactional and header.has_producer_id and not header.is_control
    assert not header.is_log_append_time and header.delete_horizon is None


def test_a_batch_without_a_producer_has_no_last_sequence() -> None:
    assert records.read_header(filled(9)).last_sequence == -1


@pytest.mark.parametrize("codec", CODECS)
def test_records_come_back_in_every_codec(codec: str) -> None:
    new = some_records(Random(1), 300)
    batch = records.build(new, codec=CODECS[codec], base_offset=5)
    assert records.is_intact(batch)
    assert records.iterate(batch) == [Record(5 + i, *record) for i, record in enumerate(new)]  # type: ignore[arg-type]


def test_offsets_with_gaps_and_a_time_set_by_the_broker_are_kept() -> None:
    batch = records.build(
        [(1, b"a", b"", ()), (2, b"b", b"", ())], offset_deltas=[3, 9], base_offset=10, log_append_time=77
    )
    assert [(r.offset, r.timestamp) for r in records.iterate(batch)] == [(13, 77), (19, 77)]
    assert records.read_header(batch).last_offset == 19


def test_an_empty_batch_that_compaction_left_behind_has_no_records() -> None:
    header = records.read_header(filled(3))._replace(record_count=0, length=49)
    assert records.iterate(records.HEADER.pack(*header)) == []
    assert records.iterate(records.HEADER.pack(*header._replace(attributes=1))) == []


@pytest.mark.parametrize("length", [48, 50, -1, 2**31 - 1])
def test_less_than_a_whole_batch_is_refused_even_if_it_counts_no_records(length: int) -> None:
    header = records.read_header(filled(3))._replace(record_count=0, length=length)
    with pytest.raises(BadRecords):
        records.iterate(records.HEADER.pack(*header))
    with pytest.raises(BadRecords):
        records.iterate(records.HEADER.pack(*header)[:60])


def test_a_batch_needs_a_record() -> None:
    with pytest.raises(ValueError, match="needs a record"):
        records.build([])


def test_walking_gives_each_whole_batch_and_stops_before_one_that_is_cut_off() -> None:
    parts = [filled(2, 0), filled(3, 2), filled(1, 5)]
    data = b"".join(parts)
    starts = [0, len(parts[0]), len(parts[0]) + len(parts[1])]
    assert [(pos, size) for pos, size, _ in records.walk(data)] == list(zip(starts, map(len, parts), strict=True))
    for cut in range(starts[2], len(data)):
        assert [header.base_offset for _, _, header in records.walk(data[:cut])] == [0, 2]
    assert [header.base_offset for _, _, header in records.walk(data, starts[1])] == [2, 5]
    assert records.end_offset(data) == 6
    assert records.end_offset(data[:70]) is None


@pytest.mark.parametrize(
    ("field", "value"), [("magic", 1), ("magic", 3), ("length", 48), ("length", 0), ("length", -1)]
)
def test_walking_stops_hard_where_no_batch_can_begin(field: str, value: int) -> None:
    batch = filled(1)
    records.HEADER.pack_into(batch, 0, *records.read_header(batch)._replace(**{field: value}))
    with pytest.raises(BadRecords):
        list(records.walk(batch))


def test_stamping_leaves_the_checksum_right_and_all_else_alone() -> None:
    data = bytearray(filled(1)) + filled(2)
    before = bytes(data)
    records.stamp(data, len(filled(1)), 1234, 56)
    (_, _, first), (pos, size, second) = records.walk(data)
    assert (first.base_offset, second.base_offset, second.leader_epoch) == (0, 1234, 56)
    assert records.is_intact(data, pos, size)
    changed = [i - pos for i, (a, b) in enumerate(zip(before, data, strict=True)) if a != b]
    assert set(changed) <= {*range(8), *range(12, 16)}


def test_a_flipped_bit_anywhere_behind_the_checksum_is_seen() -> None:
    batch = filled(1)
    for at in range(17, len(batch)):
        batch[at] ^= 0x10
        assert not records.is_intact(batch), at
        batch[at] ^= 0x10
    assert records.is_intact(batch)


def test_log_append_time_replaces_the_timestamps_and_renews_the_checksum() -> None:
    data = bytearray(filled(1)) + filled(2, codec=1)
    pos = len(filled(1))
    records.set_log_append_time(data, pos, len(data) - pos, 5555)
    assert records.is_intact(data, pos, len(data) - pos)
    assert [r.timestamp for r in records.iterate(data[pos:])] == [5555, 5555]
    assert records.read_header(data, pos).codec == 1


def test_a_look_up_by_time_reads_records_and_passes_by_batches_that_are_too_old() -> None:
    batch = records.build([(10, None, None, ()), (40, None, None, ()), (20, None, None, ())], codec=3, base_offset=7)
    assert records.find_timestamp(batch, 11) == (8, 40)
    assert records.find_timestamp(batch, 11, 9) == (9, 20)
    assert records.find_timestamp(batch, 41) is None
    assert records.max_timestamp_offset(batch) == (8, 40)
    older = records.read_header(batch)._replace(max_timestamp=5)
    records.HEADER.pack_into(batch, 0, *older)
    assert records.find_timestamp(batch, 11) is None, "the header alone rules it out"


def test_a_batch_that_inflates_to_much_is_read_by_one_thread_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    lock = CountedLock()
    monkeypatch.setattr(compression, "ALONE", lock)
    small, large = (records.build([(5, b"k", bytes(size), ())], codec=4) for size in (900_000, 1_100_000))
    for batch, times in ((small, 0), (large, 3)):
        assert records.find_timestamp(batch, 5) == (0, 5)
        assert records.max_timestamp_offset(batch) == (0, 5)
        assert [each.key for each in records.iterate_some(batch, 0, 1)] == [b"k"]
        assert lock.times == times


def test_control_batches_carry_typed_records() -> None:
    batch = records.build_control(
        [(ControlType.SNAPSHOT_HEADER, b"\0\0one"), (ControlType.KRAFT_VERSION, b"\0\0two")],
        timestamp=99, base_offset=4, leader_epoch=2,
    )  # fmt: skip
    assert records.read_header(batch).is_control
    assert records.parse_control(batch) == [(4, 99, ControlType.SNAPSHOT_HEADER, b"\0\0one"), (5, 99, 5, b"\0\0two")]
    assert records.control_key(ControlType.LEADER_CHANGE) == b"\0\0\0\2"
    assert records.control_type(b"\0\1\0\x63later") == 99


def test_a_transaction_marker_names_its_producer_and_coordinator() -> None:
    batch = records.build_marker(
        ControlType.ABORT, timestamp=1, producer_id=5, producer_epoch=6, coordinator_epoch=7, base_offset=8
    )
    header = records.read_header(batch)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (5, 6, -1)
    assert header.is_control and header.is_transactional
    (marker,) = records.parse_control(batch)
    assert marker.type is ControlType.ABORT
    assert records.marker_epoch(marker.value) == 7


@pytest.mark.parametrize("key", [None, b"", b"\0\0\0", b"\xff\xff\0\0"])
def test_a_control_key_that_is_none_is_refused(key: bytes | None) -> None:
    with pytest.raises(BadRecords):
        records.control_type(key)


@pytest.mark.parametrize("value", [b"", b"\0\0\0\0\0", b"\xff\xff\0\0\0\0"])
def test_a_marker_that_is_none_is_refused(value: bytes) -> None:
    with pytest.raises(BadRecords):
        records.marker_epoch(value)


def offsets(*buffers: bytes, **options: object) -> list[int]:
    batches = records.columns(buffers, **options)  # type: ignore[arg-type]
    return [offset for batch in batches for offset in batch.column("offset").to_pylist()]


def test_batches_that_inflate_a_thousandfold_become_arrow_batches_of_bounded_size() -> None:
    """Produced as they are, 36 such batches were 72 KB on the wire, and more than one Arrow batch can hold."""
    large = records.build([(0, None, bytes(1 << 20), ())] * 40, codec=CODECS["zstd"])
    small = records.build([(0, None, b"", ())] * (3 * BATCH_ROWS), codec=CODECS["zstd"], base_offset=40)
    assert len(large) < 2048
    before, rows = pa.total_allocated_bytes(), []
    for batch in records.columns([large, small], headers=True):
        assert pa.total_allocated_bytes() - before < 2 * BATCH_BYTES
        assert batch.nbytes <= BATCH_BYTES + 32 * batch.num_rows
        rows.append(batch.num_rows)
        del batch
    assert rows == [31, 9 + BATCH_ROWS - 9, BATCH_ROWS, BATCH_ROWS, 9]


def test_columns_join_all_batches_of_all_buffers_and_stop_before_a_torn_one() -> None:
    one = bytes(filled(2, 0, codec=1) + filled(2, 2))
    two = bytes(filled(2, 4, codec=4) + filled(2, 6))
    assert offsets(one, two[:-1]) == [0, 1, 2, 3, 4, 5]
    assert offsets(one, two, start=3, end=7) == [3, 4, 5, 6]
    assert next(records.columns([one], keys=False, values=False)).schema.names == [
        "offset",
        "timestamp",
        "timestamp_type",
    ]


def test_columns_leave_out_control_batches_and_aborted_transactions() -> None:
    def marker(kind: ControlType, producer: int, offset: int) -> bytes:
        return bytes(
            records.build_marker(
                kind, timestamp=0, producer_id=producer, producer_epoch=0, coordinator_epoch=0, base_offset=offset
            )
        )

    data = b"".join(
        (
            filled(1, 0, producer_id=1, transactional=True),  # aborted
            filled(1, 1, producer_id=2, transactional=True),
            filled(1, 2, producer_id=1),  # not of the transaction
            marker(ControlType.ABORT, 1, 3),
            filled(1, 4, producer_id=1, transactional=True),  # the next transaction, committed
            marker(ControlType.COMMIT, 2, 5),
            marker(ControlType.COMMIT, 1, 6),
            filled(1, 7, producer_id=1, transactional=True),  # aborted again
            filled(1, 8),
        )
    )
    assert offsets(data, aborted=[(1, 7), (1, 0)]) == [1, 2, 4, 8]
    assert offsets(data) == [0, 1, 2, 4, 7, 8]
    assert [r.offset for r in records.iterate_all(data)] == [0, 1, 2, 4, 7, 8]
    assert records.end_offset(data) == 9


def test_columns_checks_the_crc_unless_it_is_switched_off() -> None:
    batch = filled(3)
    batch[20] ^= 1
    with pytest.raises(BadRecords, match="checksum"):
        offsets(bytes(batch))
    assert offsets(bytes(batch), check_crc=False) == [0, 1, 2]


def test_columns_do_not_inflate_beyond_the_limit() -> None:
    batch = bytes(records.build([(0, None, bytes(1 << 20), ())], codec=4))
    with pytest.raises(compression.TooLarge):
        offsets(batch, limit=1 << 19)


@pytest.mark.parametrize("codec", CODECS)
def test_damaged_batches_raise_one_kind_of_error(codec: str) -> None:
    random = Random(8)
    batch = bytes(records.build(some_records(random, 20), codec=CODECS[codec]))
    refused = 0
    for _ in range(500):
        hostile = damaged(random, batch)
        for read in (
            records.iterate,
            records.max_timestamp_offset,
            lambda data: list(records.columns([data], check_crc=False)),
        ):
            try:
                read(hostile)
            except (BadRecords, compression.TooLarge):
                refused += 1
    assert refused > 300


def test_every_record_keeps_its_place_across_batches() -> None:
    data = b"".join(bytes(filled(4, base)) for base in range(0, 40, 4))
    assert all(b.offset == a.offset + 1 for a, b in pairwise(records.iterate_all(data)))
