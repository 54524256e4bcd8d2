"""Found by Spark itself: `format("highwater")` reads and writes the topics of any Kafka, with nothing to register."""

from __future__ import annotations

from highwater.pipeline.source import HighwaterDataSource


class DefaultSource(HighwaterDataSource):
    """The name and the place by which Spark looks for a data source in packages called `pyspark_…`."""
