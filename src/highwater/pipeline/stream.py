"""Streaming queries: Spark asks what is new, gets it cut into tasks, and keeps the offsets in its checkpoint."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from highwater.model import TopicPartition
from highwater.pipeline import planning
from highwater.pipeline.continuity import Continuity
from highwater.pipeline.lookup import Lookup
from highwater.pipeline.loss import Losses
from highwater.pipeline.offsets import INITIAL, Position, Positions, is_initial
from highwater.pipeline.options import SourceOptions
from highwater.pipeline.progress import GroupProgress
from highwater.pipeline.ranges import OffsetRange
from highwater.pipeline.record_sizes import FEW, RecordSizes
from highwater.pipeline.rows import Rows
from highwater.pipeline.tasks import Task, read_task
from highwater.pipeline.typed_rows import TypedRows

if TYPE_CHECKING:
    import pyarrow as pa

_MANY = 2**62
"""Rows, for Spark to see that there is a limit."""


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Spark keeps one of these in a process beside the driver; others, which only `read`, travel to the tasks."""

    def __init__(self, options: SourceOptions, rows: Rows | TypedRows | None) -> None:
        self._options = options
        self._rows = rows
        self._session: _Session | None = None

    @property
    def _driver(self) -> _Session:
        if self._session is None:
            self._session = _Session(self._options)
        return self._session

    def initialOffset(self) -> dict[str, Any]:
        return INITIAL

    def getDefaultReadLimit(self) -> ReadLimit:
        """Spark knows no limit with two sides. The returned one matters only against ReadAllAvailable."""
        if self._options.max_offsets is not None:
            return ReadMaxRows(self._options.max_offsets)
        if self._options.min_offsets is not None:
            return ReadMinRows(self._options.min_offsets)
        if self._options.max_bytes is not None:
            return ReadMaxRows(_MANY)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self._driver.stop_at_what_is_there()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        return self._driver.next_end(start, limits=not isinstance(limit, ReadAllAvailable))

    def reportLatestOffset(self) -> dict[str, Any] | None:
        latest = self._driver.latest
        return None if latest is None else latest.to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        ranges = self._driver.ranges(start, end)
        tasks = planning.tasks(ranges, self._options.min_partitions, self._options.max_records)
        cuts = tuple(range_ for range_ in ranges if not range_.size)
        if self._options.emit_ranges and cuts:
            tasks.append(cuts)  # there is nothing to read, but a table must hear of the cut
        return [Task(each) for each in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_task(self._options, self._rows, partition)

    def commit(self, end: dict[str, Any]) -> None:
        self._driver.committed(end)

    def stop(self) -> None:
        if self._session is not None:
            self._session.close()


class _Session:
    """The driver's side of one run of a query."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._lookup = Lookup(options)
        self._continuity = Continuity(self._lookup, Losses(options.reading.fail_on_data_loss))
        self._progress = None if options.group_id is None else GroupProgress(options.reading, options.group_id)
        self._sizes = RecordSizes(options.reading)
        self._target: Positions | None = None
        self._last_batch_at = -math.inf
        self.latest: Positions | None = None

    def close(self) -> None:
        self._lookup.close()
        self._sizes.close()
        if self._progress is not None:
            self._progress.close()

    def stop_at_what_is_there(self) -> None:
        found = self._lookup.partitions()
        self._target = Positions(found.topic_ids, self._lookup.latest(found.partitions))

    def committed(self, end: Mapping[str, Any]) -> None:
        if self._progress is not None and not is_initial(end):
            self._progress.commit(Positions.from_json(end))

    def next_end(self, start: dict[str, Any], *, limits: bool) -> dict[str, Any]:
        """Where the next batch ends; `start` itself where there is nothing to do."""
        if is_initial(start):
            return self._lookup.begin().to_json()
        self.committed(start)
        stored = Positions.from_json(start)
        sound = self._continuity.checked(stored)
        self.latest = self._newest() if self._target is None else self._present(self._continuity.still(self._target))
        starts = self._continuity.starts(stored, sound, self.latest)
        begins = {partition: position.offset for partition, position in starts.items()}
        ends = {partition: max(begins[partition], self.latest.at[partition].offset) for partition in starts}
        if limits:
            if self._is_too_little(begins, ends):
                return start
            ends = self._limited(begins, ends)
        # Where nothing is read the epoch stays as it was: Spark takes any difference for news.
        at = {
            partition: starts[partition] if end == begins[partition] else Position(end, self.latest.at[partition].epoch)
            for partition, end in ends.items()
        }
        at |= self._continuity.missing(sound)
        return Positions({topic: sound.topic_id(topic) or self.latest.topic_id(topic) for topic, _ in at}, at).to_json()

    def _limited(
        self, begins: Mapping[TopicPartition, int], ends: dict[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        if self._options.max_offsets is not None:
            ends = planning.limited(begins, ends, self._options.max_offsets)
        if self._options.max_bytes is not None and planning.backlog(begins, ends) > FEW:
            most = self._options.max_bytes / self._sizes.mean(begins, ends)
            ends = planning.limited(begins, ends, max(1, int(most)))
        return ends

    def _present(self, positions: Positions) -> Positions:
        absent = self._continuity.missing(positions)
        return Positions(positions.topic_ids, {each: at for each, at in positions.at.items() if each not in absent})

    def _newest(self) -> Positions:
        found = self._continuity.found
        return Positions(found.topic_ids, self._lookup.latest(found.partitions))

    def _is_too_little(self, begins: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> bool:
        """Whether to wait for minOffsetsPerTrigger: not beyond maxTriggerDelay, and never with AvailableNow."""
        least = self._options.min_offsets
        if least is None or self._target is not None:
            return False
        now = time.monotonic()
        overdue = now - self._last_batch_at >= self._options.max_delay
        if not overdue and planning.backlog(begins, ends) < least:
            return True
        self._last_batch_at = now
        return False

    def ranges(self, start: dict[str, Any], end: dict[str, Any]) -> list[OffsetRange]:
        if is_initial(start):
            return []
        return self._continuity.ranges(Positions.from_json(start), Positions.from_json(end))
