"""Archives of the classes that JVMs of tests load: `python -m tests.class_archives`, which `make test` does once.

A JVM that maps one need not read, check and link ten thousand classes again, which is half of what it does in a small
test. Tests do without an archive that is not there, and a JVM without one that another Java has made.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.apache import (
    COMPILED_TOOL_HOST,
    QUICK_START,
    TOOL_HOST,
    ApacheKafka,
    Call,
    ToolHost,
    archive_of,
    classpath_file,
)

NOT_OF_THIS_DRIVER = (
    "org.apache.spark.api.python.PythonGatewayServer",
    "org.apache.spark.deploy.master.Master",
    "org.apache.spark.deploy.worker.Worker",
    "org.apache.spark.executor.CoarseGrainedExecutorBackend",
)
"""What JVMs of Spark begin with elsewhere."""

PATIENCE_SECONDS = 600
"""A JVM that is killed while it writes leaves half an archive, and no other JVM would survive that."""


def unfinished(jvms: str) -> Path:
    return archive_of(jvms).with_suffix(".new")


def archiving(jvms: str) -> list[str]:
    """Options of a JVM that leaves an archive behind when it ends in order."""
    return [*QUICK_START, f"-XX:ArchiveClassesAtExit={unfinished(jvms)}", "-Xlog:disable"]


def archive_kafka(folder: Path) -> None:
    """Of a broker, and of tools that write to it and read from it."""
    COMPILED_TOOL_HOST.unlink(missing_ok=True)  # no archive is made with a folder on the class path
    kafka = ApacheKafka(folder, jvm_options=archiving("broker")).start()
    server, topic = ("--bootstrap-server", kafka.bootstrap), ("--topic", "archived")
    first = ("--from-beginning", "--max-messages=1")
    calls = [
        Call("org.apache.kafka.tools.TopicCommand", [*server, *topic, "--create"]),
        Call("kafka.admin.ConfigCommand", [*server, *topic, "--describe"]),
        Call("org.apache.kafka.tools.ConsoleProducer", [*server, *topic], "record\n"),
        Call("org.apache.kafka.tools.consumer.ConsoleConsumer", [*server, *topic, *first]),
    ]
    tools = ToolHost(*archiving("tools"))
    try:
        if failed := [ran for ran in tools.run(calls) if ran.rc != 0]:
            raise RuntimeError(f"a tool of Apache Kafka failed: {failed}")
        tools.end(PATIENCE_SECONDS)
    finally:
        tools.close()
        kafka.stop(PATIENCE_SECONDS)
    classpath = classpath_file().read_text().strip()
    subprocess.run(["javac", "-cp", classpath, "-d", str(COMPILED_TOOL_HOST.parent), str(TOOL_HOST)], check=True)


def archive_spark(folder: Path) -> None:
    """Of a driver that lands a batch: this file again, started by Spark."""
    submit = [str(Path(sys.executable).with_name("spark-submit")), "--master", "local[2]", __file__, str(folder)]
    options = {"SPARK_SUBMIT_OPTS": shlex.join(archiving("spark")), "SPARK_LOCAL_IP": "127.0.0.1"}
    python = {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run(submit, env=os.environ | options | python, check=True, stderr=subprocess.DEVNULL)


def land_a_batch(folder: str) -> None:
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.config("spark.ui.enabled", "false").getOrCreate()
    spark.range(10).write.parquet(f"{folder}/source")
    rows = spark.readStream.schema("id bigint").parquet(f"{folder}/source")
    sink = rows.writeStream.format("highwater-table").options(table="parquet", path=f"{folder}/table")
    sink.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True).start().awaitTermination()
    for name in NOT_OF_THIS_DRIVER:
        spark.sparkContext._jvm.java.lang.Class.forName(name)  # type: ignore[union-attr]
    spark.stop()


def make(archive: Callable[[Path], None], *jvms: str) -> None:
    for each in jvms:
        unfinished(each).unlink(missing_ok=True)  # of a run that was broken off
    with tempfile.TemporaryDirectory() as folder:
        archive(Path(folder))
    for each in jvms:
        unfinished(each).replace(archive_of(each))


def main() -> None:
    with ThreadPoolExecutor() as threads:
        for made in (
            threads.submit(make, archive_kafka, "broker", "tools"),
            threads.submit(make, archive_spark, "spark"),
        ):
            made.result()


if __name__ == "__main__":
    if sys.argv[1:]:
        land_a_batch(*sys.argv[1:])
    else:
        main()
