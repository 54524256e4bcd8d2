"""The data source that Spark sees: its name, its schema and which reader does what."""

from __future__ import annotations

from pyspark.sql.datasource import DataSource


class HighwaterDataSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "highwater"

    def schema(self) -> str:
        return "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
