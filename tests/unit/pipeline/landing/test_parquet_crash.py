"""A driver that dies between any two steps of the file system leaves a batch that is there whole or not at all."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

from highwater.pipeline.landing.parquet import ParquetTable
from highwater.pipeline.landing.table import StagedFile
from tests.unit.pipeline.landing.tables import ids, listed, numbered, staged

DRIVER = """
import json, os, signal, sys
from highwater.pipeline.landing.parquet import ParquetTable
from highwater.pipeline.landing.rule import Batch
from highwater.pipeline.landing.table import StagedFile

steps = int(sys.argv[2])
CHANGES = {"os.rename", "os.mkdir", "os.remove", "os.rmdir"}

def die(event, arguments):
    global steps
    if event in CHANGES:
        if steps == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        steps -= 1

files = [StagedFile(*each) for each in json.loads(sys.argv[3])]
sys.addaudithook(die)
assert ParquetTable(sys.argv[1]).commit(Batch("q", "q", 1), files)
"""


def commit_and_die_before_step(step: int, path: Path, files: list[StagedFile]) -> int:
    files_json = json.dumps([(file.location, file.rows, file.size) for file in files])
    return subprocess.run([sys.executable, "-c", DRIVER, str(path), str(step), files_json], timeout=60).returncode


def test_a_commit_that_is_cut_short_shows_all_or_nothing_and_the_next_try_completes_it(tmp_path: Path) -> None:
    shown = []
    for step in range(20):
        path = tmp_path / str(step)
        table = ParquetTable(str(path))
        table.commit(numbered("q", 0), staged(table, [1]))
        ended = commit_and_die_before_step(step, path, staged(table, [2]) + staged(table, [3]))
        assert ended in (0, -signal.SIGKILL)
        shown.append(ids("parquet", path))
        landed = table.commit(numbered("q", 1), staged(table, [2]) + staged(table, [3]))
        assert landed == (shown[-1] == Counter([1]))
        assert ids("parquet", path) == Counter([1, 2, 3])
        visible = {name for name in listed(path) if not name.startswith("_")}
        assert len(visible) == 3
        if ended == 0:
            break
    assert ended == 0
    assert len(shown) == 5, (
        "died before the gathering folder, before each of two files, before the batch appeared; lived"
    )
    assert all(rows in (Counter([1]), Counter([1, 2, 3])) for rows in shown)
