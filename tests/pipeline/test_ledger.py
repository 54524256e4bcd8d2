"""The ledger fails, and says why: a record dropped, a row doubled, a row of nobody's, a fault that did not happen."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pyarrow as pa
import pytest

from highwater.audit import Outcome, Read, Sent
from highwater.model import TopicPartition
from highwater.pipeline.landing.files import FileShape, stage
from tests.cluster.feed import Feed
from tests.cluster.stage import Stage
from tests.pipeline.drivers import Driver, Target
from tests.pipeline.ledger import Account, Ledger, check, table_rows
from tests.pipeline.test_exactly_once import POINTS, Scene
from tests.unit.pipeline.landing.tables import FORMATS, numbered, table_of

PLACES = [TopicPartition("orders", index) for index in range(2)]
SENDS = [Sent(place, b"%d/%d" % (place.partition, n), "feed", Outcome.ACKED, n) for place in PLACES for n in range(10)]
ROWS = [Read(sent.partition, sent.offset, sent.value) for sent in SENDS]
UNANSWERED = Sent(PLACES[1], b"1/unanswered", "feed", Outcome.UNKNOWN)
KILL = "a leader is killed"


def account(rows: list[Read], sends: list[Sent] = SENDS, *, killed: bool = True) -> Account:
    ledger = Ledger(KILL)
    if killed:
        ledger.happened(KILL, "node 2 of epoch 3, followed by node 1")
    return ledger.account("delta", sends, rows)


def test_every_record_once_in_any_order_and_every_fault_seen_is_no_problem() -> None:
    kept = account(ROWS[::-1])
    assert kept.problems == []
    check([kept])
    assert "every acknowledged record once" in kept.text()
    assert f"{KILL}: node 2 of epoch 3, followed by node 1" in kept.text()


def test_an_acknowledged_record_that_was_dropped_is_missing_and_named() -> None:
    [problem] = account([*ROWS[:13], *ROWS[14:]]).problems
    assert problem.startswith("delta: 1 missing, the first is ")
    assert "b'1/3'" in problem and "partition=1" in problem and "offset=3" in problem


def test_a_row_that_is_there_twice_is_doubled_and_named() -> None:
    [problem] = account([*ROWS, ROWS[4]]).problems
    assert problem.startswith("delta: 1 doubled, the first is ") and "b'0/4'" in problem


def test_a_row_that_was_not_sent_is_foreign_and_named() -> None:
    [problem] = account([*ROWS, Read(PLACES[0], 10, b"of nobody")]).problems
    assert problem.startswith("delta: 1 foreign, the first is ") and "of nobody" in problem


def test_a_record_that_was_refused_is_foreign() -> None:
    refused = Sent(PLACES[0], b"refused", "feed", Outcome.FAILED)
    assert account(ROWS, [*SENDS, refused]).problems == []
    [problem] = account([*ROWS, Read(PLACES[0], 10, b"refused")], [*SENDS, refused]).problems
    assert problem.startswith("delta: 1 foreign")


def test_a_row_with_another_place_or_another_value_is_changed() -> None:
    elsewhere = [*ROWS[:-1], ROWS[-1]._replace(offset=11)]
    assert [problem[:16] for problem in account(elsewhere).problems] == ["delta: 1 changed"]
    other = [*ROWS[:-1], ROWS[-1]._replace(value=b"other")]
    assert [problem[:16] for problem in account(other).problems] == ["delta: 1 missing", "delta: 1 foreign"]


@pytest.mark.parametrize("times", [0, 1, 2])
def test_a_record_without_an_answer_may_be_there_once_or_not(times: int) -> None:
    kept = account([*ROWS, *times * [Read(PLACES[1], 10, UNANSWERED.value)]], [*SENDS, UNANSWERED])
    assert kept.unknown == 1
    assert [problem[:16] for problem in kept.problems] == ([] if times < 2 else ["delta: 1 doubled"])


def test_a_fault_that_was_left_out_is_a_problem_though_the_table_is_right() -> None:
    left_out = account(ROWS, killed=False)
    assert left_out.problems == [f"delta: not seen to happen: {KILL}"]
    with pytest.raises(AssertionError, match=f"(?s)NOT KEPT.*{KILL}: NOT SEEN"):
        check([account(ROWS), left_out])


def test_a_fault_that_was_not_promised_is_refused() -> None:
    with pytest.raises(ValueError, match="nobody promised 'a flood'"):
        Ledger(KILL).happened("a flood", "wet")


def test_a_run_without_any_acknowledged_record_shows_nothing() -> None:
    assert account([], []).problems == ["delta: no record was acknowledged, so nothing is shown"]


class Spared(Driver):
    """One that nobody kills."""

    def kill(self) -> None:
        pass


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    running = subprocess.Popen(["sleep", "600"])
    yield running
    running.kill()
    running.wait()


class Prompt(Target):
    """Its query comes to the point as soon as that is armed, by its own words."""

    def arm(self, point: str) -> None:
        super().arm(point)
        note = {"point": point, "pid": 1, "batch": "1" if point == "fetched" else None}
        self.beside("parked").write_text(json.dumps(note))


def standing_at(point: str, folder: Path) -> Target:
    """A query whose batch 1 is at this point, by its logs and its table."""
    target = Prompt("parquet", folder)
    table = table_of("parquet", target.path)
    schema = pa.schema([("n", pa.int64())])
    for batch in range(2 if point == "landed" else 1):
        rows = [pa.RecordBatch.from_pydict({"n": [batch]}, schema=schema)]
        table.commit(numbered("query", batch), stage(rows, schema, FileShape(), table.prepare(schema), "part"))
    for log, batches in (("offsets", 2), ("commits", 1)):
        (target.checkpoint / log).mkdir(parents=True)
        for batch in range(batches):
            (target.checkpoint / log / str(batch)).touch()
    (target.checkpoint / "metadata").write_text('{"id": "query"}')
    return target


def scene_of(target: Target, driver: Driver, running: subprocess.Popen[bytes]) -> Scene:
    driver._process = running
    feed = Feed("127.0.0.1:1", "landed", 1, "feed")
    return Scene(cast(Stage, None), "landed", feed, driver, [target], Ledger(KILL))


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("kind", [Driver, Spared], ids=["killed", "spared"])
def test_a_driver_that_was_spared_at_its_point_is_a_fault_that_was_left_out(
    point: str, kind: type[Driver], tmp_path: Path, process: subprocess.Popen[bytes]
) -> None:
    target = standing_at(point, tmp_path)
    driver = kind(tmp_path, "127.0.0.1:1", "landed", [target])
    scene = scene_of(target, driver, process)
    scene.kill_driver_at({target: point}, {target: KILL})
    problems = scene.ledger.account("parquet", SENDS, ROWS).problems
    if kind is Driver:
        assert problems == []
    else:
        assert problems == [f"parquet: not seen to happen: {KILL}"]
        with pytest.raises(AssertionError, match="the driver before this one still runs"):
            driver.start()


@pytest.mark.parametrize("point", POINTS)
def test_a_kill_at_a_point_where_the_query_is_not_is_refused(
    point: str, tmp_path: Path, process: subprocess.Popen[bytes]
) -> None:
    elsewhere = "planned" if point == "landed" else "landed"
    target = standing_at(elsewhere, tmp_path)
    scene = scene_of(target, Driver(tmp_path, "127.0.0.1:1", "landed", [target]), process)
    with pytest.raises(AssertionError):
        scene.kill_driver_at({target: point}, {target: KILL})
    assert scene.ledger.account("parquet", SENDS, ROWS).problems == [f"parquet: not seen to happen: {KILL}"]


@pytest.mark.parametrize("kind", FORMATS)
def test_rows_are_read_as_a_multiset_from_every_format(tmp_path: Path, kind: str) -> None:
    schema = pa.schema(
        [("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64()), ("value", pa.binary())]
    )
    table = table_of(kind, tmp_path / "table")
    twice = [ROWS[0], ROWS[0], ROWS[15]]
    rows = [dict(zip(schema.names, (*row.partition, *row[1:]), strict=True)) for row in twice]
    batch = pa.RecordBatch.from_pylist(rows, schema=schema)
    table.commit(numbered("query", 0), stage([batch], schema, FileShape(), table.prepare(schema), "part"))
    assert sorted(table_rows(kind, tmp_path / "table")) == twice
