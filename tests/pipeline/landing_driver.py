"""A driver of its own, to be killed: `python -m tests.pipeline.landing_driver <folder>`.

For each format a query whose tasks fail once and are tried again, and two that stop at a named point of their second
batch. When those stand there and the others have ended, the driver kills the JVM and itself without a word to anybody.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession

from tests.pipeline.landing import FORMATS, SINKS, beside, landing, stream

CRASHES = ("after-commit", "before-commit")
SECONDS = 700


def main(folder: Path) -> None:
    spark = (
        SparkSession.builder.master("local[2,4]")
        .config("spark.driver.memory", "1g")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "Europe/Berlin")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.python.unix.domain.socket.enabled", "true")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    for sink in SINKS:
        spark.dataSource.register(sink)
    rows = stream(spark, folder / "source")
    tables = [(kind, crash, folder / f"{kind}-{crash}") for kind in FORMATS for crash in (*CRASHES, "failing-task")]
    queries = {
        path: landing(rows, crash, kind, path, beside(str(path), "checkpoint")).start() for kind, crash, path in tables
    }
    for _, crash, path in tables:
        if crash == "failing-task":
            queries[path].awaitTermination()
    deadline = time.monotonic() + SECONDS
    while len(list(folder.glob("*.parked"))) < len(FORMATS) * len(CRASHES):
        if time.monotonic() > deadline:
            raise TimeoutError("not every query came to the point where it is to die")
        time.sleep(0.05)
    os.kill(spark.sparkContext._gateway.proc.pid, signal.SIGKILL)  # type: ignore[union-attr]
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
