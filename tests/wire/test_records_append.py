"""What a leader answers to a produced batch: Kafka's code, the records to blame, and the bytes that are stored."""

from __future__ import annotations

import struct
from random import Random

import pytest

from highwater.errors import Code
from highwater.wire import compression, records
from highwater.wire.records import Refused, Rules, Validated, validate_append
from tests.wire.bombs import zstd_of_runs
from tests.wire.record_samples import CODECS, some_records

NOW = 1_700_000_000_000
RULES = Rules()


def batch_of(count: int = 3, **options: int | bool | None) -> bytearray:
    return records.build([(NOW + i, b"k%d" % i, b"v" * 40, ()) for i in range(count)], **options)  # type: ignore[arg-type]


def patched(at: int, layout: str, value: int, batch: bytearray | None = None) -> bytearray:
    """A batch with one field overwritten and the checksum made right again."""
    batch = batch_of() if batch is None else batch
    struct.pack_into(layout, batch, at, value)
    records.seal(batch, 0, len(batch))
    return batch


def refusal(field: bytes | bytearray, rules: Rules = RULES) -> Refused:
    with pytest.raises(Refused) as caught:
        validate_append(field, rules, NOW)
    return caught.value


@pytest.mark.parametrize("codec", CODECS)
def test_a_good_batch_is_accepted_as_it_is(codec: str) -> None:
    batch = batch_of(codec=CODECS[codec], producer_id=5, producer_epoch=1, base_sequence=10)
    valid = validate_append(bytes(batch), RULES, NOW)
    assert valid.data == batch
    assert valid == Validated(valid.data, records.read_header(batch), -1)
    assert valid.header.last_sequence == 12


def test_a_writable_batch_is_not_copied_and_a_read_only_one_is() -> None:
    frame = bytearray(b"frame") + batch_of()
    valid = validate_append(memoryview(frame)[5:], RULES, NOW)
    records.stamp(valid.data, 0, 9000, 3)
    assert records.read_header(frame, 5).base_offset == 9000
    frozen = bytes(batch_of())
    records.stamp(validate_append(frozen, RULES, NOW).data, 0, 9000, 3)
    assert records.read_header(frozen).base_offset == 0


@pytest.mark.parametrize(
    ("what", "field", "code"),
    [
        ("nothing", b"", Code.INVALID_RECORD),
        ("a piece of a batch", batch_of()[:-1], Code.INVALID_RECORD),
        ("less than a length", b"\0" * 11, Code.INVALID_RECORD),
        ("a length of zero", b"\0" * 100, Code.CORRUPT_MESSAGE),
        ("a negative length", b"\0" * 8 + b"\xff" * 92, Code.CORRUPT_MESSAGE),
        ("two batches", batch_of() + batch_of(), Code.INVALID_RECORD),
        ("garbage behind the batch", batch_of() + b"\0" * 12, Code.CORRUPT_MESSAGE),
        ("an old magic", patched(16, ">b", 1), Code.INVALID_RECORD),
        ("an unknown magic", patched(16, ">b", 3), Code.CORRUPT_MESSAGE),
        ("a negative magic", patched(16, ">b", -1), Code.CORRUPT_MESSAGE),
        ("a batch smaller than its header", bytes(8) + struct.pack(">iib", 20, 0, 2) + bytes(15), Code.CORRUPT_MESSAGE),
        ("a base offset", batch_of(base_offset=1), Code.INVALID_RECORD),
        ("an unknown codec", patched(21, ">h", 5), Code.UNKNOWN_SERVER_ERROR),
        ("a count of zero", patched(57, ">i", 0), Code.INVALID_RECORD),
        ("a negative count", patched(57, ">i", -1), Code.INVALID_RECORD),
        ("a count that is too small", patched(57, ">i", 2), Code.INVALID_RECORD),
        ("a last offset beyond the count", patched(23, ">i", 3), Code.INVALID_RECORD),
        ("a negative last offset", patched(23, ">i", -1), Code.INVALID_RECORD),
        ("count and last offset wrong together", patched(23, ">i", 3, patched(57, ">i", 4)), Code.INVALID_RECORD),
        ("a control batch", batch_of(control=True), Code.INVALID_RECORD),
        ("a producer without a sequence", batch_of(producer_id=1), Code.INVALID_RECORD),
        ("bytes that do not inflate", patched(70, ">q", 0, batch_of(codec=4)), Code.INVALID_RECORD),
        ("a gap between offsets", records.build([(NOW, b"", b"", ())] * 2, offset_deltas=[0, 2]), Code.INVALID_RECORD),
        ("offsets from one on", records.build([(NOW, b"", b"", ())] * 2, offset_deltas=[1, 2]), Code.INVALID_RECORD),
    ],
)  # fmt: skip
def test_it_refuses(what: str, field: bytes, code: Code) -> None:
    assert refusal(field).code == code, what


def test_a_wrong_checksum_is_a_corrupt_message() -> None:
    batch = batch_of()
    batch[-1] ^= 1
    assert refusal(batch).code == Code.CORRUPT_MESSAGE


def test_a_cut_off_batch_behind_a_whole_one_is_dropped() -> None:
    batch = batch_of()
    assert validate_append(batch + batch[:40], RULES, NOW).data == batch


