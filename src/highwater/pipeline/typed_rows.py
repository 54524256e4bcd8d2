"""Records that were read, decoded on the way to Spark or to a table; those that do not fit, to their topic."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from highwater.pipeline.dead_letters import DeadLetters
from highwater.pipeline.decode import Decoding, Origin
from highwater.pipeline.producing import ProducerSettings
from highwater.pipeline.ranges import OffsetRange
from highwater.pipeline.reading import Columns, Reading
from highwater.pipeline.selection import BadOption, Subscribed, check_no_loop
from highwater.wire.compression import Codec

LARGEST_REQUEST = 96 << 20
"""Brokers close a connection that sends more than socket.request.max.bytes, which is 100 MiB by default."""

Making = Callable[[OffsetRange, pa.RecordBatch], pa.RecordBatch]
"""From the kernel's columns of records of a range to rows."""


def columns_for(decoding: Decoding) -> Columns:
    """What must be read of each record; a dead letter is the whole of it."""
    kept = decoding.decoder().columns
    whole = decoding.dead_letter_topic is not None
    return Columns(key=whole or "key" in kept, value=True, headers=whole or "headers" in kept)


@contextmanager
def row_making(
    decoding: Decoding, reading: Reading, count_bad: Callable[[int], None] = lambda _: None
) -> Iterator[Making]:
    """Makes rows in the schema of the decoding. On leaving, every dead letter is stored. `count_bad` hears of how many
    records did not fit."""
    decoder = decoding.decoder()
    with ExitStack() as open_things:
        letters = None
        if decoding.dead_letter_topic is not None:
            settings = ProducerSettings(
                reading.bootstrap_servers,
                client_id=reading.client_id,
                # With its new headers a record of the largest size would be too large.
                codec=Codec.GZIP,
                # Whatever could be read may be written, if the topic takes it.
                max_request_bytes=LARGEST_REQUEST,
                request_seconds=reading.request_timeout_seconds,
                delivery_seconds=reading.deadline_seconds,
                security=reading.security,
            )
            letters = open_things.enter_context(DeadLetters(decoding.dead_letter_topic, settings))

        def make(range_: OffsetRange, made: pa.RecordBatch) -> pa.RecordBatch:
            # In direct mode only here both are known: the sink has the dead letters, the source the topics.
            check_no_loop(Subscribed((range_.topic,)), decoding.dead_letter_topic)
            decoded = decoder.decode(made, Origin(range_.topic, range_.partition))
            count_bad(decoded.bad.num_rows)
            if letters is not None:
                letters.write(decoded.bad)
            return decoding.rows(decoded)

        yield make


@dataclass(frozen=True)
class TypedRows:
    """Makes batches for Spark of decoded records; pickled with each task."""

    decoding: Decoding
    arrow: pa.Schema

    @classmethod
    def of(cls, decoding: Decoding, wanted: StructType) -> TypedRows:
        """`wanted` may leave out columns. Raises BadOption."""
        there = {field.name: field for field in spark_schema(decoding)}
        for field in wanted:
            if field.name not in there:
                raise BadOption(f"the schema has a column {field.name}; decoded rows have {', '.join(there)}")
            if field.dataType != there[field.name].dataType:
                wrong, right = field.dataType.simpleString(), there[field.name].dataType.simpleString()
                raise BadOption(f"the schema has column {field.name} as {wrong}: decoded rows have it as {right}")
        return cls(decoding, to_arrow_schema(wanted, timezone="UTC"))

    @property
    def columns(self) -> Columns:
        return columns_for(self.decoding)

    @contextmanager
    def opened(self, reading: Reading) -> Iterator[Making]:
        with row_making(self.decoding, reading) as make:

            def make_for_spark(range_: OffsetRange, made: pa.RecordBatch) -> pa.RecordBatch:
                rows = make(range_, made)
                columns = [rows.column(field.name).cast(field.type) for field in self.arrow]
                return pa.RecordBatch.from_arrays(columns, schema=self.arrow)

            yield make_for_spark


def spark_schema(decoding: Decoding) -> StructType:
    return from_arrow_schema(decoding.schema())
