"""The data source that Spark sees: its name, its schema and which reader or writer does what."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
)
from pyspark.sql.types import StructType

from highwater.pipeline import rows, work_orders
from highwater.pipeline.batch import BatchReader
from highwater.pipeline.decode import Decoding
from highwater.pipeline.options import SourceOptions, includes_headers
from highwater.pipeline.rows import Rows
from highwater.pipeline.selection import BadOption, check_no_loop
from highwater.pipeline.stream import StreamReader
from highwater.pipeline.topic_sink import TopicStreamWriter, TopicWriter, topic_sink
from highwater.pipeline.typed_rows import TypedRows, spark_schema


class HighwaterDataSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "highwater"

    def schema(self) -> StructType | str:
        # The check of all options waits for the reader: only then it is known whether the query is a stream.
        if self.options.get("emit", "rows").strip().lower() == "ranges":
            return work_orders.SPARK_SCHEMA
        if (decoding := _decoding(self.options)) is not None:
            return spark_schema(decoding)
        return rows.schema(headers=includes_headers(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        options = SourceOptions.parse(self.options, streaming=False)
        return BatchReader(options, self._rows(options, schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        options = SourceOptions.parse(self.options, streaming=True)
        return StreamReader(options, self._rows(options, schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        if overwrite:
            raise BadOption("save mode overwrite is not for topics, which are only added to: use append")
        return TopicWriter(topic_sink(schema, self.options))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        # Output mode complete writes all groups again with each batch, as with Spark's own connector. And a running
        # aggregate has no other: Spark knows no update mode for data sources in Python.
        return TopicStreamWriter(topic_sink(schema, self.options))

    def _rows(self, options: SourceOptions, schema: StructType) -> Rows | TypedRows | None:
        decoding = _decoding(self.options)
        if options.include_headers and (options.emit_ranges or decoding is not None):
            other = "emit=ranges" if options.emit_ranges else "decode"
            raise BadOption(f"option includeHeaders is given with {other}, whose rows have no headers: leave it out")
        if options.emit_ranges:
            if decoding is not None:
                raise BadOption("option decode is given with emit=ranges: give it to the sink that reads the ranges")
            return None
        if decoding is None:
            return Rows.of(schema)
        check_no_loop(options.selection, decoding.dead_letter_topic)
        return TypedRows.of(decoding, schema)


def _decoding(options: Mapping[str, str]) -> Decoding | None:
    try:
        return Decoding.from_options(options)
    except ValueError as error:
        raise BadOption(str(error)) from error
