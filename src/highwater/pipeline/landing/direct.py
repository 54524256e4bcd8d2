"""Direct mode: the sink reads the records of work orders itself, so that none of them passes through the JVM."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from highwater.pipeline.decode import Decoding
from highwater.pipeline.landing.position import Log, Lost, log_of
from highwater.pipeline.loss import DataLoss
from highwater.pipeline.ranges import OffsetRange
from highwater.pipeline.reading import Reading, read_with
from highwater.pipeline.typed_rows import Making, columns_for, row_making
from highwater.pipeline.work_orders import from_batch

if TYPE_CHECKING:
    import pyarrow as pa

    from highwater.client.client import Client

RAW = Decoding("raw")


@dataclass(slots=True)
class Taken:
    """What a task has read itself."""

    ranges: list[OffsetRange] = field(default_factory=list)
    lost: list[tuple[Log, Lost]] = field(default_factory=list)
    """What of these ranges was no longer there, where the reading goes on all the same."""
    bad: int = 0
    """Records that did not fit the schema."""

    def count_bad(self, more: int) -> None:
        self.bad += more


def records(orders: Iterable[pa.RecordBatch], decoding: Decoding, taken: Taken) -> Iterator[pa.RecordBatch]:
    """The rows of all records in the ranges, in the schema of the decoding; ranges share their connections.

    Once the last one has been taken, `taken` has all of them, and every record that did not fit is in its topic, if
    there is one for them.
    """
    columns = columns_for(decoding)
    ready: dict[Reading, tuple[Client, Making]] = {}
    with ExitStack() as opened:
        for range_, reading in (order for batch in orders for order in from_batch(batch)):
            taken.ranges.append(range_)
            if not range_.size:
                continue
            if reading not in ready:
                make = opened.enter_context(row_making(decoding, reading, taken.count_bad))
                ready[reading] = opened.enter_context(reading.client()), make
            client, make = ready[reading]
            accepted: list[DataLoss] = []
            for batch in read_with(client, reading, range_, columns, accepted):
                yield make(range_, batch)
            taken.lost += [(log_of(range_), Lost(loss.start, loss.end, loss.kind.value)) for loss in accepted]
