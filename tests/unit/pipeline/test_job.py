"""What a running pipeline shows: its line, its figures, and the file that `status` reads."""

from __future__ import annotations

import io
import os
import re
import time
import urllib.request
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from highwater.pipeline import display as display_module
from highwater.pipeline.definition import Definition, define
from highwater.pipeline.display import Display, line
from highwater.pipeline.job import JobStatus, status_file
from highwater.pipeline.metrics import Metrics
from highwater.pipeline.query import Report

REPORT = Report(batch_id=3, records=1500, rows=1400, seconds=0.5, lag=20, query_id="q", files=2, size=700, bad=3)


@pytest.fixture
def definition(tmp_path: Path) -> Definition:
    source = {"bootstrap_servers": "127.0.0.1:9092", "topic": "orders"}
    return define({"name": "orders", "source": source, "sink": {"table": "parquet", "path": "table"}}, tmp_path)


def test_the_line_has_rows_rate_lag_and_batch_time() -> None:
    status = JobStatus("orders", state="running", records=12_500, rows=12_400, restarts=2, last=REPORT)
    assert line(status) == (
        "orders running  batch 3  12,500 records  12,400 rows  3,000 records/s  lag 20  batch time 0.50 s  2 restarts"
    )


def test_without_a_terminal_lines_are_plain_and_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(display_module, "PLAIN_SECONDS", 3600.0)
    output = io.StringIO()
    status = JobStatus("orders", state="starting")
    with Display(Console(file=output, width=40)) as display:
        display.show(status)
        for records in (10, 20, 30):
            status.state, status.records, status.last = "running", records, REPORT
            display.show(status)
        display.trouble("a broker is gone")
    lines = output.getvalue().splitlines()
    assert lines[0] == "orders starting"
    assert lines[1].startswith("orders running  batch 3  10 records")
    assert lines[2:] == ["a broker is gone"]


def test_figures_are_served_for_prometheus(definition: Definition, tmp_path: Path) -> None:
    (tmp_path / "table").mkdir()
    (tmp_path / "table" / "part.parquet").write_bytes(b"12345")
    metrics = Metrics(definition, 0)
    try:
        metrics.batch(REPORT)
        metrics.batch(REPORT)
        metrics.show(restarts=2, is_running=True)
        with urllib.request.urlopen(f"http://127.0.0.1:{metrics.port}/metrics", timeout=30) as answer:
            text = answer.read().decode()
    finally:
        metrics.close()
    for name, value in {
        "records_total": 3000,
        "rows_total": 2800,
        "bad_records_total": 6,
        "files_total": 4,
        "landed_bytes_total": 1400,
        "batches_total": 2,
        "batch_seconds_sum": 1,
        "lag": 20,
        "restarts_total": 2,
        "up": 1,
        "table_bytes": 5,
    }.items():
        assert f'highwater_pipeline_{name}{{pipeline="orders"}} {float(value)}\n' in text
    [finished] = re.findall(r"\nhighwater_pipeline_last_batch_timestamp_seconds\{.*\} (\S+)", text)
    assert time.time() - 600 < float(finished) <= time.time()


def test_figures_are_served_at_the_address_that_the_file_names(definition: Definition) -> None:
    metrics = Metrics(replace(definition, metrics_address="127.0.0.2"), 0)
    try:
        with urllib.request.urlopen(f"http://127.0.0.2:{metrics.port}/metrics", timeout=30) as answer:
            assert answer.status == 200
        with pytest.raises(OSError, match="refused"):
            urllib.request.urlopen(f"http://127.0.0.1:{metrics.port}/metrics", timeout=30)
    finally:
        metrics.close()


def test_a_folder_that_is_gone_before_it_is_looked_into_has_no_size(
    definition: Definition, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those are in which a batch is gathered: a rename makes them part of the table."""
    gathered = tmp_path / "table" / "_staging" / "gathered"
    gathered.mkdir(parents=True)
    (tmp_path / "table" / "part.parquet").write_bytes(b"12345")
    scandir = os.scandir

    def late(path: str) -> Any:
        if str(path) == str(gathered):
            gathered.rmdir()
        return scandir(path)

    monkeypatch.setattr(os, "scandir", late)
    metrics = Metrics(definition, 0)
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{metrics.port}/metrics", timeout=30) as answer:
            text = answer.read().decode()
    finally:
        metrics.close()
    assert not gathered.exists()
    assert 'highwater_pipeline_table_bytes{pipeline="orders"} 5.0\n' in text


def test_the_status_lies_beside_a_checkpoint_that_is_on_this_machine(definition: Definition, tmp_path: Path) -> None:
    assert status_file(definition) == tmp_path / "checkpoints/orders.status.json"
    assert JobStatus("orders", last=REPORT).to_json()["last"]["rows"] == 1400


def test_a_standing_counts_records_and_rows_apart() -> None:
    status = JobStatus("orders")
    for _ in range(2):
        status.took(REPORT)
    assert (status.records, status.rows, status.batches, status.state) == (3000, 2800, 2, "running")
