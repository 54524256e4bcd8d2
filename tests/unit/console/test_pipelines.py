"""What a page shows of pipelines, from what they really serve and write."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from highwater.console.pipelines import PipelineReader, report_in_file, reports_in_metrics
from highwater.pipeline.definition import define
from highwater.pipeline.job import JobStatus
from highwater.pipeline.metrics import Metrics
from highwater.pipeline.query import Report

REPORT = Report(batch_id=3, records=1500, rows=1400, seconds=0.5, lag=20, query_id="q", files=2, size=700, bad=3)


def served(folder: Path) -> Metrics:
    source = {"bootstrap_servers": "127.0.0.1:9092", "topic": "orders"}
    return Metrics(define({"name": "orders", "source": source, "sink": {"table": "parquet", "path": "t"}}, folder), 0)


def test_the_metrics_of_a_pipeline_are_read_and_its_throughput_is_computed(tmp_path: Path) -> None:
    clock = [100.0]
    metrics = served(tmp_path)
    try:
        reader = PipelineReader([f"http://127.0.0.1:{metrics.port}/metrics"], lambda: clock[0])
        metrics.batch(REPORT)
        metrics.show(0, True)
        reader.ask()
        metrics.batch(REPORT)
        clock[0] += 10
        reader.ask()
        (row,) = reader.view()["pipelines"]
    finally:
        metrics.close()
    assert (row["name"], row["state"], row["records"], row["rows"], row["bad"]) == (
        "orders",
        "running",
        "3000",
        "2800",
        "6",
    )
    assert (row["lag"], row["lags"], row["batches"], row["batch_seconds"], row["rate"]) == (
        "20",
        [20, 20],
        "2",
        0.5,
        150.0,
    )
    assert row["last_at"] is not None
    reader.ask()
    assert reader.view()["silent"] == reader.view()["sources"], "it is closed"


def test_a_status_file_tells_its_state_and_trouble_and_not_the_dead_letters(tmp_path: Path) -> None:
    status = JobStatus("orders", restarts=2, trouble="a broker is gone")
    status.took(REPORT)
    (tmp_path / "orders.status.json").write_text(json.dumps(status.to_json()))
    (tmp_path / "torn.status.json").write_text('{"name": ')
    reader = PipelineReader([str(tmp_path)])
    reader.ask()
    (row,) = reader.view()["pipelines"]
    assert (row["state"], row["trouble"], row["lag"], row["bad"]) == ("running", "a broker is gone", "20", None)


def test_a_pipeline_whose_process_is_gone_is_shown_as_gone(tmp_path: Path) -> None:
    file = tmp_path / "orders.status.json"
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        pid = ended.pid
    file.write_text(json.dumps({**JobStatus("orders", state="running").to_json(), "pid": pid}))
    told = report_in_file(file)
    assert told is not None and told[1]["state"] == "gone"


def test_a_folder_that_is_missing_has_no_pipelines() -> None:
    reader = PipelineReader(["no/such/folder"])
    reader.ask()
    assert reader.view() == {"sources": ["no/such/folder"], "silent": [], "pipelines": []}


def test_lines_that_are_no_metrics_of_a_pipeline_are_passed_over() -> None:
    lines = [
        'highwater_pipeline_lag{pipeline="a"} none',
        'other{pipeline="a"} 1',
        'highwater_pipeline_up{pipeline="b"} 0.0',
    ]
    text = "\n".join(lines)
    assert dict(reports_in_metrics(text))["b"] == {"state": "not running"}
