"""The power of a cluster and of a pipeline that lands its topic is cut again and again: no row is lost or doubled.

`unshare --mount --propagation private .venv/bin/python -m tests.pipeline.power_cuts FOLDER 20 delta` does it by hand.
Each start of Spark takes a while, so this is no part of `make test`; `make power-cuts` runs it for each format.
"""

from __future__ import annotations

import json
import os
import random
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from highwater.client import Admin, Client, NewTopic
from tests.apache import free_ports, quick_start
from tests.cluster.feed import Writers
from tests.cluster.power import CANNOT_MOUNT, CannotMount, Machine, powered
from tests.cluster.power_cuts import NODES, PARTITIONS, SETTINGS, SYNCED, TOPIC
from tests.cluster.stage import wait_for_moment, wait_until
from tests.pipeline.ledger import Ledger, check, table_rows
from tests.pipeline.quick_python import written_to

PACE_SECONDS = 0.1
ROLLING = SETTINGS | {"segment.ms": "2000"}
"""A cut comes once in a minute here: segments of less would take all the files that a disk has."""
STARTS = 300.0
"""Of Spark, on a busy machine."""
PIPELINE = """
name: kept
source:
  bootstrap_servers: {servers}
  topic: {topic}
  starting_offsets: earliest
sink:
  table: {kind}
  path: {lake}/table
checkpoint: {lake}/checkpoint
trigger: 500ms
"""


class Cuts:
    def __init__(self, machine: Machine, folder: Path, cuts: int, kind: str, seed: int) -> None:
        self._machine = machine
        self._folder = folder
        self._cuts = cuts
        self._kind = kind
        self._draw = random.Random(seed)
        self._port = free_ports(NODES)[0]
        self.bootstrap = ",".join(f"127.0.0.1:{self._port + node}" for node in range(NODES))
        self.lake = folder / "lake"
        self._file = folder / "pipeline.yml"
        self._file.write_text(PIPELINE.format(servers=self.bootstrap, topic=TOPIC, kind=kind, lake=self.lake))
        self._python = written_to(folder / "python", [kind])

    def run(self) -> None:
        self._up()
        with Client(self.bootstrap) as client:
            Admin(client).create_topics([NewTopic(TOPIC, PARTITIONS, NODES, configs=ROLLING)])
        writers = Writers(1, self.bootstrap, TOPIC, PARTITIONS, PACE_SECONDS)
        ledger = Ledger()
        with writers:
            for number in range(1, self._cuts + 1):
                began = time.monotonic()
                self._cut(number)
                writers.await_acks(began)
        last = self._land("--once")
        assert last.wait(STARTS) == 0, self._output()
        sends = [sent for feed in writers.feeds for sent in feed.sends]
        account = ledger.account(self._kind, sends, table_rows(self._kind, self.lake / "table"))
        print(account.text())
        check([account])
        assert not writers.replaced, [feed.errors[:3] for feed in writers.feeds]

    def _up(self) -> None:
        up = self._machine.up("--brokers", str(NODES), "--port", str(self._port), "--set", SYNCED)
        self._machine.wait_until_ready(up)

    def _land(self, *options: str) -> subprocess.Popen[str]:
        """It stays until the cut, or with `--once` until all is landed."""
        command = [sys.executable, "-m", "highwater", "pipeline", "land", str(self._file), "--metrics-port", "0"]
        environment = {
            "PYSPARK_PYTHON": str(self._python),
            "SPARK_SUBMIT_OPTS": shlex.join(quick_start("spark")),
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        return self._machine.start([*command, *options], self._folder / "land.log", os.environ | environment)

    def _cut(self, number: int) -> None:
        """After a few batches, in the middle of one or between two."""
        began = time.monotonic()
        landing = self._land()
        batches = self._draw.randint(2, 6)  # the first one may be the last one of before

        def has_landed() -> bool:
            assert landing.poll() is None, self._output()
            return self._batches(landing.pid) >= batches

        wait_until(has_landed, f"{batches} batches land: {self._output()}", STARTS)
        seconds = time.monotonic() - began
        wait_for_moment(time.monotonic() + self._draw.uniform(0, 1.5))
        self._machine.cut_power()
        self._machine.reboot()
        self._up()
        rows = self._row_count()
        print(f"cut {number}: {batches} batches after {seconds:.0f} s, {rows} rows are left", flush=True)

    def _row_count(self) -> int:
        """By another process: what a reader keeps open would keep the disk from being unmounted."""
        code = f"from pathlib import Path; from {table_rows.__module__} import table_rows; "
        code += f"print(len(table_rows({self._kind!r}, Path({str(self.lake / 'table')!r}))))"
        return int(subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True).stdout)

    def _batches(self, pid: int) -> int:
        """Of this run."""
        status = self._standing()
        return int(status["batches"]) if status.get("pid") == pid else 0

    def _standing(self) -> dict[str, Any]:
        """What is written beside a checkpoint is for people, and need not outlive a cut."""
        try:
            return dict(json.loads((self.lake / "checkpoint.status.json").read_text()))
        except (FileNotFoundError, ValueError):
            return {}

    def _output(self) -> str:
        log = self._folder / "land.log"
        return log.read_text(errors="replace")[-3000:] if log.exists() else ""


def main(folder: Path, cuts: int, kind: str) -> int:
    seed = int(os.environ.get("HIGHWATER_SEED", random.SystemRandom().randrange(1_000_000)))
    print(f"{kind}, seed {seed}", flush=True)
    try:
        with powered(folder, NODES, "lake") as machine:
            Cuts(machine, folder, cuts, kind, seed).run()
    except CannotMount as reason:
        print(reason)
        return CANNOT_MOUNT
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))
