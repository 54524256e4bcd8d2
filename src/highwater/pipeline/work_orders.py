"""Work orders: offset ranges as rows, for a sink that reads the records itself (`emit=ranges` of the source).

Records that never pass through the JVM cost a fraction of those that do, and Spark still schedules, retries and
checkpoints: all it sees of them is one row for each range.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, NamedTuple

from highwater.client.security import Security
from highwater.pipeline.ranges import OffsetRange, Skipped
from highwater.pipeline.reading import Reading

if TYPE_CHECKING:
    import pyarrow as pa

SPARK_SCHEMA = (
    "topic string, topic_id string, partition int, start bigint, end bigint, leader_epoch int, end_epoch int, "
    "cut boolean, reading string"
)
COLUMNS = ("topic", "topic_id", "partition", "start", "end", "leader_epoch", "end_epoch", "cut", "reading")


class WorkOrder(NamedTuple):
    range: OffsetRange
    reading: Reading


def arrow_schema() -> pa.Schema:
    """What SPARK_SCHEMA is to Arrow, exactly: Spark takes no batch of another schema."""
    import pyarrow as pa

    integers = (pa.int32(), pa.int64(), pa.int64(), pa.int32(), pa.int32())
    types = (pa.string(), pa.string(), *integers, pa.bool_(), pa.string())
    return pa.schema([pa.field(name, type_) for name, type_ in zip(COLUMNS, types, strict=True)])


def to_batch(ranges: Iterable[OffsetRange], reading: Reading) -> pa.RecordBatch:
    import pyarrow as pa

    how = json.dumps(asdict(reading))
    rows = [asdict(range_) | {"reading": how} for range_ in ranges]
    return pa.RecordBatch.from_pylist(rows, schema=arrow_schema())


def from_batch(batch: pa.RecordBatch) -> Iterator[WorkOrder]:
    for row in batch.to_pylist():
        how = json.loads(row.pop("reading"))
        skipped = tuple(Skipped(*each) for each in how.pop("skipped"))
        security = Security.restored(how.pop("security")["settings"])
        yield WorkOrder(OffsetRange(**row), Reading(**how, skipped=skipped, security=security))


def are_work_orders(columns: Iterable[str]) -> bool:
    """Whether rows of these columns are work orders and no data."""
    return tuple(columns) == COLUMNS
