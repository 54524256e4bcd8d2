"""A table knows how far it has come, through Spark: checkpoints are lost, cut short or left without their table."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from deltalake import DeltaTable
from pyspark.errors import PySparkException

from highwater.cli.pipeline import command
from highwater.model import TopicPartition
from highwater.pipeline.checkpoint import Checkpoint
from highwater.pipeline.definition import Definition, define
from highwater.pipeline.landing.options import Landing
from highwater.pipeline.landing.position import Interval, Skip
from highwater.pipeline.landing.rule import LandingError
from highwater.pipeline.query import start
from highwater.pipeline.skipping import skip
from tests.unit.pipeline.landing.tables import read

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from highwater.cluster import Cluster

pytestmark = pytest.mark.slow

Produce = Callable[[str, str, Any], None]
MODES = pytest.mark.parametrize("mode", ["direct", "connector"])


class Orders:
    """A pipeline from a topic with one partition into a table, with a checkpoint to meddle with."""

    def __init__(self, spark: SparkSession, servers: str, produce: Produce, topic: str, folder: Path, **said: Any):
        self.spark, self.servers, self.produce, self.topic, self.folder = spark, servers, produce, topic, folder
        self.said = {
            "name": topic,
            "source": {"bootstrap_servers": servers, "topic": topic},
            "sink": {"table": "delta", "path": "table"},
            "trigger": "available-now",
        } | said

    @property
    def definition(self) -> Definition:
        return define(self.said, self.folder)

    @property
    def checkpoint(self) -> Path:
        return Path(self.definition.checkpoint)

    def add(self, first: int, end: int) -> None:
        self.produce(self.servers, self.topic, [(0, None, b"%d" % number) for number in range(first, end)])

    def land(self, transform: Callable[[DataFrame], DataFrame] | None = None) -> None:
        query = start(self.spark, self.definition, transform)
        try:
            query.awaitTermination()
        finally:
            query.stop()

    def forget_last_batch(self) -> None:
        """As a lost entry of Spark's log, or the log of another driver, leaves it."""
        last = max(int(file.name) for file in self.checkpoint.glob("offsets/[0-9]*"))
        for log in ("offsets", "commits"):
            (self.checkpoint / log / str(last)).unlink()
            (self.checkpoint / log / f".{last}.crc").unlink(missing_ok=True)

    def said_by(self, *words: str, fails: bool = False) -> str:
        """What `highwater pipeline` prints."""
        file = self.folder / "pipeline.yml"
        file.write_text(json.dumps(self.said))
        done = CliRunner().invoke(command, [*words, str(file)])
        assert bool(done.exit_code) == fails, done.output
        return done.output

    @property
    def landed(self) -> Counter[int]:
        return Counter(int(value) for value in read("delta", self.folder / "table")["value"].to_pylist())

    @property
    def intervals(self) -> tuple[Interval, ...]:
        position = Landing.from_options(self.definition.sink).table.known(self.topic).position
        assert position is not None
        [intervals] = position.at.values()
        return intervals


@pytest.fixture
def orders(
    request: pytest.FixtureRequest, spark: SparkSession, cluster: Cluster, produce: Produce, tmp_path: Path
) -> Orders:
    topic = "position-" + "".join(each if each.isalnum() else "-" for each in request.node.name)[-60:].strip("-")
    cluster.create_topic(topic, partitions=1)
    mode = request.node.callspec.params["mode"] if hasattr(request.node, "callspec") else "direct"
    return Orders(spark, cluster.bootstrap_servers, produce, topic, tmp_path, mode=mode)


@MODES
def test_a_batch_whose_log_entry_was_lost_is_not_taken_for_the_one_with_its_number(orders: Orders, mode: str) -> None:
    orders.add(0, 10)
    orders.land()
    orders.forget_last_batch()
    orders.add(10, 20)
    with pytest.raises(PySparkException, match="brings the offsets 0 to 20 of .*, and the table has 0 to 10 of it"):
        orders.land()
    assert orders.landed == Counter(range(10))
    shutil.rmtree(orders.checkpoint)
    orders.land()
    assert orders.landed == Counter(range(20)), "without a checkpoint it goes on where the table ends"
    orders.add(20, 30)
    orders.land()
    assert orders.landed == Counter(range(30))
    assert [interval[:2] for interval in orders.intervals] == [(0, 30)]


