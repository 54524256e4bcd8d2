"""The readers without a JVM: called as Spark calls them, with a checkpoint that is a list."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql.datasource import CaseInsensitiveDict

from highwater.pipeline.source import HighwaterDataSource

Row = dict[str, Any]


def source(bootstrap_servers: str, **options: object) -> HighwaterDataSource:
    """Underscores in names stand for dots."""
    given = {name.replace("_", "."): str(value) for name, value in options.items()}
    return HighwaterDataSource(CaseInsensitiveDict({"kafka.bootstrap.servers": bootstrap_servers} | given))


def batch_rows(bootstrap_servers: str, **options: object) -> list[Row]:
    found = source(bootstrap_servers, **options)
    reader = found.reader(found.schema())  # type: ignore[arg-type]
    elsewhere = pickle.loads(pickle.dumps(reader))
    return [row for task in reader.partitions() for batch in elsewhere.read(task) for row in batch.to_pylist()]


class Query:
    """A streaming query: offsets are logged before a batch is run, and count as committed when it has run."""

    def __init__(self, bootstrap_servers: str, **options: object) -> None:
        self._source = source(bootstrap_servers, **options)
        self.logged: list[dict[str, Any]] = []
        self.committed = 0
        self.reader = self._reader()

    def _reader(self) -> Any:
        return self._source.streamReader(self._source.schema())  # type: ignore[arg-type]

    def restart(self, **options: object) -> None:
        """In another process, with other options perhaps; the checkpoint stays."""
        self.reader.stop()
        for name, value in options.items():
            self._source.options[name.replace("_", ".")] = str(value)
        self.reader = self._reader()

    def available_now(self) -> list[Row]:
        self.reader.prepareForTriggerAvailableNow()
        return self.run()

    def run(self) -> list[Row]:
        """Batches until there is nothing new."""
        rows: list[Row] = []
        while (batch := self.batch()) is not None:
            rows += batch
        return rows

    def batch(self) -> list[Row] | None:
        """One batch: a logged one that was not committed, or the next; None where there is nothing new."""
        if self.committed == len(self.logged) and not self._plan():
            return None
        end = self.logged[self.committed]
        tasks = self.reader.partitions(self._start, end)
        elsewhere = pickle.loads(pickle.dumps(self._reader()))
        rows = [row for task in tasks for batch in elsewhere.read(task) for row in batch.to_pylist()]
        self.committed += 1
        return rows

    @property
    def _start(self) -> dict[str, Any]:
        return self.logged[self.committed - 1] if self.committed else self.reader.initialOffset()

    def _plan(self) -> bool:
        end = self.reader.latestOffset(self._start, self.reader.getDefaultReadLimit())
        if end == self._start:
            return False
        self.logged.append(end)
        return True


@contextmanager
def streaming(bootstrap_servers: str, **options: object) -> Iterator[Query]:
    query = Query(bootstrap_servers, **options)
    try:
        yield query
    finally:
        query.reader.stop()


def values(rows: list[Row]) -> list[bytes]:
    """In the order of partitions and offsets."""
    return [row["value"] for row in sorted(rows, key=lambda row: (row["topic"], row["partition"], row["offset"]))]
