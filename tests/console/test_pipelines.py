"""Pipelines in the page: one that serves metrics, and one that left a status file."""

from __future__ import annotations

import json
from pathlib import Path

from playwright.sync_api import Browser, expect

from highwater.pipeline.definition import define
from highwater.pipeline.job import JobStatus
from highwater.pipeline.metrics import Metrics
from highwater.pipeline.query import Report
from tests.console.browser import WAIT_MS, viewing
from tests.console.own_console import own_console

expect.set_options(timeout=WAIT_MS)

NOWHERE = "127.0.0.1:9"
REPORT = Report(batch_id=0, records=1500, rows=1400, seconds=0.5, lag=0, query_id="q", files=2, size=700, bad=3)


def test_throughput_lag_freshness_batches_and_dead_letters_of_each_pipeline_are_shown(
    browser: Browser, tmp_path: Path
) -> None:
    source = {"bootstrap_servers": NOWHERE, "topic": "orders"}
    sink = {"table": "parquet", "path": "table"}
    metrics = Metrics(define({"name": "orders", "source": source, "sink": sink}, tmp_path), 0)
    stopped = JobStatus("<b>audit</b>", trouble="<script>window.harmed=1</script>")
    stopped.took(REPORT)
    stopped.state = "failed"
    (tmp_path / "audit.status.json").write_text(json.dumps(stopped.to_json()))
    sources = ["--pipeline", f"http://127.0.0.1:{metrics.port}/metrics", "--pipeline", str(tmp_path)]
    try:
        metrics.batch(REPORT)
        metrics.show(0, True)
        with own_console(NOWHERE, *sources) as address, viewing(browser, address) as viewer:
            page = viewer.open("/pipelines", "[data-pipeline='orders']")
            shown = page.locator("[data-pipeline='orders']")
            for fact, text in {
                "Lag": "0",
                "Fresh as of": "all is landed",
                "Batches": "0.5 s each",
                "Dead letters": "3",
                "Records read": "rows landed",
            }.items():
                expect(shown.locator(f"[data-fact='{fact}']")).to_contain_text(text)
            expect(shown.locator("[data-fact='Throughput']")).to_contain_text("/s")
            metrics.batch(REPORT)
            expect(shown.locator("[data-fact='Batches'] .figure")).to_have_text("2")
            other = page.get_by_role("region", name="Pipeline <b>audit</b>")
            expect(other).to_contain_text("failed")
            expect(other.locator(".banner")).to_have_text("<script>window.harmed=1</script>")
            assert page.evaluate("window.harmed") is None
            expect(other.locator("[data-fact='Dead letters']")).to_contain_text("not told")
    finally:
        metrics.close()
