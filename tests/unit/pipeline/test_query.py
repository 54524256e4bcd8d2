"""What Spark reports of a batch, in records: in direct mode its own count would be one of ranges."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from highwater.model import TopicPartition
from highwater.pipeline.checkpoint import Checkpoint, InUse, Landed
from highwater.pipeline.definition import Definition, define
from highwater.pipeline.offsets import INITIAL, Position, Positions
from highwater.pipeline.query import Report, follow, report, sole_driver, transform_of


def positions(*offsets: int) -> dict[str, Any]:
    return Positions({}, {TopicPartition("t", index): Position(at) for index, at in enumerate(offsets)}).to_json()


def progress(start: Any, end: Any, latest: Any) -> dict[str, Any]:
    source = {"startOffset": start, "endOffset": end, "latestOffset": latest, "numInputRows": 2}
    return {"batchId": 7, "id": "abc", "durationMs": {"triggerExecution": 250}, "sources": [source]}


def test_rows_are_counted_by_offsets_and_lag_by_what_is_left() -> None:
    seen = report(progress(positions(10, 5), positions(30, 5), positions(31, 9)))
    assert seen == Report(batch_id=7, records=20, rows=20, seconds=0.25, lag=5, query_id="abc")


def test_records_are_counted_by_offsets_and_rows_by_what_landed() -> None:
    seen = report(progress(positions(10, 5), positions(30, 5), positions(31, 9)), Landed(18, 2, 300, 1))
    assert (seen.files, seen.size, seen.bad) == (2, 300, 1)
    assert (seen.records, seen.rows) == (20, 18)
    none_fitted = report(progress(positions(10, 5), positions(30, 5), positions(31, 9)), Landed(0))
    assert (none_fitted.records, none_fitted.rows) == (20, 0)


def test_the_first_batch_which_only_finds_the_start_has_no_rows() -> None:
    assert report(progress(INITIAL, positions(10, 5), positions(10, 5))).records == 0
    assert report(progress(None, positions(10, 5), None)).lag == 0


def test_a_partition_that_is_new_counts_from_where_it_was_first_seen() -> None:
    assert report(progress(positions(10), positions(12, 4), positions(12, 4))).records == 2


def test_progress_counts_a_topic_created_again_from_its_start_and_a_cut_log_not_at_all() -> None:
    def of(life: str, offset: int) -> dict[str, Any]:
        return Positions({"t": life}, {TopicPartition("t", 0): Position(offset)}).to_json()

    assert report(progress(of("first", 20), of("second", 5), of("second", 9))) == Report(7, 5, 5, 0.25, 4, "abc")
    assert report(progress(of("first", 20), of("first", 12), of("first", 12))).records == 0
    assert report(progress(positions(20), positions(12), positions(12))).records == 0


def test_a_batch_that_comes_after_a_pause_is_counted_and_the_pause_is_none(tmp_path: Path) -> None:
    """Spark gives the number of the next batch to a pause."""
    at_1, at_2 = positions(10), positions(12)
    batch = progress(at_1, at_2, at_2) | {"numInputRows": 1, "durationMs": {"addBatch": 200, "triggerExecution": 250}}
    pause = progress(at_1, at_1, at_1) | {"numInputRows": 0, "durationMs": {"latestOffset": 1, "triggerExecution": 1}}
    pause["timestamp"] = "2030-01-01T00:00:00.000Z"
    later = pause | {"timestamp": "2030-01-01T00:00:10.000Z"}

    query: Any = Query([pause], [pause, batch], [pause, batch, later])
    looks: list[int] = []
    seen = list(follow(query, definition(tmp_path, "json:loads"), lambda: False, lambda: looks.append(1)))
    assert len(looks) == 2, "Spark looked twice, though it shows the first look again and again"
    assert [(each.batch_id, each.records) for each in seen] == [(7, 2)]


def test_the_rows_of_a_topic_are_those_that_spark_has_read(tmp_path: Path) -> None:
    """Offsets have gaps, of compaction and of transactions. There is no table that would know how many came."""
    at_1, at_2 = positions(10), positions(30)
    batch = progress(at_1, at_2, at_2) | {"numInputRows": 12, "durationMs": {"addBatch": 200, "triggerExecution": 250}}
    source = {"bootstrap_servers": "127.0.0.1:9092", "topic": "t"}
    into_a_topic = {"name": "n", "source": source, "sink": {"topic": "copy"}, "transform": "json:loads"}
    query: Any = Query([batch])
    [seen] = follow(query, define(into_a_topic, tmp_path), lambda: False)
    assert (seen.records, seen.rows) == (20, 12)


class Query:
    """Spark's, as far as it is looked at: its progress at each look. It ends with the last."""

    def __init__(self, *looks: list[dict[str, Any]]) -> None:
        self._looks = list(looks)
        self.recentProgress: list[Any] = []

    def awaitTermination(self, _: float) -> bool:
        self.recentProgress = [SimpleNamespace(json=json.dumps(each)) for each in self._looks.pop(0)]
        return not self._looks


def definition(folder: Path, transform: str) -> Definition:
    source = {"bootstrap_servers": "127.0.0.1:9092", "topic": "t"}
    sink = {"table": "delta", "path": "table"}
    return define({"name": "n", "source": source, "sink": sink, "transform": transform}, folder)


def test_a_transform_is_found_in_its_file(tmp_path: Path) -> None:
    (tmp_path / "found_here.py").write_text("def double(frame):\n    return frame * 2\n")
    function = transform_of(definition(tmp_path, "found_here.py:double"))
    assert function is not None
    assert function(21) == 42


@pytest.mark.parametrize(
    ("named", "reason"),
    [
        ("nowhere.py:f", "there is no file"),
        ("no_such_module_here:f", "no_such_module_here cannot be imported"),
        ("json:no_such_function", "json has no function no_such_function"),
    ],
)
def test_a_transform_that_is_not_there_is_named(tmp_path: Path, named: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        transform_of(definition(tmp_path, named))


def test_a_driver_that_was_given_the_lock_of_another_checkpoint_is_refused_one_that_is_in_use(tmp_path: Path) -> None:
    """As a worker is whose definition was edited since `land` read it."""

    def of(checkpoint: Path) -> Definition:
        source = {"bootstrap_servers": "127.0.0.1:1", "topic": "orders"}
        sink = {"table": "delta", "path": str(tmp_path / "table")}
        return define({"name": "orders", "source": source, "checkpoint": str(checkpoint), "sink": sink}, tmp_path)

    own, edited = tmp_path / "own", tmp_path / "edited"
    with Checkpoint(own).locked() as lock:
        with sole_driver(of(own), lock), Checkpoint(edited).locked():
            pass
        with Checkpoint(edited).locked(), pytest.raises(InUse), sole_driver(of(edited), lock):
            pass
        with sole_driver(of(edited), lock), pytest.raises(InUse), Checkpoint(edited).locked():
            pass
