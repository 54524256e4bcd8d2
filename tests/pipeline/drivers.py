"""Spark as processes that can be killed: a driver with its queries, and a cluster of the pip package's own."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any

from highwater.pipeline.landing.options import Landing
from highwater.pipeline.offsets import Positions, is_initial
from tests.apache import ROOT, free_ports, quick_start
from tests.cluster.stage import wait_until
from tests.pipeline.quick_python import written_to

SECONDS = 480.0
"""Spark starts in ten seconds on a quiet machine, and much more slowly on a busy one."""
NO_REST = "-Dspark.master.rest.enabled=false"
"""It would listen on a port of its own choice."""
TRIGGER = "2 seconds"
"""Shorter, several queries on two processors would do little else than start batches."""
LOCAL_MASTER = "local[6]"
"""More slots than there are processors, since a task that was stopped keeps its own."""


@dataclass(frozen=True)
class Target:
    """One query's table and checkpoint, as they lie on the disk."""

    kind: str
    folder: Path
    direct: bool = False

    @property
    def name(self) -> str:
        return f"direct-{self.kind}" if self.direct else self.kind

    @property
    def path(self) -> Path:
        return self.folder / self.name

    @property
    def checkpoint(self) -> Path:
        return self.folder / f"{self.name}.checkpoint"

    def beside(self, what: str) -> Path:
        return self.folder / f"{self.name}.{what}"

    def arm(self, point: str) -> None:
        new = self.beside("new")
        new.write_text(point)
        self.beside("parked").unlink(missing_ok=True)
        new.rename(self.beside("armed"))

    def parked(self) -> dict[str, Any] | None:
        """At which point, which process, and in a task which batch."""
        file = self.beside("parked")
        return json.loads(file.read_text()) if file.exists() else None

    def lines(self, what: str) -> list[list[str]]:
        file = self.beside(what)
        return [line.split() for line in file.read_text().splitlines()] if file.exists() else []

    @property
    def logged(self) -> int:
        """The last batch in Spark's log of offsets, else -1."""
        return max(self._batches("offsets"), default=-1)

    @property
    def committed(self) -> int:
        """The last batch in Spark's log of commits, else -1."""
        return max(self._batches("commits"), default=-1)

    @property
    def landed(self) -> int:
        """The last batch in the table, else -1."""
        query_id = json.loads((self.checkpoint / "metadata").read_text())["id"]
        return Landing.from_options({"table": self.kind, "path": str(self.path)}).table.known(query_id, query_id).last

    def reached(self) -> dict[int, int]:
        """Where the committed batches end, by partition."""
        if self.committed < 0:
            return {}
        stored = json.loads((self.checkpoint / "offsets" / str(self.committed)).read_text().splitlines()[2])
        positions = {} if is_initial(stored) else Positions.from_json(stored).at
        return {partition.partition: position.offset for partition, position in positions.items()}

    def _batches(self, log: str) -> list[int]:
        folder = self.checkpoint / log
        return [int(name) for name in os.listdir(folder) if name.isdigit()] if folder.is_dir() else []


class Driver:
    """Starts again and again on the same checkpoints."""

    def __init__(self, folder: Path, bootstrap: str, topic: str, targets: list[Target], master: str = LOCAL_MASTER):
        self._finish, self._log, self._plan = folder / "finish", folder / "driver.log", folder / "plan.json"
        tables = [
            {
                "name": target.name,
                "kind": target.kind,
                "direct": target.direct,
                "path": str(target.path),
                "checkpoint": str(target.checkpoint),
            }
            for target in targets
        ]
        conf = {"spark.driver.memory": "1g", "spark.executor.memory": "512m"}
        conf["spark.executor.extraJavaOptions"] = shlex.join(quick_start("spark"))
        plan = {"bootstrap": bootstrap, "topic": topic, "tables": tables, "master": master, "conf": conf}
        plan |= {"trigger": TRIGGER, "finish": str(self._finish)}
        self._plan.write_text(json.dumps(plan))
        self._python = written_to(folder / "python", sorted({target.kind for target in targets}))
        self._process: subprocess.Popen[bytes] | None = None
        self.starts = 0

    def start(self) -> None:
        assert self._process is None or self._process.poll() is not None, "the driver before this one still runs"
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.pipeline.killed_driver", str(self._plan)],
                cwd=ROOT,
                env=os.environ | {"PYSPARK_PYTHON": str(self._python)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self.starts += 1

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "the driver was never started"
        return self._process

    def check(self) -> bool:
        """True, while it runs; a driver that ended by itself is a failure."""
        assert self.process.poll() is None, "the driver ended by itself"
        return True

    def kill(self) -> None:
        """kill -9 of the driver, its JVM and all their workers, as if the machine were gone."""
        self.check()
        kill_family(self.process.pid)
        assert self.process.wait(SECONDS) == -signal.SIGKILL

    @property
    def was_killed(self) -> bool:
        return self._process is not None and self._process.poll() == -signal.SIGKILL

    def finish(self) -> None:
        """Everything that can be read is landed, and the driver ends in order."""
        self._finish.touch()
        assert self.process.wait(SECONDS) == 0, "the driver failed"

    def close(self) -> None:
        if self._process is not None and self._process.poll() is None:
            kill_family(self._process.pid)
            self._process.wait()

    def words(self, lines: int = 40) -> str:
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-lines:])


