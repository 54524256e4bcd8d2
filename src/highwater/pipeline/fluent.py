"""Pipelines in Python: `Pipeline("orders").source(...).transform(fn).sink(...).run()`."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from highwater.pipeline.decode.struct_types import schema_text
from highwater.pipeline.definition import DEFAULT_TRIGGER, Definition, Transform, define
from highwater.pipeline.display import Display

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from highwater.pipeline.job import JobStatus
    from highwater.pipeline.metrics import Metrics


class Pipeline:
    """Says what a file of `highwater pipeline land` says, with the same words, and checks it the same way.

    It runs in this process, so that the transform may be any function.
    """

    def __init__(self, name: str, **settings: Any) -> None:
        """`settings`: checkpoint, metrics, mode, py_files, restart, spark, as in a file."""
        self._data: dict[str, Any] = {"name": name, **settings}
        self._transform: Transform | None = None

    def source(
        self,
        bootstrap_servers: str,
        *,
        topic: str | list[str] | None = None,
        pattern: str | None = None,
        decode: str | None = None,
        schema: str | StructType | None = None,
        keep: list[str] | None = None,
        dead_letters: str | None = None,
        null_values: str | None = None,
        **settings: Any,
    ) -> Pipeline:
        """`settings`: group, starting_offsets, max_offsets_per_trigger, max_bytes_per_trigger, options."""
        source = {"bootstrap_servers": bootstrap_servers, "topic": topic, "pattern": pattern, **settings}
        self._data["source"] = source
        self._data["decode"] = {
            "format": decode,
            "schema": None if schema is None else schema_text(schema),
            "keep": keep,
            "dead_letters": dead_letters,
            "null_values": null_values,
        }
        return self

    def transform(self, function: Transform) -> Pipeline:
        """From the DataFrame that was read to the one to be written."""
        self._transform = function
        return self

    def sink(self, *, table: str | None = None, path: str | Path | None = None, **settings: Any) -> Pipeline:
        """`table` (delta, iceberg, parquet) with its `path`; or `topic` among the settings."""
        self._data["sink"] = {"table": table, "path": None if path is None else str(path), **settings}
        return self

    def definition(self, trigger: str = DEFAULT_TRIGGER) -> Definition:
        """Raises Mistake, which names the key; starts nothing."""
        return define({**self._data, "trigger": trigger}, Path.cwd(), self._transform)

    def run(self, trigger: str = DEFAULT_TRIGGER, master: str | None = None) -> int:
        """Runs until the query ends (or Ctrl-C); gives the number of rows.

        Starts again after failures, as defined; but raises at once what another attempt would fail with, too, and a
        cluster that is not there to begin with.
        """
        from highwater.pipeline.failures import failure_of
        from highwater.pipeline.job import JobStatus
        from highwater.pipeline.metrics import Metrics
        from highwater.pipeline.query import session, sole_driver
        from highwater.pipeline.readiness import check_clusters

        definition = self.definition(trigger)
        check_clusters(definition)
        status = JobStatus(definition.name)
        with ExitStack() as opened:
            metrics = None
            if definition.metrics_port is not None:
                metrics = Metrics(definition, definition.metrics_port)
                opened.callback(metrics.close)
            display = opened.enter_context(Display(Console(stderr=True)))
            opened.enter_context(sole_driver(definition))
            spark = session(definition, master)
            failures = 0
            while True:
                batches = status.batches
                try:
                    self._attempt(spark, definition, status, display, metrics)
                    return status.rows
                except Exception as error:
                    failures = 1 if status.batches > batches else failures + 1
                    failure = failure_of(error)
                    wait = None if failure.is_final else definition.restart.wait(failures)
                    if wait is None:
                        raise
                    status.restarts += 1
                    display.trouble(f"{failure.cause} (again in {wait:g} s)")
                    time.sleep(wait)

    def _attempt(
        self,
        spark: SparkSession,
        definition: Definition,
        status: JobStatus,
        display: Display,
        metrics: Metrics | None,
    ) -> None:
        from highwater.pipeline.query import follow, maintained, start

        query = start(spark, definition, self._transform)

        def idle() -> None:
            status.saw_nothing_new()
            display.show(status)

        try:
            with maintained(definition) as after_batch:
                for report in follow(query, definition, lambda: False, idle):
                    status.took(report)
                    if metrics is not None:
                        metrics.batch(report)
                        metrics.show(status.restarts, is_running=True)
                    display.show(status)
                    after_batch()
        finally:
            query.stop()
            if metrics is not None:
                metrics.show(status.restarts, is_running=False)
