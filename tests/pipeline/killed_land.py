"""`highwater pipeline land` as a process whose parts are killed, and its table as the format's own reader sees it."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from highwater.audit import Read
from highwater.model import TopicPartition
from highwater.pipeline.definition import Definition
from highwater.pipeline.landing.delta import DeltaTable
from highwater.pipeline.landing.iceberg import IcebergTable
from highwater.pipeline.landing.options import Landing
from highwater.pipeline.offsets import Positions, is_initial
from highwater.pipeline.yaml_file import load
from tests.apache import quick_start
from tests.cluster.stage import wait_until
from tests.pipeline.drivers import SECONDS, children, command_of, family, is_running, kill_family
from tests.pipeline.kill_matrix import Run
from tests.pipeline.ledger import table_rows
from tests.pipeline.object_store import KEYS, ObjectStore, delta_options, iceberg_options
from tests.pipeline.quick_python import written_to
from tests.pipeline.stopping import FOLDER

SECRET = "HIGHWATER_LAKE_SECRET"
NAME = "killed"


class Land:
    """One command with one table. `stops` is the folder of the stops that its processes heed."""

    def __init__(self, run: Run, folder: Path, bootstrap: str, topic: str, master: str, store: ObjectStore | None):
        folder.mkdir()
        self._run, self._folder, self._process = run, folder, None
        self.stops = folder / "stops"
        self.stops.mkdir()
        self._python = written_to(folder / "python", [run.kind], ["tests.pipeline.stopping"], {FOLDER: str(self.stops)})
        sink = {name: value for name, value in self._sink(store).items() if name not in ("table", "path", "name")}
        conf = {"spark.driver.memory": "1g", "spark.executor.memory": "512m"}
        conf["spark.executor.extraJavaOptions"] = shlex.join(quick_start("spark"))
        said = {
            "name": NAME,
            # So few records would share one task, and a batch with one task has nothing to mix up.
            "source": {"bootstrap_servers": bootstrap, "topic": topic, "options": {"minPartitions": "2"}},
            "sink": {**{key: self._sink(store)[key] for key in ("table", "path")}, "options": sink},
            "mode": run.mode,
            "trigger": "1s",
            "restart": {"backoff": "100ms"},
            "spark": {"master": master, "conf": conf},
        }
        if "name" in self._sink(store):
            said["sink"]["name"] = self._sink(store)["name"]  # type: ignore[index]
        (folder / "pipeline.yml").write_text(yaml.safe_dump(said))
        self.definition: Definition = load(folder / "pipeline.yml")

    def _sink(self, store: ObjectStore | None) -> dict[str, str]:
        """Secrets are references: the executors look them up for themselves."""
        if store is None:
            return {"table": self._run.kind, "path": str(self._folder / "table")}
        if self._run.kind == "delta":
            options = delta_options(store, self._folder.name)
        else:
            options = iceberg_options(store, self._folder.name, f"sqlite:///{self._folder}/catalog.db?timeout=60")
        return {name: f"${{env:{SECRET}}}" if value == KEYS["secret"] else value for name, value in options.items()}

    # The command

    @contextmanager
    def running(self) -> Iterator[None]:
        """Ends with SIGTERM, in order."""
        with (self._folder / "output.txt").open("ab") as output:
            self._process = process = subprocess.Popen(
                [sys.executable, "-m", "highwater", "pipeline", "land"],
                cwd=self._folder,
                env=os.environ | {"PYSPARK_PYTHON": str(self._python)},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        try:
            yield
            process.send_signal(signal.SIGTERM)
            assert process.wait(SECONDS) == 0, "it ends in order"
        except AssertionError:
            print(f"What it said:\n{self.words()}")
            raise
        finally:
            if process.poll() is None:
                kill_family(process.pid)
                process.wait()

    def words(self, lines: int = 60) -> str:
        logs = (self._folder / "output.txt", self._folder / f"checkpoints/{NAME}.log")
        return "\n".join(
            line for log in logs if log.exists() for line in log.read_text(errors="replace").splitlines()[-lines:]
        )

    def lives(self) -> bool:
        """True; a command that ended by itself is a failure."""
        assert self._process is not None and self._process.poll() is None, "the command ended by itself"
        return True

    def wait(self, condition: Any, what: str) -> None:
        wait_until(lambda: self.lives() and condition(), what, SECONDS)

    @property
    def driver(self) -> int | None:
        """The process that holds the driver, whose JVM is its child."""
        assert self._process is not None
        found = [pid for pid in children(self._process.pid) if "highwater.pipeline.worker" in command_of(pid)]
        return found[0] if found else None

    def task_processes(self) -> list[int]:
        """The Python processes of tasks on this machine's driver: the one that forks them, and the forked."""
        assert self._process is not None
        named = "pyspark.daemon pyspark.worker"
        return [pid for pid in family(self._process.pid) if named in command_of(pid) and is_running(pid)]

    @property
    def restarts(self) -> int:
        file = self._folder / f"checkpoints/{NAME}.status.json"
        return int(json.loads(file.read_text())["restarts"]) if file.exists() else 0

    # The stops

    def arm(self, point: str) -> None:
        new = self.stops / "new"
        new.write_text(point)
        new.rename(self.stops / "armed")

    @property
    def parked(self) -> Mapping[str, Any] | None:
        file = self.stops / "parked"
        return json.loads(file.read_text()) if file.exists() else None

    def release(self) -> None:
        (self.stops / "parked").unlink(missing_ok=True)

    def sabotage(self, mistake: str) -> None:
        (self.stops / "sabotage").write_text(mistake)

    # The checkpoint and the table

    @property
    def logged(self) -> int:
        return max(self._batches("offsets"), default=-1)

    @property
    def committed(self) -> int:
        return max(self._batches("commits"), default=-1)

    def _batches(self, log: str) -> list[int]:
        folder = Path(self.definition.checkpoint) / log
        return [int(name) for name in os.listdir(folder) if name.isdigit()] if folder.is_dir() else []

    def reached(self) -> dict[int, int]:
        """Where the committed batches end, by partition."""
        if self.committed < 0:
            return {}
        file = Path(self.definition.checkpoint) / "offsets" / str(self.committed)
        stored = json.loads(file.read_text().splitlines()[2])
        return (
            {}
            if is_initial(stored)
            else {at.partition: end.offset for at, end in Positions.from_json(stored).at.items()}
        )

    def landed(self) -> dict[int, int]:
        """Where the table ends, by partition, as the table itself says."""
        table = Landing.from_options(self.definition.sink).table
        position = table.known(NAME).position if table.exists() else None
        return {} if position is None else {log.partition: found[-1].end for log, found in position.at.items()}

    def rows(self) -> list[Read]:
        if self._run.store == "disk":
            return table_rows(self._run.kind, Path(self.definition.sink["path"]))
        table = Landing.from_options(self.definition.sink).table
        if isinstance(table, IcebergTable):
            found = table.open().scan().to_arrow()
        else:
            assert isinstance(table, DeltaTable)
            found = table._open().to_pyarrow_table()
        columns = (found[name].to_pylist() for name in ("topic", "partition", "offset", "value"))
        return [
            Read(TopicPartition(topic, at), offset, value) for topic, at, offset, value in zip(*columns, strict=True)
        ]
