"""The fixture by which users test a pipeline: the page's own example, and what it does where nothing can be shown."""

from __future__ import annotations

import os
import random
import secrets
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from highwater.pipeline import Pipeline
from highwater.pipeline.definition import Definition
from highwater.pipeline.kill_points import POINTS
from highwater.pipeline.project import USUAL_SERVERS, write_project
from highwater.pipeline.query import session
from tests.pipeline.test_documents import blocks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from highwater.cluster import Cluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

Runner = Callable[..., Any]
LOSSES = int(os.environ.get("HIGHWATER_CHECKPOINT_LOSSES", "0"))
[EXAMPLE] = [block for block in blocks("docs/pipeline.md", "python") if "pipeline_runner" in block]


@pytest.fixture
def pasted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The tests of the page, in the project that `pipeline init` writes."""
    write_project(tmp_path / "project", USUAL_SERVERS)
    monkeypatch.chdir(tmp_path / "project")
    known: dict[str, Any] = {}
    exec(compile(EXAMPLE, "docs/pipeline.md", "exec"), known)
    return known


def test_the_example_lands_orders_and_finds_the_broken_one(
    spark: SparkSession, pasted: dict[str, Any], pipeline_runner: Runner
) -> None:
    pasted["test_orders_land_and_broken_ones_are_dead_letters"](pipeline_runner)
    assert spark.range(3).count() == 3, "a session of the user's goes on"


@pytest.mark.parametrize("point", POINTS)
def test_the_example_lands_once_whatever_is_killed(
    spark: SparkSession, pasted: dict[str, Any], pipeline_runner: Runner, point: str
) -> None:
    test = pasted["test_orders_land_once_whatever_is_killed"]
    assert test.pytestmark[0].args == ("point", list(POINTS))
    test(pipeline_runner, point)


def doubled(orders: Any) -> Any:
    return orders.selectExpr("_topic", "_partition", "_offset", "id * 2 AS id")


def test_a_session_that_is_there_is_taken_as_it_is_and_what_it_lacks_is_named(
    spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    zone = spark.conf.get("spark.sql.session.timeZone")
    conf = {"spark.sql.session.timeZone": zone or "", "spark.sql.shuffle.partitions": "7"}
    definition = Definition("asking", {}, "", {}, "", "", "", master="local[9]", conf=conf)
    assert session(definition) is spark
    [said] = [record.message for record in caplog.records]
    assert said.endswith("taken as it is, so without spark.sql.shuffle.partitions, spark.master")
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"


def test_a_pipeline_in_python_with_a_transform_goes_on_without_its_checkpoint(
    spark: SparkSession, pipeline_runner: Runner
) -> None:
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Seoul")
    pipeline = Pipeline("halves").source("elsewhere:9092", topic=["one", "two"], decode="json", schema="id BIGINT")
    run = pipeline_runner(pipeline.transform(doubled).sink(table="iceberg", path="lake/halves"))
    try:
        assert run.rows() == []
        run.send({"id": 1}, None, topic="one", partition=2)
        assert [row["id"] for row in run.land(kill="fetched")] == [2, None]
        shutil.rmtree(run.checkpoint)
        run.send('{"id": 2}', topic="two")
        assert [row["id"] for row in run.land()] == [2, None, 4]
        assert spark.conf.get("spark.sql.session.timeZone") == "Asia/Seoul", "settings of a session are its owner's"
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone or "UTC")
    with pytest.raises(ValueError, match="halves does not read a single topic: name one with topic="):
        run.send({"id": 3})
    with pytest.raises(ValueError, match="halves has no topic for dead letters"):
        run.dead_letters()
    with pytest.raises(ValueError, match="kill is 'later': it must be one of planned, fetched, before-commit"):
        run.land(kill="later")


@pytest.mark.parametrize("kind", ["delta", "iceberg", "parquet"] if LOSSES else ["delta"])
def test_the_checkpoint_is_lost_at_random_moments_again_and_again(
    spark: SparkSession, pipeline_runner: Runner, kind: str
) -> None:
    """In every run twice, after the commit first; HIGHWATER_CHECKPOINT_LOSSES=n for n times in each format."""
    seed = int(os.environ.get("HIGHWATER_SEED", secrets.randbelow(1_000_000)))
    print(f"\nseed {seed}")
    draw = random.Random(seed)
    source = Pipeline("lossy").source(
        "a:1", topic="lossy", decode="json", schema="id BIGINT", max_offsets_per_trigger=4
    )
    run = pipeline_runner(source.sink(table=kind, path="table"))
    sent = 0
    for point in ["after-commit", *(draw.choice(POINTS) for _ in range((LOSSES or 2) - 1))]:
        count = draw.randrange(1, 12)
        run.send(*({"id": number} for number in range(sent, sent + count)))
        sent += count
        rows = run.land(kill=point, lose_checkpoint=True)
        assert sorted(row["id"] for row in rows) == list(range(sent)), point


def test_a_kill_that_no_batch_comes_to_is_an_error(spark: SparkSession, pipeline_runner: Runner) -> None:
    run = pipeline_runner(Pipeline("idle").source("a:1", topic="idle").sink(table="parquet", path="table"))
    run.send(b"a")
    assert [row["value"] for row in run.land()] == [b"a"]
    with pytest.raises(AssertionError, match="nothing was killed: no batch came to the point 'after-commit'"):
        run.land(kill="after-commit")
    assert len(run.land()) == 1


def test_what_would_fail_again_is_raised_and_a_topic_is_no_table(spark: SparkSession, pipeline_runner: Runner) -> None:
    def spoil(rows: Any) -> Any:
        return rows.selectExpr("no_such_column")

    run = pipeline_runner(
        Pipeline("spoilt").source("a:1", topic="spoilt").transform(spoil).sink(table="delta", path="table")
    )
    run.send(b"a")
    with pytest.raises(Exception, match="no_such_column"):
        run.land()
    with pytest.raises(ValueError, match="relay writes to a topic: pipeline_runner is for pipelines that land a table"):
        pipeline_runner(Pipeline("relay").source("a:1", topic="from").sink(topic="to"))


def test_the_topics_of_a_test_are_gone_after_it(kafka_cluster: Cluster) -> None:
    """The tests above have named the same topics again and again."""
    for topic in ("orders", "orders.bad", "one", "idle"):
        assert not kafka_cluster.view(topic).partitions
