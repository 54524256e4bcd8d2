"""What a leader checks, and rewrites, before a batch from a producer may enter the log.

The checks and their error codes are Kafka's, in Kafka's order. Two kinds of batches that Kafka accepts are refused
here, because consumers cannot read them: offset deltas with gaps, and record lengths in a compressed batch that do not
match the records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from highwater import kernel
from highwater.errors import Code, KafkaError
from highwater.kernel import BadRecords, Fault, Section
from highwater.wire import compression
from highwater.wire.compression import Codec
from highwater.wire.records import header as layout
from highwater.wire.records.batch import section
from highwater.wire.records.header import HEADER, HEADER_SIZE, LENGTH_PREFIX, MAGIC, Header, read_header

if TYPE_CHECKING:
    from typing_extensions import Buffer

APPEND_LIMIT = 64 << 20
"""The most bytes of a decompressed batch. Half of it, if the codec holds the data twice while it decompresses."""

_MIN_LENGTH = 14  # the oldest message format needs as many bytes; anything shorter may be garbage
_I64_MIN, _I64_MAX = -(2**63), 2**63 - 1


AT_ONCE = 1 << 20
"""The largest batch, compressed and decompressed, that is checked on the event loop."""
RECOMPRESSED_AT_ONCE = 16 << 10
"""The same, if the batch must be compressed again: 16 KiB take some milliseconds at the highest levels."""


class Laborious(Exception):
    """The batch takes too long to check on the event loop. It must be checked in a job."""


class RecordError(NamedTuple):
    """One invalid record of a refused batch, as the Produce response lists it."""

    batch_index: int
    message: str


class Refused(KafkaError):
    """The batch may not be appended. `records` lists the invalid records, if they are known."""

    def __init__(self, code: Code, message: str, records: tuple[RecordError, ...] = ()) -> None:
        super().__init__(code, message)
        self.records = records


class Rules(NamedTuple):
    """The topic settings that apply to an append. They are made once per change of the settings.

    If `codec` is None, the batch keeps the codec of its producer (compression.type=producer).
    """

    max_message_bytes: int = 1048588
    compacted: bool = False
    log_append_time: bool = False
    timestamp_before_max_ms: int = _I64_MAX
    timestamp_after_max_ms: int = 3_600_000
    codec: int | None = None
    level: int | None = None
    inflate_limit: int = APPEND_LIMIT


class Validated(NamedTuple):
    """A batch that may be appended once it is stamped. `data` is writable and holds exactly the batch.

    The time index gets (`header.max_timestamp`, last offset of the batch), as in Kafka.
    """

    data: bytearray | memoryview
    header: Header
    log_append_time: int


def validate_append(
    field: Buffer, rules: Rules, now_ms: int, *, from_client: bool = True, at_once: bool = False
) -> Validated:
    """Check the records field of one partition in a Produce request. Raises `Refused`. With `at_once` it raises
    `Laborious` if the check takes too long for the event loop.

    Where Kafka rewrites a batch, a writable `field` is rewritten in place, and a read-only one is copied first.
    The caller checks the transactional flag, the producer's sequence, and which codecs the request version allows.
    """
    batch = memoryview(field)
    header = read_header(batch) if len(batch) >= HEADER_SIZE else None
    if header is None or header.length + LENGTH_PREFIX != len(batch) or header.magic != MAGIC:
        header = _only_batch(batch)
        batch = batch[: header.size]
    if from_client and header.base_offset != 0:
        raise Refused(Code.INVALID_RECORD, f"the base offset of a new batch is {header.base_offset}, not 0")
    _check_size(header.size, rules)
    if at_once and header.size > AT_ONCE:
        raise Laborious
    if header.size < HEADER_SIZE or not layout.is_intact(batch):
        raise Refused(Code.CORRUPT_MESSAGE, "the batch is shorter than its header or its checksum is wrong")
    if header.codec > Codec.ZSTD:
        raise Refused(Code.UNKNOWN_SERVER_ERROR, f"unknown codec {header.codec}")
    if from_client:
        _check_client_header(header)
    records = _inflated(header, batch, rules, at_once)
    if at_once and _is_recompressed(header, rules) and memoryview(records.data).nbytes > RECOMPRESSED_AT_ONCE:
        raise Laborious
    largest = _check_records(header, records, rules, now_ms)
    return _rewritten(header, batch, records, rules, now_ms if rules.log_append_time else largest)


def _only_batch(field: memoryview) -> Header:
    """The header of the only batch in `field`. An incomplete batch after it is ignored, as in Kafka."""
    size = _whole_batch(field, 0)
    if size is None:
        raise Refused(Code.INVALID_RECORD, "there is no whole record batch")
    if field[layout.MAGIC_AT] != MAGIC:
        raise Refused(Code.INVALID_RECORD, f"the batch has magic {field[layout.MAGIC_AT]}, only 2 is accepted")
    if _whole_batch(field, size) is not None:
        raise Refused(Code.INVALID_RECORD, "there is more than one record batch")
    if size < HEADER_SIZE:
        raise Refused(Code.CORRUPT_MESSAGE, f"the batch of {size} bytes is smaller than its header")
    return read_header(field)


def _whole_batch(field: memoryview, pos: int) -> int | None:
    """The size of the batch at `pos`; None if it is not complete."""
    remaining = len(field) - pos
    if remaining < LENGTH_PREFIX:
        return None
    length = int.from_bytes(field[pos + layout.LENGTH_AT : pos + LENGTH_PREFIX], "big", signed=True)
    if length < _MIN_LENGTH:
        raise Refused(Code.CORRUPT_MESSAGE, f"a batch length of {length} is too small")
    if remaining <= layout.MAGIC_AT:
        return None
    if field[pos + layout.MAGIC_AT] > MAGIC:
        raise Refused(Code.CORRUPT_MESSAGE, f"unknown magic {field[pos + layout.MAGIC_AT]}")
    return length + LENGTH_PREFIX if remaining >= length + LENGTH_PREFIX else None


def _check_size(size: int, rules: Rules) -> None:
    if size > rules.max_message_bytes:
        raise Refused(
            Code.MESSAGE_TOO_LARGE, f"the batch of {size} bytes exceeds max.message.bytes={rules.max_message_bytes}"
        )


def _check_client_header(header: Header) -> None:
    if header.last_offset_delta < 0 or header.record_count <= 0 or header.record_count != header.last_offset_delta + 1:
        raise Refused(
            Code.INVALID_RECORD,
            f"the batch counts {header.record_count} records and has the last offset delta {header.last_offset_delta}",
        )
    if header.is_control:
        raise Refused(Code.INVALID_RECORD, "clients may not write control records")
    if header.has_producer_id and header.base_sequence < 0:
        raise Refused(
            Code.INVALID_RECORD, f"producer {header.producer_id} sent the invalid sequence {header.base_sequence}"
        )


def _inflated(header: Header, batch: memoryview, rules: Rules, at_once: bool) -> Section:
    limit = rules.inflate_limit
    if at_once:
        limit = min(limit, AT_ONCE)
    elif header.codec == Codec.ZSTD and compression.has_large_window(batch[HEADER_SIZE:]):
        limit //= 2
    try:
        return section(header, batch, limit)
    except compression.TooLarge as error:
        if at_once and limit < rules.inflate_limit:
            raise Laborious from None
        raise Refused(Code.MESSAGE_TOO_LARGE, str(error)) from error
    except BadRecords as error:
        raise Refused(Code.INVALID_RECORD, str(error)) from error


def _check_records(header: Header, records: Section, rules: Rules, now_ms: int) -> int:
    """The largest timestamp of the batch. Raises `Refused` if a record is invalid."""
    usurped = header.is_log_append_time and (rules.log_append_time or header.max_timestamp == layout.NO_TIMESTAMP)
    if usurped:  # only the broker may set LogAppendTime, so every timestamp is invalid
        records, low, high = records._replace(append_time=0), 1, 0
    elif rules.log_append_time:
        low, high = _I64_MIN, _I64_MAX
    else:
        low = max(_I64_MIN, now_ms - rules.timestamp_before_max_ms)
        high = min(_I64_MAX, now_ms + rules.timestamp_after_max_ms)
    try:
        largest, faults = kernel.validate_records(records, low, high, rules.compacted)
    except BadRecords as error:
        raise Refused(Code.INVALID_RECORD, str(error)) from error
    if faults:
        reason = "a producer may not set LogAppendTime" if usurped else f"it must lie in [{low}, {high}]"
        raise _refusal(faults, reason)
    return largest


def _refusal(faults: list[Fault], reason: str) -> Refused:
    errors = tuple(
        RecordError(index, "a compacted topic needs a key in every record")
        if kind == kernel.KEY_MISSING
        else RecordError(index, f"invalid timestamp {timestamp}: {reason}")
        for index, kind, timestamp in faults
    )
    if any(kind == kernel.TIMESTAMP_OUT_OF_RANGE for _, kind, _ in faults):
        return Refused(Code.INVALID_TIMESTAMP, f"{len(errors)} records were refused, some for their timestamp", errors)
    return Refused(Code.INVALID_RECORD, f"{len(errors)} records were refused: {errors[0].message}", errors)


def _is_recompressed(header: Header, rules: Rules) -> bool:
    return rules.codec is not None and rules.codec != header.codec and not header.is_control


def _rewritten(header: Header, batch: memoryview, records: Section, rules: Rules, max_timestamp: int) -> Validated:
    """The batch in the topic's codec, with the true largest timestamp and the topic's timestamp type."""
    recompress = _is_recompressed(header, rules)
    retime = header.max_timestamp != max_timestamp or header.is_log_append_time != rules.log_append_time
    data: bytearray | memoryview = batch if not batch.readonly else bytearray(batch)
    if recompress:
        packed = compression.compress(rules.codec or 0, records.data, rules.level)
        _check_size(HEADER_SIZE + memoryview(packed).nbytes, rules)
        data = bytearray(batch[:HEADER_SIZE])
        attributes = header.attributes & ~layout.CODEC_MASK | (rules.codec or 0)
        HEADER.pack_into(data, 0, *header._replace(attributes=attributes))
        data += packed
    if recompress or retime:
        layout.set_max_timestamp(data, 0, len(data), max_timestamp, rules.log_append_time)
        header = read_header(data)
    return Validated(data, header, max_timestamp if rules.log_append_time else layout.NO_TIMESTAMP)
