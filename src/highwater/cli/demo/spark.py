"""The demo's side of the Spark driver: whether there can be one, its process, its reports, and its table."""

from __future__ import annotations

import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

from highwater.cli.demo.arrived import InTable
from highwater.cli.demo.progress import DemoProgress, is_reached
from highwater.cli.demo.reader import revenue_reader

PACKAGES = ("pyspark", "pyarrow", "pandas", "deltalake")
JAVA = 17
STOP_SECONDS = 20.0
"""Longer than the driver's own limit."""


def missing() -> list[str]:
    """What prevents Spark from running here, and how to get it."""
    packages = [name for name in PACKAGES if find_spec(name) is None]
    found = [f"{', '.join(packages)} not installed (pip install 'highwater[spark]')"] if packages else []
    version = java_version()
    if version is None:
        found.append(f"no Java (install a JRE {JAVA} or newer, or set JAVA_HOME)")
    elif version < JAVA:
        found.append(f"Java {version}, and Spark needs {JAVA} or newer")
    return found


def java_version() -> int | None:
    """The version of the Java that Spark would use; None if there is none."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(Path(home, "bin", "java")) if home else shutil.which("java")
    if java is None:
        return None
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    number = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(number[1]) if number else None


class SparkPipeline:
    """Orders into a table and revenues into a topic, by a driver in its own process group.

    So Ctrl-C in a terminal, which is for the demo, does not reach it, and it can be ended with everything that it
    started.
    """

    sums_up = True

    def __init__(self, bootstrap: str, home: Path, table: Path, progress: DemoProgress) -> None:
        self._servers = bootstrap
        self._table = table
        self._home = home / "spark"
        self._progress = progress
        self._arrivals = progress.arrivals
        self._log = self._home / "driver.log"
        self._reports: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._driver: subprocess.Popen[bytes] | None = None
        self._revenues = revenue_reader(bootstrap, progress)
        self._summed_up: Mapping[int, int] = {}
        """The offsets that the query of the revenues has reached."""

    def start(self) -> None:
        self._home.mkdir()
        argv = [sys.executable, "-m", "highwater.cli.demo.driver", self._servers, str(self._home), str(self._table)]
        with self._log.open("wb") as log:
            self._driver = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
                env=self._environment(),
            )
        threading.Thread(target=self._listen, args=(self._driver.stdout,), name="reports", daemon=True).start()
        self._revenues.start()
        self._arrivals.state = "Spark is starting, which takes 10 to 20 s; orders flow in meanwhile"
        self._progress.add_event(self._arrivals.state)

    def step(self) -> None:
        """Takes in the driver's reports."""
        while not self._reports.empty():
            self._take(self._reports.get())

    def has_reached(self, ends: Mapping[int, int]) -> bool:
        return is_reached(self._arrivals.reached, ends) and is_reached(self._summed_up, ends)

    def finish(self) -> InTable:
        self.close()
        return InTable(self._table)

    def close(self) -> None:
        """Ends everything of it, in any state."""
        driver, self._driver = self._driver, None
        if driver is None or driver.stdin is None:
            return
        driver.stdin.close()
        try:
            driver.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(driver.pid, signal.SIGKILL)
            driver.wait()
        self._revenues.stop(STOP_SECONDS)

    def _environment(self) -> dict[str, str]:
        """The environment for the Spark that was installed beside Highwater, even if this machine has another one."""
        others = ("SPARK_HOME", "SPARK_CONF_DIR", "SPARK_LOCAL_DIRS", "PYSPARK_SUBMIT_ARGS")
        kept = {name: value for name, value in os.environ.items() if name not in others}
        own = {
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        return kept | own

    def _listen(self, output: IO[bytes]) -> None:
        for line in output:
            self._reports.put(json.loads(line))
        self._reports.put({"event": "ended"})

    def _take(self, report: dict[str, Any]) -> None:
        match report:
            case {"event": "ready", "version": version}:
                self._arrivals.state = f"Spark {version} has started; its first batch takes another 10 to 20 s"
                self._progress.add_event(self._arrivals.state)
            case {"event": "batch", "query": "table", "batch": batch, "reached": reached}:
                self._landed(batch, {int(partition): offset for partition, offset in reached.items()})
            case {"event": "batch", "reached": reached}:
                self._summed_up = {int(partition): offset for partition, offset in reached.items()}
            case {"event": "restarted", "query": query, "why": why}:
                self._progress.add_event(f"the query {query} failed and goes on from its checkpoint: {why}")
            case {"event": "failed", "why": why}:
                self._fail(why)
            case {"event": "ended"} if not self._arrivals.failed:
                self._fail(f"the Spark driver has ended by itself. The end of its log:\n{_last_lines(self._log)}")

    def _fail(self, why: str) -> None:
        self._arrivals.failed = why
        self._progress.add_event(why)

    def _landed(self, batch: int, reached: dict[int, int]) -> None:
        """The topic begins at offset 0 and has no gaps, so offsets are counts."""
        first = self._arrivals.rows == 0
        self._arrivals.batch = batch
        self._arrivals.reached = reached
        self._arrivals.rows = sum(reached.values())
        self._arrivals.state = "Spark lands them in a Delta table, exactly once"
        if first and self._arrivals.rows:
            self._progress.add_event(f"the first batch has landed in the table: {self._arrivals.rows:,} orders")


def _last_lines(log: Path, count: int = 5) -> str:
    return "\n".join(log.read_text(errors="replace").strip().splitlines()[-count:])