def test_the_size_bound_counts_the_whole_batch() -> None:
    batch = batch_of()
    assert validate_append(batch, Rules(max_message_bytes=len(batch)), NOW)
    assert refusal(batch, Rules(max_message_bytes=len(batch) - 1)).code == Code.MESSAGE_TOO_LARGE


def test_a_compacted_topic_blames_the_records_without_a_key() -> None:
    batch = records.build([(NOW, key, b"", ()) for key in (b"a", None, b"b", None, b"")], codec=2)
    assert validate_append(batch, RULES, NOW)
    refused = refusal(batch, Rules(compacted=True))
    assert refused.code == Code.INVALID_RECORD
    assert [error.batch_index for error in refused.records] == [1, 3]
    assert all("key" in error.message for error in refused.records)


def test_timestamps_outside_the_window_are_blamed_and_those_at_its_ends_or_absent_are_not() -> None:
    rules = Rules(timestamp_before_max_ms=100, timestamp_after_max_ms=10)
    batch = records.build([(NOW + d, b"", b"", ()) for d in (-100, -101, 10, 11)] + [(-1, b"", b"", ())])
    refused = refusal(batch, rules)
    assert refused.code == Code.INVALID_TIMESTAMP
    assert [error.batch_index for error in refused.records] == [1, 3]
    assert validate_append(batch, Rules(log_append_time=True, timestamp_after_max_ms=0), NOW)


def test_a_bad_timestamp_outweighs_a_missing_key() -> None:
    batch = records.build([(NOW, None, b"", ()), (NOW + 99, b"k", b"", ())])
    refused = refusal(batch, Rules(compacted=True, timestamp_after_max_ms=0))
    assert refused.code == Code.INVALID_TIMESTAMP
    assert [error.batch_index for error in refused.records] == [0, 1]


def test_log_append_time_is_the_brokers_to_set() -> None:
    usurper = batch_of(log_append_time=NOW - 5)
    assert refusal(usurper, Rules(log_append_time=True)).code == Code.INVALID_TIMESTAMP
    corrected = validate_append(usurper, RULES, NOW)
    assert not corrected.header.is_log_append_time
    assert records.is_intact(corrected.data)


def test_a_topic_of_log_append_time_gets_the_brokers_clock() -> None:
    valid = validate_append(batch_of(codec=3), Rules(log_append_time=True), NOW + 7)
    assert valid.log_append_time == valid.header.max_timestamp == NOW + 7
    assert {r.timestamp for r in records.iterate(valid.data)} == {NOW + 7}
    assert records.is_intact(valid.data)


def test_a_wrong_largest_timestamp_is_put_right_and_attributes_without_a_meaning_go_on_the_way() -> None:
    stray = patched(21, ">h", 0x4200)
    assert validate_append(bytes(stray), RULES, NOW).header.attributes == 0x4200
    valid = validate_append(patched(35, ">q", NOW + 999_999, stray), RULES, NOW)
    assert (valid.header.max_timestamp, valid.header.attributes) == (NOW + 2, 0)
    assert records.is_intact(valid.data)


@pytest.mark.parametrize("source", CODECS)
@pytest.mark.parametrize("target", CODECS)
def test_a_topics_own_codec_wins(source: str, target: str) -> None:
    new = some_records(Random(1), 50, (NOW - 5, NOW))
    batch = records.build(
        new, codec=CODECS[source], producer_id=4, producer_epoch=2, base_sequence=6, transactional=True
    )
    valid = validate_append(batch, Rules(codec=CODECS[target]), NOW)
    assert valid.header.codec == CODECS[target]
    assert valid.header.size == len(valid.data)
    assert (valid.header.producer_id, valid.header.base_sequence, valid.header.is_transactional) == (4, 6, True)
    assert records.is_intact(valid.data)
    assert records.iterate(valid.data) == records.iterate(batch)


def test_the_size_bound_holds_after_recompression_too() -> None:
    packed = records.build([(NOW, b"", bytes(5000), ())], codec=1)
    assert refusal(packed, Rules(codec=0, max_message_bytes=4000)).code == Code.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_a_bomb_is_too_large(codec: int) -> None:
    batch = records.build([(NOW, b"", bytes(3 << 20), ())], codec=codec)
    refused = refusal(batch, Rules(inflate_limit=1 << 20))
    assert refused.code == Code.MESSAGE_TOO_LARGE
    assert isinstance(refused.__cause__, compression.TooLarge)


@pytest.mark.parametrize(
    ("window_log", "code"), [(17, Code.INVALID_RECORD), (23, Code.INVALID_RECORD), (24, Code.MESSAGE_TOO_LARGE)]
)
def test_half_as_much_is_too_large_where_zstd_has_all_of_it_in_its_window_too(window_log: int, code: Code) -> None:
    batch = bytearray(records.build([(NOW, b"", b"", ())], codec=4))
    batch[records.HEADER_SIZE :] = zstd_of_runs(window_log, 6)  # no records, but that shows later
    records.seal(batch, 0, len(batch))
    assert refusal(batch, Rules(inflate_limit=1 << 20)).code == code


def test_the_broker_itself_may_append_control_batches_and_they_keep_their_codec() -> None:
    marker = records.build_marker(
        records.ControlType.COMMIT, timestamp=NOW, producer_id=1, producer_epoch=0, coordinator_epoch=0
    )
    valid = validate_append(marker, Rules(codec=4), NOW, from_client=False)
    assert valid.data == marker
