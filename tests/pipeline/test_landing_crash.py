"""Drivers that are killed and tasks that fail: the table is compared with what was given, as multisets."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from highwater.pipeline.landing.options import Landing
from tests.apache import ROOT
from tests.pipeline.landing import FORMATS, SINKS, Ledger, beside, landing, stream
from tests.pipeline.landing_driver import CRASHES
from tests.pipeline.quick_python import written_to
from tests.unit.pipeline.landing.tables import grow_old, ids

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

BATCHES = 2


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Ledger:
    """Lies beside the tables of a driver that was killed with six queries in it."""
    folder = tmp_path_factory.mktemp("crash")
    ledger = Ledger(folder / "source")
    ledger.add(BATCHES)
    python = written_to(folder / "python", sources=[landing.__module__])
    here = {"PYSPARK_PYTHON": str(python), "PYTHONPATH": str(ROOT)}
    driver = [sys.executable, "-m", "tests.pipeline.landing_driver", str(folder)]
    ended = subprocess.run(driver, cwd=ROOT, env=os.environ | here, timeout=800, capture_output=True, text=True)
    assert ended.returncode == -signal.SIGKILL, ended.stderr[-3000:]
    assert len(list(folder.glob("*.parked"))) == len(FORMATS) * len(CRASHES)
    return ledger


def staged_files(kind: str, path: Path) -> set[str]:
    """Files of tasks, wherever the format keeps them."""
    patterns = {"delta": "part-*.parquet", "iceberg": "data/part-*.parquet", "parquet": "_staging/part-*.staged"}
    return {str(file) for file in path.glob(patterns[kind])}


class Crashed(NamedTuple):
    """A table as its driver left it."""

    path: Path
    rows: int
    files: set[str]


@pytest.fixture(scope="module")
def crashed(spark: SparkSession, ledger: Ledger) -> dict[tuple[str, str], Crashed]:
    """Tables that a driver was killed at, whose queries have been started again and have come to their ends."""
    tables = {(kind, crash): ledger.folder.parent / f"{kind}-{crash}" for kind in FORMATS for crash in CRASHES}
    found = {
        (kind, crash): Crashed(path, sum(ids(kind, path).values()), staged_files(kind, path))
        for (kind, crash), path in tables.items()
    }
    for sink in SINKS:
        spark.dataSource.register(sink)
    rows = stream(spark, ledger.folder)
    queries = [
        landing(rows, "recording", kind, path, beside(str(path), "checkpoint")).start()
        for (kind, _), path in tables.items()
    ]
    for query in queries:
        query.awaitTermination()
    return found


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("crash", CRASHES)
def test_a_driver_killed_around_its_commit_loses_nothing_and_doubles_nothing(
    spark: SparkSession, ledger: Ledger, crashed: dict[tuple[str, str], Crashed], kind: str, crash: str
) -> None:
    path, rows, files = crashed[kind, crash]
    known = crash == "after-commit"
    assert rows * BATCHES == sum(ledger.ids.values()) * (2 if known else 1), "the second batch was in the table, or not"
    landings = [line.split()[1:] for line in beside(str(path), "landings").read_text().splitlines()]
    assert landings == [["1", str(not known)]], "a batch that is in the table is passed over"
    assert ids(kind, path) == ledger.ids
    if kind == "parquet":
        listing = spark.read.parquet(str(path))
        assert Counter(row.id for row in listing.collect()) == ledger.ids, "as a plain folder, too"
    for file in files & staged_files(kind, path):
        grow_old(file)
    removed = Landing.from_options({"table": kind, "path": str(path)}).table.clean_up(timedelta(days=1))
    assert len(removed) == (0 if known else 2), "one file of each task that staged in vain"
    assert ids(kind, path) == ledger.ids


@pytest.mark.parametrize("kind", FORMATS)
def test_the_files_of_attempts_that_failed_never_show(ledger: Ledger, kind: str) -> None:
    path = ledger.folder.parent / f"{kind}-failing-task"
    failed = beside(str(path), "failures").read_text().split()
    assert len(failed) == BATCHES, "one attempt of each batch"
    assert set(failed) <= staged_files(kind, path)
    assert ids(kind, path) == ledger.ids
