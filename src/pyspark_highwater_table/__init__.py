"""Found by Spark itself: `format("highwater-table")` lands rows in tables, exactly once, with nothing to register."""

from __future__ import annotations

from highwater.pipeline.landing.writer import HighwaterTable


class DefaultSource(HighwaterTable):
    """The name and the place by which Spark looks for a data source in packages called `pyspark_…`."""