@MODES
def test_a_new_table_does_not_begin_in_the_middle(orders: Orders, mode: str) -> None:
    orders.add(0, 10)
    orders.land()
    shutil.rmtree(orders.folder / "table")
    orders.add(10, 20)
    with pytest.raises(PySparkException, match="the table is new, the checkpoint is not"):
        orders.land()
    assert orders.landed == Counter()


def test_a_query_with_a_state_does_not_go_on_without_its_checkpoint(orders: Orders) -> None:
    orders.said["mode"] = "connector"
    orders.add(0, 10)
    orders.land()
    shutil.rmtree(orders.checkpoint)
    with pytest.raises(Exception, match="the query has a state"):
        orders.land(lambda rows: rows.dropDuplicates(["value"]))
    orders.land()
    assert orders.landed == Counter(range(10))


def test_a_restored_table_goes_on_where_a_person_says(orders: Orders) -> None:
    for first in (0, 10):
        orders.add(first, first + 10)
        orders.land()
    table = DeltaTable(orders.folder / "table")
    table.restore(table.version() - 1)
    assert orders.landed == Counter(range(10))
    orders.add(20, 30)
    with pytest.raises(PySparkException, match="put back to an earlier version"):
        orders.land()
    assert json.loads(orders.said_by("position", "--export")) == {orders.topic: {"0": 20}}
    assert "has no" in orders.said_by("position", "--set", "nowhere:0:10", fails=True)
    assert "expected TOPIC:PARTITION:OFFSET" in orders.said_by("position", "--set", "orders:10", fails=True)
    with Checkpoint(orders.checkpoint).locked():
        assert "in use by another driver" in orders.said_by("position", "--set", f"{orders.topic}:0:10", fails=True)
    assert "0-10" in orders.said_by("position", "--set", f"{orders.topic}:0:10")
    with pytest.raises(PySparkException, match="no longer lands in the table"):
        orders.land()
    shutil.rmtree(orders.checkpoint)
    orders.land()
    assert orders.landed == Counter(range(30))
    ends = orders.folder / "ends.json"
    ends.write_text(json.dumps({orders.topic: {"0": 25}}))
    assert "0-25" in orders.said_by("position", "--import", str(ends))


@MODES
def test_a_record_that_is_skipped_stays_out_and_the_table_says_why(orders: Orders, mode: str) -> None:
    orders.add(0, 5)
    orders.land()
    orders.add(5, 10)
    decided = skip(orders.definition, [(TopicPartition(orders.topic, 0), 7)], "poison")
    assert [found for _, found in decided] == [Skip(7, 8, "poison")]
    for wrong, trouble in (
        (3, "the table has .* already"),
        (10, "there is no record at offset 10 of .*: it has 0 to 10"),
    ):
        with pytest.raises(LandingError, match=trouble):
            skip(orders.definition, [(TopicPartition(orders.topic, 0), wrong)], None)
    orders.land()
    assert orders.landed == Counter({*range(10)} - {7})
    assert [interval[:2] for interval in orders.intervals] == [(0, 10)]
    lines = [line.split() for line in orders.said_by("position").splitlines()]
    assert [orders.topic, "0", "7-8", "poison"] in lines


def test_the_status_shows_the_position(orders: Orders) -> None:
    orders.add(0, 10)
    orders.land()
    Path(f"{orders.checkpoint}.status.json").write_text(
        f'{{"name": "{orders.topic}", "pid": 1, "state": "finished", "rows": 10, "batches": 1, "restarts": 0, '
        '"last": null, "last_at": null, "trouble": ""}'
    )
    lines = [line.split() for line in orders.said_by("status").splitlines()]
    assert ["LANDED", "PARTITION", "OFFSETS", "EPOCH"] in lines
    [row] = [line for line in lines if line[0] == orders.topic and line[1] == "0"]
    assert row[2] == "0-10"