@contextmanager
def driving(driver: Driver) -> Iterator[Driver]:
    driver.start()
    try:
        yield driver
    except AssertionError:
        print(f"The driver's last words:\n{driver.words()}")
        raise
    finally:
        driver.close()


def children(pid: int) -> list[int]:
    found = []
    with suppress(FileNotFoundError, ProcessLookupError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with suppress(FileNotFoundError, ProcessLookupError):
                found += [int(child) for child in Path(f"/proc/{pid}/task/{thread}/children").read_text().split()]
    return found


def family(pid: int) -> list[int]:
    """The process, those that it started, and theirs."""
    return [pid, *(member for child in children(pid) for member in family(child))]


def is_running(pid: int) -> bool:
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    return False


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def kill_family(pid: int) -> None:
    members = family(pid)
    for member in members:
        with suppress(ProcessLookupError):
            os.kill(member, signal.SIGKILL)
    wait_until(lambda: not any(is_running(member) for member in members[1:]), f"the processes of {pid} are gone")


class SparkCluster:
    """A master and workers of one core each, by the scripts of the pip package."""

    def __init__(self, folder: Path, workers: int) -> None:
        import pyspark

        self._folder = folder
        self._home = Path(pyspark.__file__).parent
        self._processes: list[subprocess.Popen[bytes]] = []
        port = free_ports(2)[0]
        self.master = f"spark://127.0.0.1:{port}"
        self._status = f"http://127.0.0.1:{port + 1}/json/"
        here = ("--host", "127.0.0.1")
        self._launch("master.Master", *here, "--port", str(port), "--webui-port", str(port + 1))
        for number in range(workers):
            shape = ("--cores", "1", "--memory", "1g", "--work-dir", str(folder / f"worker-{number}"))
            self._launch("worker.Worker", *here, "--port", "0", "--webui-port", "0", *shape, self.master)

    def _launch(self, name: str, *arguments: str) -> None:
        environment = {
            "SPARK_HOME": str(self._home),
            "SPARK_DAEMON_MEMORY": "512m",
            "SPARK_DAEMON_JAVA_OPTS": shlex.join([NO_REST, *quick_start("spark")]),
        }
        with (self._folder / f"{name}-{len(self._processes)}.log").open("wb") as log:
            command = [str(self._home / "bin/spark-class"), f"org.apache.spark.deploy.{name}", *arguments]
            self._processes.append(subprocess.Popen(command, env=os.environ | environment, stdout=log, stderr=log))

    def status(self) -> Mapping[str, Any]:
        """Nothing, while the master does not answer; before all pages are there, the first one answers for them."""
        try:
            with urllib.request.urlopen(self._status, timeout=5.0) as answer:
                found: dict[str, Any] = json.load(answer)
                return found
        except (OSError, HTTPException, json.JSONDecodeError):
            return {}

    def executors(self) -> list[int]:
        """The JVMs in which tasks run."""
        found = [pid for process in self._processes[1:] for pid in family(process.pid)[1:]]
        return [pid for pid in found if "CoarseGrainedExecutorBackend" in command_of(pid)]

    def close(self) -> None:
        for process in reversed(self._processes):
            kill_family(process.pid)
            process.wait()


def command_of(pid: int) -> str:
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""


@contextmanager
def spark_cluster(folder: Path, workers: int) -> Iterator[SparkCluster]:
    folder.mkdir()
    cluster = SparkCluster(folder, workers)
    try:
        wait_until(lambda: cluster.status().get("aliveworkers") == workers, "all workers are there", SECONDS)
        yield cluster
    finally:
        cluster.close()
