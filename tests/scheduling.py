"""Which tests of a parallel run stay together."""

from __future__ import annotations

from functools import cache

from xdist.scheduler import LoadFileScheduling

from tests.apache import ROOT


class Scheduling(LoadFileScheduling):
    """A file's tests stay on one worker, and so do all that use the Spark session: it takes half a minute to start and
    to get warm, and tests of a few seconds each after that."""

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        return "Spark" if uses_spark(file) else file


@cache
def uses_spark(file: str) -> bool:
    return "spark: SparkSession" in (ROOT / file).read_text()
