"""Does a table become slower with its commits? `python bench/commits.py [--commits 86400] [--kind delta]`

86 400 is a day with a batch every second. No Spark, no topic: the table's own code commits one small file after
another, and the upkeep runs every so often, as in a pipeline. Commit times at the end are compared with those at the
beginning, as medians over windows, and so is the CPU time, which a busy machine does not change. The upkeep is timed
for itself, since no batch waits for it.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
import uuid
from datetime import timedelta
from pathlib import Path

import pyarrow as pa

from highwater.pipeline.landing.files import FileShape, stage
from highwater.pipeline.landing.options import FORMATS, Landing
from highwater.pipeline.landing.position import Log, Reach
from highwater.pipeline.landing.rule import Batch

SCHEMA = pa.schema([("id", pa.int64()), ("note", pa.string())])
LOG = Log("orders", "an-id", 0)
GOAL = 1.5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commits", type=int, default=86_400)
    parser.add_argument("--kind", choices=FORMATS, default="delta")
    parser.add_argument("--upkeep-every", type=int, default=1000, help="commits between two upkeeps (0: none)")
    parser.add_argument("--windows", type=int, default=10, help="medians to print")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="highwater-commits-"))
    try:
        run(given.kind, given.commits, given.upkeep_every, given.windows, folder)
    finally:
        shutil.rmtree(folder)


def run(kind: str, commits: int, upkeep_every: int, windows: int, folder: Path) -> None:
    table = Landing.from_options({"table": kind, "path": str(folder / "table")}).table
    staging = table.prepare(SCHEMA)
    seconds: list[float] = []
    cpu: list[float] = []
    window = max(1, commits // windows)
    for number in range(commits):
        rows = pa.RecordBatch.from_pylist([{"id": number, "note": "x"}], schema=SCHEMA)
        files = stage([rows], SCHEMA, FileShape(), staging, f"part-{number}-{uuid.uuid4().hex}")
        batch = Batch("bench", "bench", number, (Reach(LOG, number, number + 1),))
        began, used = time.perf_counter(), time.process_time()
        if not table.commit(batch, files):
            raise SystemExit(f"commit {number} did not land")
        seconds.append(time.perf_counter() - began)
        cpu.append(time.process_time() - used)
        if upkeep_every and (number + 1) % upkeep_every == 0:
            began = time.perf_counter()
            gone = table.compact(128 << 20, lambda: False)
            removed = table.clean_up(timedelta(days=7))
            took = time.perf_counter() - began
            print(f"upkeep after {number + 1}: {took:.2f} s, {gone} files gathered, {len(removed)} removed", flush=True)
        if (number + 1) % window == 0:
            wall, busy = (statistics.median(each[-window:]) * 1000 for each in (seconds, cpu))
            print(f"commits {number + 2 - window} to {number + 1}: median {wall:.1f} ms, CPU {busy:.1f} ms", flush=True)
    first, last = (statistics.median(part) for part in (seconds[:window], seconds[-window:]))
    first_cpu, last_cpu = (statistics.median(part) for part in (cpu[:window], cpu[-window:]))
    position = table.known("bench").position
    assert position is not None
    [interval] = position.at[LOG]
    verdict = "within" if last <= GOAL * first else "beyond"
    print(f"{kind}: {commits} commits, last window / first window = {last / first:.2f} ({verdict} {GOAL})")
    print(f"of CPU time: {last_cpu / first_cpu:.2f}")
    print(f"the table's position is {interval.begin} to {interval.end}, and it has {len(table.contents().files)} files")


if __name__ == "__main__":
    main()
