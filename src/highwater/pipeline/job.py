"""A pipeline at work: its query in a process of its own, started again after failures, watched and measured."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from highwater.pipeline.definition import Definition
from highwater.pipeline.display import Display
from highwater.pipeline.failures import Failure
from highwater.pipeline.metrics import Metrics
from highwater.pipeline.query import Report

STOP_SECONDS = 60.0


class GaveUp(Exception):
    """The query failed too often, or in a way that another attempt would repeat; the message says why."""


@dataclass(slots=True)
class JobStatus:
    """How a pipeline stands; the file beside its checkpoint holds the same."""

    name: str
    started_at: float = field(default_factory=time.time)
    state: str = "starting"
    records: int = 0
    rows: int = 0
    batches: int = 0
    restarts: int = 0
    last: Report | None = None
    last_at: float | None = None
    trouble: str = ""
    files: int = 0
    size: int = 0
    """Bytes of the files that were landed."""
    bad: int = 0
    fresh_at: float | None = None
    """What was in the topics then has been read."""

    def took(self, report: Report, now: float | None = None) -> None:
        """Counts a finished batch."""
        self.state = "running"
        self.last, self.last_at = report, time.time() if now is None else now
        self.records += report.records
        self.rows += report.rows
        self.files += report.files
        self.size += report.size
        self.bad += report.bad
        self.batches += 1
        if not report.lag:
            self.fresh_at = self.last_at - report.seconds

    def saw_nothing_new(self, now: float | None = None) -> None:
        self.fresh_at = time.time() if now is None else now

    def to_json(self) -> dict[str, Any]:
        last = None if self.last is None else self.last.to_json()
        return {
            "name": self.name,
            "pid": os.getpid(),
            "state": self.state,
            "started_at": self.started_at,
            "records": self.records,
            "rows": self.rows,
            "batches": self.batches,
            "restarts": self.restarts,
            "files": self.files,
            "bytes": self.size,
            "bad": self.bad,
            "last": last,
            "last_at": self.last_at,
            "fresh_at": self.fresh_at,
            "trouble": self.trouble,
        }


def status_file(definition: Definition) -> Path | None:
    """None where the checkpoint is on no disk of this machine."""
    return None if "://" in definition.checkpoint else Path(f"{definition.checkpoint}.status.json")


class Job:
    """Runs the pipeline of a file until its end, or until `stop`."""

    def __init__(
        self,
        file: Path,
        definition: Definition,
        display: Display,
        metrics: Metrics | None,
        *,
        master: str | None = None,
        once: bool = False,
        lock: int | None = None,
    ) -> None:
        """`lock` is the descriptor by which the caller holds the checkpoint: workers come and go, and hold it too."""
        self.file = file
        self.definition = definition
        self.display = display
        self.metrics = metrics
        self.master = master
        self.once = once
        self.lock = lock
        self.status = JobStatus(definition.name)
        self._stopping = threading.Event()
        self._worker: subprocess.Popen[bytes] | None = None
        self._failure: Failure | None = None

    def stop(self) -> None:
        """The batch at work is given up, and done again by the next start. Called twice, it waits for nothing."""
        again = self._stopping.is_set()
        self._stopping.set()
        if self._worker is not None and self._worker.poll() is None:
            self._worker.send_signal(signal.SIGKILL if again else signal.SIGTERM)

    @property
    def is_stopped(self) -> bool:
        return self._stopping.is_set()

    def run(self) -> None:
        """Raises GaveUp."""
        failures = 0
        while True:
            batches = self.status.batches
            code = self._attempt()
            if code == 0 or self._stopping.is_set():
                self._stands("stopped" if self._stopping.is_set() else "finished")
                return
            failures = 1 if self.status.batches > batches else failures + 1
            failure = self._failure or self._unexplained(code)
            self.status.trouble = failure.cause
            wait = None if failure.is_final else self.definition.restart.wait(failures)
            if wait is None:
                self._stands("failed")
                count = "" if failures == 1 else f" {failures} times in a row, at last with"
                raise GaveUp(f"the query failed{count}: {failure.cause}\nthe whole story: {self.log_file}")
            self.status.restarts += 1
            self._stands("restarting")
            self.display.trouble(f"{self.status.trouble} (again in {wait:g} s; the whole story: {self.log_file})")
            if self._stopping.wait(wait):
                self._stands("stopped")
                return

    @property
    def log_file(self) -> Path:
        beside = status_file(self.definition)
        return Path(f"{self.definition.name}.log") if beside is None else beside.with_suffix("").with_suffix(".log")

    def _attempt(self) -> int:
        self._failure = None
        reading, writing = os.pipe()
        command = [sys.executable, "-m", "highwater.pipeline.worker", str(self.file), "--reports", str(writing)]
        command += ["--master", self.master] if self.master else []
        command += ["--once"] if self.once else []
        kept = [writing]
        if self.lock is not None:
            command += ["--lock", str(self.lock)]
            kept.append(self.lock)
        self.log_file.parent.mkdir(parents=True, exist_ok=True)
        with open(self.log_file, "ab") as log:
            # A session of its own: Ctrl-C reaches us alone, and we stop the worker in order.
            self._worker = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, pass_fds=kept, start_new_session=True
            )
        os.close(writing)
        if self._stopping.is_set():
            self._worker.send_signal(signal.SIGTERM)
        self._stands("starting")
        with open(reading, encoding="utf-8") as reports:
            for line in reports:
                self._take(json.loads(line))
        return self._ended(self._worker)

    def _ended(self, worker: subprocess.Popen[bytes]) -> int:
        try:
            return worker.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            worker.kill()
            return worker.wait()

    def _take(self, fields: dict[str, Any]) -> None:
        event = fields.pop("event")
        if event == "started":
            self._stands("running")
            return
        if event == "failed":
            self._failure = Failure(**fields)
            return
        if event == "idle":
            self.status.saw_nothing_new()
            self._stands("running")
            return
        report = Report(**fields)
        self.status.took(report)
        if self.metrics is not None:
            self.metrics.batch(report)
        self._stands("running")

    def _stands(self, state: str) -> None:
        self.status.state = state
        if self.metrics is not None:
            self.metrics.show(self.status.restarts, state == "running")
        self.display.show(self.status)
        path = status_file(self.definition)
        if path is not None:
            new = path.with_name(path.name + ".new")
            new.write_text(json.dumps(self.status.to_json()))
            new.replace(path)

    def _unexplained(self, code: int) -> Failure:
        """Of a worker that ended before it could say why."""
        if code < 0:
            return Failure(f"the worker was ended by {signal.Signals(-code).name}", is_final=False)
        try:
            last = (self.log_file.read_text(errors="replace").rstrip().splitlines() or [""])[-1]
        except OSError as error:
            last = f"{self.log_file}: {error.strerror}"
        return Failure(f"the worker ended with code {code}: {last or 'it said nothing'}", is_final=False)


@contextmanager
def stopped_by_signals(job: Job) -> Iterator[None]:
    """Ctrl-C and SIGTERM stop the job in order; the handlers that were there come back afterwards."""
    before = {number: signal.signal(number, lambda *_: job.stop()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
