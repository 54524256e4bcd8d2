"""Named points of a batch at which a process dies: for the fixture `pipeline_runner`, by which users test a pipeline.

The source and the table are the ones that every pipeline has; what is added is a look at each point. Where a file of
the point's name lies in the folder, the process that comes there ends itself with SIGKILL: that of the source beside
the driver, that of a task, or that of the commit. Of several that come there one dies, and once.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, InputPartition
from pyspark.sql.types import StructType

from highwater.pipeline.landing.options import Landing
from highwater.pipeline.landing.rule import Batch
from highwater.pipeline.landing.table import StagedFile
from highwater.pipeline.landing.writer import HighwaterTable, Staged, StreamWriter
from highwater.pipeline.source import HighwaterDataSource
from highwater.pipeline.stream import StreamReader

if TYPE_CHECKING:
    import pyarrow as pa

PLANNED, FETCHED, BEFORE_COMMIT, AFTER_COMMIT = "planned", "fetched", "before-commit", "after-commit"
POINTS = (PLANNED, FETCHED, BEFORE_COMMIT, AFTER_COMMIT)
"""The batch is in Spark's log of offsets; a task has its records; all files are there; the table has the rows, and
Spark does not know it."""
FORMATS = {"highwater": "highwater-killable", "highwater-table": "highwater-table-killable"}
"""What a query names in the place of each."""


def arm(folder: Path, point: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / point).touch()


def is_armed(folder: Path, point: str) -> bool:
    """Until somebody died there."""
    return (folder / point).exists()


def disarm(folder: Path, point: str) -> None:
    (folder / point).unlink(missing_ok=True)


def killable(folder: Path) -> tuple[type[DataSource], type[DataSource]]:
    """The data sources to be registered under the names of FORMATS. They travel by value, with the folder in them."""
    here = str(folder)

    class Source(HighwaterDataSource):
        @classmethod
        def name(cls) -> str:
            return FORMATS["highwater"]

        def streamReader(self, schema: StructType) -> KillableReader:
            reader = super().streamReader(schema)
            assert isinstance(reader, StreamReader)
            return KillableReader(reader, here)

    class Table(HighwaterTable):
        @classmethod
        def name(cls) -> str:
            return FORMATS["highwater-table"]

        def streamWriter(self, schema: StructType, overwrite: bool) -> KillableWriter:
            return KillableWriter(Landing.from_options(self.options), schema, overwrite, here)

    return Source, Table


class KillableReader(StreamReader):
    def __init__(self, reader: StreamReader, folder: str) -> None:
        super().__init__(reader._options, reader._rows)
        self._folder = folder

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        planned = super().partitions(start, end)
        if planned:
            _die_at(PLANNED, self._folder)
        return planned

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield from super().read(partition)
        if self._rows is not None:  # else these are work orders, and the writer fetches the records
            _die_at(FETCHED, self._folder)


class KillableWriter(StreamWriter):
    def __init__(self, landing: Landing, rows: StructType, replace: bool, folder: str) -> None:
        super().__init__(landing, rows, replace)
        self._folder = folder

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        staged = super().write(iterator)
        if self.task.direct:
            _die_at(FETCHED, self._folder)
        return staged

    def land(self, batch: Batch, files: list[StagedFile]) -> bool:
        _die_at(BEFORE_COMMIT, self._folder)
        landed = super().land(batch, files)
        _die_at(AFTER_COMMIT, self._folder)
        return landed


def _die_at(point: str, folder: str) -> None:
    try:
        Path(folder, point).unlink()
    except FileNotFoundError:
        return
    os.kill(os.getpid(), signal.SIGKILL)
