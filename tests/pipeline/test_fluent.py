"""Pipelines in Python: they do what their methods say, and do not repeat what would fail again."""

from __future__ import annotations

import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

from highwater.cluster import Cluster
from highwater.pipeline import Pipeline
from tests.apache import free_ports

pytestmark = pytest.mark.slow


def test_figures_are_served_while_it_runs(
    spark: SparkSession, cluster: Cluster, produce: Callable[..., None], tmp_path: Path
) -> None:
    cluster.create_topic("measured")
    produce(cluster.bootstrap_servers, "measured", [(0, None, b"%d" % number) for number in range(10)])
    [port] = free_ports(1)
    figures: list[str] = []

    def look(frame: Any) -> Any:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
            figures.append(answer.read().decode())
        return frame

    pipeline = Pipeline("measured", metrics={"port": port}, checkpoint=str(tmp_path / "checkpoint"))
    pipeline.source(cluster.bootstrap_servers, topic="measured").transform(look)
    assert pipeline.sink(table="parquet", path=tmp_path / "table").run("available-now") == 10
    assert 'highwater_pipeline_restarts_total{pipeline="measured"} 0.0' in figures[0]


def test_a_mistake_of_the_user_s_own_is_raised_at_once(
    spark: SparkSession, cluster: Cluster, produce: Callable[..., None], tmp_path: Path
) -> None:
    cluster.create_topic("mistaken")
    produce(cluster.bootstrap_servers, "mistaken", [(0, None, b"a")])
    starts: list[int] = []

    def spoil(frame: Any) -> Any:
        starts.append(1)
        return frame.withColumn("value", udf(lambda value: len(value.nothing), "int")("value"))

    pipeline = Pipeline("mistaken", restart={"attempts": 2, "backoff": "10ms"}, checkpoint=str(tmp_path / "checkpoint"))
    pipeline.source(cluster.bootstrap_servers, topic="mistaken").transform(spoil)
    with pytest.raises(Exception, match="has no attribute 'nothing'"):
        pipeline.sink(table="parquet", path=tmp_path / "table").run("available-now")
    assert len(starts) == 1
