"""A pipeline in a test: records in, rows out, and processes that die on the way.

The pipeline is the user's own, from its file or from Python; its query is run by Spark as `highwater pipeline land`
runs it. The cluster, the table's folder and the checkpoint are those of the test.
"""

from __future__ import annotations

import itertools
import json
import shutil
import time
import uuid
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession

from highwater.client.admin import Admin
from highwater.client.producer import Producer, partition_for_key
from highwater.model import TopicPartition
from highwater.pipeline.definition import AVAILABLE_NOW, Definition
from highwater.pipeline.failures import failure_of
from highwater.pipeline.fluent import Pipeline
from highwater.pipeline.kill_points import FORMATS, POINTS, arm, disarm, is_armed, killable
from highwater.pipeline.landing.reading import rows_of
from highwater.pipeline.query import session, sole_driver, start, transform_of
from highwater.pipeline.readiness import check_clusters
from highwater.pipeline.secrecy import is_secured
from highwater.pipeline.yaml_file import load

if TYPE_CHECKING:
    from highwater.cluster.cluster import Cluster
    from highwater.cluster.reading import StoredRecord

MASTER = "local[2]"
PLACE = ("_topic", "_partition", "_offset")
ELSEWHERE = ("catalog.", "storage.")
"""Options of a table that say where it is."""

Value = bytes | str | Mapping[str, Any] | list[Any] | None


class PipelineRunner:
    """One pipeline in one test."""

    def __init__(self, definition: Definition, cluster: Cluster, folder: Path, partitions: int) -> None:
        if definition.sink_format != "highwater-table":
            raise ValueError(f"{definition.name} writes to a topic: pipeline_runner is for pipelines that land a table")
        self._definition = _here(definition, cluster.bootstrap_servers, folder)
        self._cluster = cluster
        self._partitions = partitions
        self._points = folder / "kill-points"
        self._topics: list[str] = []
        self._turns = itertools.count()
        self.table = folder / "table"
        self.checkpoint = folder / "checkpoint"
        subscribed = definition.source.get("subscribe")
        for topic in [*(subscribed.split(",") if subscribed else []), definition.dead_letter_topic]:
            if topic:
                self._create(topic)

    def send(
        self, *values: Value, topic: str | None = None, key: bytes | None = None, partition: int | None = None
    ) -> None:
        """Writes records, and returns when they are acknowledged. What is neither bytes nor text is sent as JSON; None
        is a record without a value. The topic can be left out if the pipeline reads one."""
        chosen = topic or self._only_topic()
        self._create(chosen)
        with self._cluster.client() as client:
            producer = Producer(client)
            for value in values:
                at = self._place(key, partition)
                producer.send(TopicPartition(chosen, at), [(time.time_ns() // 1_000_000, key, _bytes(value), ())])

    def land(
        self, kill: str | None = None, *, lose_checkpoint: bool = False, seconds: float = 120.0
    ) -> list[dict[str, Any]]:
        """Lands all that the topics have, and gives all rows of the table.

        With `kill`, one of "planned", "fetched", "before-commit" and "after-commit", the process that comes to that
        point of a batch is killed with SIGKILL, and the query is started again, as `highwater pipeline land` does. With
        `lose_checkpoint` the checkpoint is gone by then.
        """
        if kill is not None and kill not in POINTS:
            raise ValueError(f"kill is {kill!r}: it must be one of {', '.join(POINTS)}")
        if kill is not None:
            arm(self._points, kill)
        failures = 0
        while True:
            was_armed = kill is not None and is_armed(self._points, kill)
            try:
                self._attempt(seconds)
                break
            except Exception as error:
                if was_armed and kill is not None and not is_armed(self._points, kill):
                    if lose_checkpoint:
                        shutil.rmtree(self.checkpoint)
                    continue
                failures += 1
                failure = failure_of(error)
                wait = None if failure.is_final else self._definition.restart.wait(failures)
                if wait is None:
                    raise
                time.sleep(wait)
        if kill is not None and is_armed(self._points, kill):
            disarm(self._points, kill)
            raise AssertionError(
                f"nothing was killed: no batch came to the point {kill!r}, since all had landed before"
            )
        return self.rows()

    def rows(self) -> list[dict[str, Any]]:
        """Of the table, as its format's own reader gives them, by partition and offset if they are kept."""
        if not self.table.exists():
            return []
        found = rows_of(self._definition.sink)
        names = [name for name in PLACE if name in found.column_names]
        rows: list[dict[str, Any]] = found.to_pylist()
        return sorted(rows, key=lambda row: [row[name] for name in names])

    def dead_letters(self) -> list[StoredRecord]:
        """With the place and the reason in their headers."""
        topic = self._definition.dead_letter_topic
        if topic is None:
            raise ValueError(f"{self._definition.name} has no topic for dead letters (decode.dead_letters)")
        return self._cluster.records(topic)

    def close(self) -> None:
        """The cluster may be another test's as well: what was created in it is deleted."""
        if self._topics:
            with self._cluster.client() as client:
                Admin(client).delete_topics(self._topics)

    def _attempt(self, seconds: float) -> None:
        definition = self._definition
        transform = transform_of(definition)
        check_clusters(definition)
        with sole_driver(definition):
            spark = SparkSession.getActiveSession() or session(definition, MASTER)
            for each in killable(self._points):
                spark.dataSource.register(each)
            query = start(spark, definition, transform, FORMATS)
            try:
                if not query.awaitTermination(int(seconds)):
                    raise TimeoutError(f"{definition.name} has not landed everything within {seconds:g} s")
            finally:
                query.stop()

    def _create(self, topic: str) -> None:
        if topic not in self._topics:
            self._cluster.create_topic(topic, self._partitions)
            self._topics.append(topic)

    def _only_topic(self) -> str:
        topics = self._definition.source.get("subscribe", "").split(",")
        if len(topics) != 1 or not topics[0]:
            raise ValueError(f"{self._definition.name} does not read a single topic: name one with topic=")
        return topics[0]

    def _place(self, key: bytes | None, partition: int | None) -> int:
        if partition is not None:
            return partition
        return next(self._turns) % self._partitions if key is None else partition_for_key(key, self._partitions)


def defined(pipeline: str | Path | Pipeline) -> Definition:
    return pipeline.definition(AVAILABLE_NOW) if isinstance(pipeline, Pipeline) else load(Path(pipeline))


def _here(definition: Definition, servers: str, folder: Path) -> Definition:
    """The pipeline, with the cluster and the folder of the test. A group of that name may have the offsets of another
    test, and what is sent before the first landing is to be read."""
    source = {name: value for name, value in definition.source.items() if not is_secured([name])}
    source |= {"kafka.bootstrap.servers": servers, "startingOffsets": "earliest"}
    group = None
    if definition.group is not None:
        source["kafka.group.id"] = group = f"{definition.group}-{uuid.uuid4()}"
    sink = {name: text for name, text in definition.sink.items() if not name.startswith(ELSEWHERE) and name != "name"}
    sink["path"] = str(folder / "table")
    checkpoint = str(folder / "checkpoint")
    return replace(
        definition,
        source=source,
        group=group,
        sink=sink,
        checkpoint=checkpoint,
        trigger=AVAILABLE_NOW,
        metrics_port=None,
        upkeep=None,
    )


def _bytes(value: Value) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    return (value if isinstance(value, str) else json.dumps(value)).encode()
