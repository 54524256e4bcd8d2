"""Reading one offset range of any Kafka as Arrow batches, over leader changes and up to a deadline."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from highwater.client.client import Client
from highwater.client.security import PLAINTEXT, Security
from highwater.kernel import BadRecords
from highwater.pipeline.ranges import OffsetRange, Skipped, left
from highwater.wire.compression import TooLarge

if TYPE_CHECKING:
    import pyarrow as pa

    from highwater.pipeline.loss import DataLoss


@dataclass(frozen=True, slots=True)
class Reading:
    """How to read; pickled with each task."""

    bootstrap_servers: str
    read_committed: bool = False
    fail_on_data_loss: bool = True
    deadline_seconds: float = 120.0
    """Without a record, or without an answer of the leader, for so long, the task fails, and Spark tries it again."""
    client_id: str = "highwater-spark"
    max_partition_bytes: int = 8 << 20
    max_bytes: int = 50 << 20
    min_bytes: int = 1
    max_wait_seconds: float = 0.5
    request_timeout_seconds: float = 30.0
    check_crcs: bool = True
    security: Security = PLAINTEXT
    skipped: tuple[Skipped, ...] = ()
    """What the table's position says to pass over: it is not even looked at."""

    def client(self) -> Client:
        return Client(
            self.bootstrap_servers,
            client_id=self.client_id,
            timeout=self.deadline_seconds,
            request_timeout=min(self.request_timeout_seconds, self.deadline_seconds),
            security=self.security,
        )


@dataclass(frozen=True, slots=True)
class Columns:
    """Which of the columns are made at all: Spark does not prune for us."""

    key: bool = True
    value: bool = True
    headers: bool = False


def read_with(
    client: Client,
    reading: Reading,
    range_: OffsetRange,
    columns: Columns,
    accepted: list[DataLoss] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Batches in offset order with the kernel's columns (key, value, offset, timestamp, timestamp_type, headers).

    Gaps of compaction and of transaction markers are passed over. Raises DataLoss, with what became of the missing
    records, unless the reading allows it; then what is left is read, and `accepted` has the losses. Several ranges may
    share the client.
    """
    from highwater.pipeline.fetching import RangeFetch

    holes = [each for each in reading.skipped if each.is_of(range_)]
    for fetched in RangeFetch(client, reading, range_, accepted).fetched():
        try:
            for start, end in left(fetched.start, range_.end, holes):
                yield from replace(fetched, start=start).columns(
                    end=end, keys=columns.key, values=columns.value, headers=columns.headers
                )
        except (BadRecords, TooLarge) as error:
            raise BadRecords(f"{fetched.partition} at or after offset {fetched.start}: {error}") from error
