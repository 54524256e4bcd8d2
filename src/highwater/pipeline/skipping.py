"""A record that nothing can read keeps a pipeline from going on, until a person decides to pass over it.

The decision is kept in the table's position. So a batch that comes again is read in the same way, and an audit knows
why the record is not there.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from highwater.client.client import Client
from highwater.client.fetched import Fetched
from highwater.client.offsets import EARLIEST, LATEST, FoundOffset, list_offsets
from highwater.kernel import BadRecords
from highwater.model import TopicPartition
from highwater.pipeline.fetching import RangeFetch
from highwater.pipeline.landing.position import Log, Skip
from highwater.pipeline.landing.rule import Batch, LandingError
from highwater.pipeline.options import SourceOptions
from highwater.pipeline.positioning import logs_of, table_of
from highwater.pipeline.ranges import OffsetRange
from highwater.pipeline.reading import Reading
from highwater.pipeline.resuming import landing_id
from highwater.wire.compression import TooLarge
from highwater.wire.records import walk

if TYPE_CHECKING:
    from highwater.pipeline.definition import Definition

SECONDS = 10.0
"""How long the cluster may take to show the record."""
UNASKED = "a person asked for it"
_LONGEST_REASON = 200


class Decided(NamedTuple):
    log: Log
    skip: Skip


def skip(definition: Definition, offsets: Iterable[tuple[TopicPartition, int]], reason: str | None) -> list[Decided]:
    """Records in the table that these offsets are passed over; the caller holds the pipeline's checkpoint.

    Raises LandingError where a record is not there, or the table has it already.
    """
    table = table_of(definition)
    if not table.exists():
        raise LandingError("there is no table yet: start the pipeline first, so that it says at which offset it fails")
    reading = replace(
        SourceOptions.parse(definition.source, streaming=True).reading,
        deadline_seconds=SECONDS,
        request_timeout_seconds=SECONDS,
        fail_on_data_loss=True,
        read_committed=False,
    )
    decided = []
    with reading.client() as client:
        for partition, offset in offsets:
            [log] = logs_of(client, {partition: offset})
            decided.append(Decided(log, _extent(client, reading, log, offset, reason)))
    for log, found in decided:
        batch = Batch(landing_id(definition), f"skip-{uuid.uuid4()}", 0, (), has_rows=False, skipped={log: found})
        table.commit(batch, [])
    return decided


def _extent(client: Client, reading: Reading, log: Log, offset: int, reason: str | None) -> Skip:
    partition = TopicPartition(log.topic, log.partition)
    first, last = (_bound(client, partition, where) for where in (EARLIEST, LATEST))
    if not first <= offset < last:
        raise LandingError(f"there is no record at offset {offset} of {log}: it has {first} to {last}")
    range_ = OffsetRange(log.topic, log.topic_id, log.partition, offset, offset + 1)
    fetched = next(RangeFetch(client, reading, range_).fetched(), None)
    found = None if fetched is None else unreadable(fetched, offset)
    if found is None:
        return Skip(offset, offset + 1, (reason or UNASKED)[:_LONGEST_REASON])
    begin, end, trouble = found
    return Skip(begin, end, f"{reason}: {trouble}"[:_LONGEST_REASON] if reason else trouble[:_LONGEST_REASON])


def unreadable(fetched: Fetched, offset: int) -> tuple[int, int, str] | None:
    """The offsets of the record batch around `offset` and what is wrong with it; None where the batch can be read.

    Nothing of a batch with a wrong checksum or damaged compression can be trusted, so all of it is passed over.
    """
    for _, _, header in walk(fetched.data):
        if header.base_offset <= offset < header.next_offset:
            try:
                for _ in replace(fetched, start=offset).columns(end=offset + 1):
                    pass
            except (BadRecords, TooLarge) as error:
                return header.base_offset, header.next_offset, str(error)
    return None


def _bound(client: Client, partition: TopicPartition, where: int) -> int:
    found = list_offsets(client, {partition: where})[partition]
    if isinstance(found, FoundOffset):
        return found.offset
    raise found or LandingError(f"the cluster does not say which offsets {partition} has")
