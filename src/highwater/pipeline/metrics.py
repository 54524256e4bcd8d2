"""A pipeline's figures for Prometheus, on an endpoint of its own."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server

from highwater.pipeline.definition import Definition
from highwater.pipeline.query import Report


class Metrics:
    """Serves from the moment it is made until `close`."""

    def __init__(self, definition: Definition, port: int) -> None:
        registry = CollectorRegistry()

        def named(kind: type[Counter] | type[Gauge] | type[Histogram], name: str, text: str) -> Any:
            return kind(f"highwater_pipeline_{name}", text, ["pipeline"], registry=registry).labels(definition.name)

        self._records = named(Counter, "records", "Records read, by offsets.")
        self._rows = named(Counter, "rows", "Rows landed in the table, or written to the topic.")
        self._bad = named(Counter, "bad_records", "Records that did not fit the schema (direct mode).")
        self._files = named(Counter, "files", "Files landed in the table.")
        self._bytes = named(Counter, "landed_bytes", "Bytes of the files landed in the table.")
        self._batches = named(Counter, "batches", "Micro-batches that were finished.")
        self._seconds = named(Histogram, "batch_seconds", "How long a micro-batch took.")
        self._lag = named(Gauge, "lag", "Records that were there and not yet read, at the end of the last batch.")
        self._finished = named(
            Gauge, "last_batch_timestamp_seconds", "When the last batch was finished; with lag 0 the table is as fresh."
        )
        self._restarts = named(Counter, "restarts", "How often the query was started again after a failure.")
        self._up = named(Gauge, "up", "1 while the query runs.")
        self._counted_restarts = 0
        if (path := definition.sink.get("path")) is not None and "://" not in path:
            table = named(Gauge, "table_bytes", "Bytes of the files in the table's folder.")
            table.set_function(lambda: _size(Path(path)))
        self._server, self._thread = start_http_server(port, definition.metrics_address, registry)
        self.port: int = self._server.server_port

    def batch(self, report: Report) -> None:
        self._records.inc(report.records)
        self._rows.inc(report.rows)
        self._bad.inc(report.bad)
        self._files.inc(report.files)
        self._bytes.inc(report.size)
        self._finished.set_to_current_time()
        self._batches.inc()
        self._seconds.observe(report.seconds)
        self._lag.set(report.lag)

    def show(self, restarts: int, is_running: bool) -> None:
        self._restarts.inc(restarts - self._counted_restarts)
        self._counted_restarts = restarts
        self._up.set(is_running)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _size(folder: Path) -> int:
    """What is cleaned up, or moved, meanwhile is left out: a folder that is gone is one that `os.walk` passes over."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                total += os.stat(os.path.join(parent, name)).st_size
    return total
