"""One Spark session and one cluster per worker process: a session takes ten seconds to start."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from highwater.cluster import Cluster
from tests.apache import ROOT, quick_start
from tests.pipeline.quick_python import written_to

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONNECTOR_JARS = ROOT / ".apache/spark-kafka.txt"

# Read by whatever starts a driver: the session of the tests, drivers that are there to be killed, `highwater pipeline`.
os.environ |= {"SPARK_SUBMIT_OPTS": shlex.join(quick_start("spark")), "SPARK_LOCAL_IP": "127.0.0.1"}

NewRecord = tuple[int, bytes | None, bytes | None]
"""Partition, key and value of a record to be produced."""


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """local[2], with Spark's own Kafka connector beside ours where `make setup` has fetched its jars."""
    from pyspark.sql import SparkSession

    python = written_to(tmp_path_factory.mktemp("python") / "python", sources=["tests.pipeline.landing"])
    jars = CONNECTOR_JARS.read_text().strip().replace(":", ",") if CONNECTOR_JARS.is_file() else ""
    builder = (
        SparkSession.builder.master("local[2]")
        .appName("highwater-tests")
        .config("spark.driver.memory", "1g")
        .config("spark.jars", jars)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.python.unix.domain.socket.enabled", "true")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .config(
            "spark.sql.streaming.checkpointFileManagerClass",
            "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager",
        )
    )
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PYSPARK_PYTHON", str(python))
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture
def official_connector() -> None:
    """Skips where the jars of Spark's own Kafka connector are missing; set-up provides them."""
    if not CONNECTOR_JARS.is_file():
        pytest.skip("the jars of Spark's Kafka connector are not there: run `make setup`")


@pytest.fixture(scope="package")
def cluster() -> Iterator[Cluster]:
    """Our three brokers; leave them running, and use topic names of your own. They run in this process, so they end
    with these tests: tests of other packages change classes that they are made of."""
    with Cluster(brokers=3) as brokers:
        yield brokers


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    return str(tmp_path / "checkpoint")


@pytest.fixture(scope="session")
def produce() -> Callable[..., None]:
    """`produce(bootstrap_servers, topic, records)` returns when all of them are acknowledged; timestamp 0 is now."""

    def act(bootstrap_servers: str, topic: str, records: Iterable[NewRecord], timestamp: int = 0) -> None:
        refused: list[str] = []
        producer = Producer({"bootstrap.servers": bootstrap_servers, "linger.ms": 5, "log_level": 0})
        for partition, key, value in records:
            producer.produce(
                topic,
                key=key,
                value=value,
                partition=partition,
                timestamp=timestamp,
                on_delivery=lambda error, _: refused.append(str(error)) if error else None,
            )
        left = producer.flush(120)
        if left or refused:
            raise RuntimeError(
                f"{left} records of {topic} were not acknowledged, {len(refused)} refused: {refused[:1]}"
            )

    return act
