"""The size of a decision in the metadata log: one batch may have 8 MiB there, as in Kafka."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from highwater.errors import Code, KafkaError
from highwater.metadata.pieces import PIECE, Pieces
from highwater.metadata.records import encode
from highwater.wire.codec import Message
from highwater.wire.messages.config_record import ConfigRecord
from highwater.wire.messages.partition_change_record import PartitionChangeRecord
from highwater.wire.messages.partition_record import PartitionRecord

MAX_BYTES: Final = 8 * 1024 * 1024
_OF_PARTITIONS: Final = (PartitionRecord, PartitionChangeRecord)
_FIXED: Final = 160
"""The size of a record without its strings and lists, together with its header in the batch."""


def check_size(records: Iterable[Message], before: int = 0) -> Pieces[int]:
    """The size of records that must be written as one batch, plus `before`. Raises KafkaError if it is too large."""
    size = before
    for at, record in enumerate(records, 1):
        size += at_most(record)
        if not at % PIECE:
            yield
    if size > MAX_BYTES:
        raise _too_large(size)
    return size


def _too_large(size: int) -> KafkaError:
    return KafkaError(
        Code.RECORD_LIST_TOO_LARGE,
        f"The request takes up to {size} bytes of metadata, and {MAX_BYTES} may be written at once: ask for less.",
    )


def cut(records: Sequence[Message]) -> Pieces[list[Sequence[Message]]]:
    """Splits the records into batches, in their order. Raises KafkaError if a single record is too large."""
    batches = []
    begin = size = 0
    for at, record in enumerate(records):
        more = at_most(record)
        if more > MAX_BYTES:
            raise _too_large(more)
        if size + more > MAX_BYTES:
            batches.append(records[begin:at])
            begin, size = at, 0
        size += more
        if at % PIECE == PIECE - 1:
            yield
    return [*batches, records[begin:]] if records else []


def at_most(record: Message) -> int:
    """An upper bound for the size of a record. Kinds that come in thousands are not encoded for it."""
    if isinstance(record, _OF_PARTITIONS):
        nodes = len(record.replicas or ()) + len(record.isr or ())
        nodes += len(record.adding_replicas or ()) + len(record.removing_replicas or ())
        nodes += len(record.eligible_leader_replicas or ()) + len(record.last_known_elr or ())
        return _FIXED + 4 * nodes + 16 * len(record.directories or ())
    if isinstance(record, ConfigRecord):
        return _FIXED + sum(len(text.encode()) for text in (record.resource_name, record.name, record.value or ""))
    return _FIXED + len(encode(record))
