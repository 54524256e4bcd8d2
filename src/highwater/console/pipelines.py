"""The Spark pipelines that run beside the cluster, by what they tell: their metrics, and the status files beside their
checkpoints."""

from __future__ import annotations

import json
import os
import re
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final

from highwater.console.rates import Rates

SECONDS: Final = 2.0
MOST_BYTES: Final = 4 << 20
MOST_PIPELINES: Final = 100
HISTORY_SHOWN: Final = 120
ENDING: Final = ".status.json"
ENDED: Final = ("stopped", "finished", "failed")
_SAMPLE: Final = re.compile(r'highwater_pipeline_(\w+)\{pipeline="((?:[^"\\]|\\.)*)"\} (\S+)')
COUNTS: Final = {
    "records": "records_total",
    "rows": "rows_total",
    "bad": "bad_records_total",
    "files": "files_total",
    "batches": "batches_total",
    "restarts": "restarts_total",
    "lag": "lag",
    "table_bytes": "table_bytes",
}
"""What a page shows, and the metric that has it."""

Report = dict[str, Any]
"""Of one pipeline. What it does not tell is missing."""


class PipelineReader:
    def __init__(self, sources: Sequence[str], wall: Callable[[], float] = time.time) -> None:
        """A source is the address of metrics, a status file, or a folder with status files."""
        self._sources = sources
        self._wall = wall
        self._found: dict[str, Report] = {}
        self._rates: dict[str, Rates] = {}
        self._lags: dict[str, list[int]] = {}
        self._silent: list[str] = []

    def ask(self) -> None:
        found: dict[str, Report] = {}
        self._silent = []
        for source in self._sources:
            for name, report in self._reports_of(source):
                if len(found) < MOST_PIPELINES or name in found:
                    found.setdefault(name, {}).update(report)
        now = self._wall()
        for name, report in found.items():
            if "records" in report:
                self._rates.setdefault(name, Rates()).note(now, {name: report["records"]})
            if "lag" in report:
                self._lags[name] = [*self._lags.get(name, []), report["lag"]][-HISTORY_SHOWN:]
        self._found = found

    def _reports_of(self, source: str) -> Iterator[tuple[str, Report]]:
        if source.startswith(("http://", "https://")):
            text = fetched(source)
            if text is None:
                self._silent.append(source)
            yield from reports_in_metrics(text or "")
            return
        path = Path(source)
        files = sorted(path.glob(f"*{ENDING}"))[:MOST_PIPELINES] if path.is_dir() else [path]
        for file in files:
            report = report_in_file(file)
            if report is not None:
                yield report
            elif not path.is_dir() and path.name.endswith(ENDING):
                self._silent.append(source)

    def view(self) -> dict[str, Any]:
        return {
            "sources": list(self._sources),
            "silent": self._silent,
            "pipelines": [self._row(name, report) for name, report in sorted(self._found.items())],
        }

    def _row(self, name: str, report: Report) -> dict[str, Any]:
        rates = self._rates.get(name)
        numbers = {each: str(report[each]) if each in report else None for each in COUNTS}
        last_at = report.get("last_at")
        return {
            "name": name,
            "state": report.get("state"),
            "trouble": report.get("trouble"),
            **numbers,
            "rate": None if rates is None or rates.total is None else round(rates.total, 1),
            "history": [] if rates is None else [round(value, 1) for _, value in rates.history][-HISTORY_SHOWN:],
            "lags": list(self._lags.get(name, [])),
            "batch_seconds": report.get("batch_seconds"),
            "last_at": None if not last_at else str(int(last_at * 1000)),
        }


def reports_in_metrics(text: str) -> Iterator[tuple[str, Report]]:
    values: dict[str, dict[str, float]] = {}
    for metric, name, value in _SAMPLE.findall(text):
        try:
            values.setdefault(name, {})[metric] = float(value)
        except ValueError:
            continue
    for name, found in values.items():
        report: Report = {shown: int(found[metric]) for shown, metric in COUNTS.items() if metric in found}
        if "up" in found:
            report["state"] = "running" if found["up"] else "not running"
        if found.get("batch_seconds_count"):
            report["batch_seconds"] = round(found.get("batch_seconds_sum", 0.0) / found["batch_seconds_count"], 3)
        if "last_batch_timestamp_seconds" in found:
            report["last_at"] = found["last_batch_timestamp_seconds"]
        yield name, report


def report_in_file(file: Path) -> tuple[str, Report] | None:
    """As `highwater pipeline status` reads it; None if it cannot be read."""
    try:
        if file.stat().st_size > MOST_BYTES:
            return None
        found = json.loads(file.read_text())
        report: Report = {
            name: int(found[name]) for name in ("records", "rows", "batches", "restarts") if name in found
        }
        is_gone = found["state"] not in ENDED and not _is_alive(int(found["pid"]))
        report["state"] = "gone" if is_gone else str(found["state"])
        report["trouble"] = found.get("trouble")
        last = found.get("last")
        if last is not None:
            report |= {"lag": int(last["lag"]), "batch_seconds": round(float(last["seconds"]), 3)}
            report["last_at"] = float(found["last_at"])
        return str(found["name"]), report
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def fetched(address: str) -> str | None:
    try:
        with urllib.request.urlopen(address, timeout=SECONDS) as answer:
            return str(answer.read(MOST_BYTES).decode(errors="replace"))
    except (OSError, ValueError, HTTPException):
        return None
