"""Rows into topics: what Spark's own Kafka sink takes, written by batch and streaming queries. At least once.

A task that fails halfway has written some of its rows, and its next attempt writes them all again. Within one attempt
the producer is idempotent: no broker failure doubles a record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import ArrayType, BinaryType, DataType, IntegerType, StringType, StructType

from highwater.pipeline.producing import ProducerSettings

if TYPE_CHECKING:
    import pyarrow as pa

    from highwater.pipeline.routing import Rows

HEADERS_TYPE = "array<struct<key:string,value:binary>>"


@dataclass(frozen=True, slots=True)
class TopicSink:
    """Where rows go and how; pickled with each task."""

    settings: ProducerSettings
    topic: str | None
    """Of every row, whatever its own column says."""
    headers: bool = True


@dataclass(frozen=True, slots=True)
class RowsSent(WriterCommitMessage):
    rows: int


def topic_sink(schema: StructType, options: Mapping[str, str]) -> TopicSink:
    """Check what a query wants to write, on the driver and before any task. Raises ValueError."""
    found = {name.lower(): value for name, value in options.items()}
    settings = ProducerSettings.from_options(options)
    topic = found.get("topic")
    include = found.get("includeheaders", "true").lower()
    if include not in ("true", "false"):
        raise ValueError(f"includeHeaders is {include!r}: it must be true or false")
    # The last two are Spark's own, which it hands on.
    known = {"topic", "includeheaders", "checkpointlocation", "queryname"}
    unknown = [name for name in options if name.lower() not in known and not name.lower().startswith("kafka.")]
    if unknown:
        raise ValueError(f"unknown option {unknown[0]!r}: rows to topics take topic, includeHeaders and kafka.…")
    _check_columns(schema, topic)
    return TopicSink(settings, topic, headers=include == "true")


def _check_columns(schema: StructType, topic: str | None) -> None:
    columns = {field.name: field.dataType for field in schema}
    if topic is None and "topic" not in columns:
        raise ValueError(
            "topic option required when no 'topic' attribute is present. Use the topic option for setting a topic."
        )
    if "value" not in columns:
        raise ValueError("Required attribute 'value' not found")
    text_or_bytes = (StringType, BinaryType)
    allowed: dict[str, tuple[tuple[type[DataType], ...], str]] = {
        "topic": ((StringType,), "string"),
        "key": (text_or_bytes, "string or binary"),
        "value": (text_or_bytes, "string or binary"),
        "partition": ((IntegerType,), "int"),
    }
    for name, (types, words) in allowed.items():
        # The option wins over the column, so what type that has is of no interest then.
        if name in columns and not isinstance(columns[name], types) and (name != "topic" or topic is None):
            raise ValueError(f"{name} attribute type must be a {words}, not {columns[name].simpleString()}")
    if "headers" in columns and not _are_headers(columns["headers"]):
        raise ValueError(f"headers attribute type must be a {HEADERS_TYPE}, not {columns['headers'].simpleString()}")


def _are_headers(kind: DataType) -> bool:
    return isinstance(kind, ArrayType) and kind.simpleString() == HEADERS_TYPE


class _Writing:
    def __init__(self, sink: TopicSink) -> None:
        self.sink = sink

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """On an executor: returns when every row is stored."""
        return RowsSent(write_rows(self.sink, iterator))


class TopicWriter(_Writing, DataSourceArrowWriter):
    """Of a batch query."""


class TopicStreamWriter(_Writing, DataSourceStreamArrowWriter):
    """Of a streaming query. There is nothing to commit: rows are in their topics as soon as their task has ended."""

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        pass

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        pass


def write_rows(sink: TopicSink, batches: Iterable[pa.RecordBatch]) -> int:
    """Returns when every row is stored, with their number."""
    from highwater.pipeline.routing import Router

    rows = 0
    context = TaskContext.get()
    with sink.settings.client() as client, sink.settings.sender(client) as sender:
        router = Router(client, sender, sink.settings.batch_bytes, start=context.partitionId() if context else 0)
        for batch in batches:
            for topic, part in _by_topic(sink, batch):
                router.send(topic, _rows(sink, part))
            rows += batch.num_rows
        sender.flush()
    return rows


def _by_topic(sink: TopicSink, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    import pyarrow.compute as pc

    if sink.topic is not None:
        yield sink.topic, batch
        return
    topics = batch.column("topic")
    if topics.null_count:
        raise ValueError("null topic present in the data. Use the topic option for setting a topic.")
    for topic in topics.unique().to_pylist():
        yield topic, batch.filter(pc.equal(topics, topic))


def _rows(sink: TopicSink, batch: pa.RecordBatch) -> Rows:
    import pyarrow as pa

    from highwater.pipeline.routing import Rows

    names = set(batch.schema.names)

    def column(name: str, kind: pa.DataType) -> pa.Array | None:
        return batch.column(name).cast(kind) if name in names else None

    return Rows(
        value=column("value", pa.binary()),
        key=column("key", pa.binary()),
        headers=batch.column("headers") if sink.headers and "headers" in names else None,
        partition=column("partition", pa.int32()),
    )
