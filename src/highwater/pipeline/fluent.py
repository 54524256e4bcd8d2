"""Pipelines in Python: `Pipeline("orders").source(...).transform(fn).sink(...).run()`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from rich.console import Console

from highwater.pipeline.definition import DEFAULT_TRIGGER, Definition, Transform, define
from highwater.pipeline.display import Display


class Pipeline:
    """Says what a file of `highwater pipeline land` says, with the same words, and checks it the same way.

    It runs in this process, so that the transform may be any function.
    """

    def __init__(self, name: str, **settings: Any) -> None:
        """`settings`: checkpoint, mode, py_files, restart, spark, as in a file."""
        self._data: dict[str, Any] = {"name": name, **settings}
        self._transform: Transform | None = None

    def source(
        self,
        bootstrap_servers: str,
        *,
        topic: str | list[str] | None = None,
        pattern: str | None = None,
        decode: str | None = None,
        schema: str | None = None,
        keep: list[str] | None = None,
        dead_letters: str | None = None,
        null_values: str | None = None,
        **settings: Any,
    ) -> Pipeline:
        """`settings`: group, starting_offsets, max_offsets_per_trigger, options."""
        source = {"bootstrap_servers": bootstrap_servers, "topic": topic, "pattern": pattern, **settings}
        self._data["source"] = source
        self._data["decode"] = {
            "format": decode,
            "schema": schema,
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
        """Runs until the query ends (or Ctrl-C); gives the number of rows. Starts again after failures, as defined."""
        from pyspark.errors import StreamingQueryException

        from highwater.pipeline.job import Standing
        from highwater.pipeline.query import follow, session, start

        definition = self.definition(trigger)
        standing = Standing(definition.name)
        spark = session(definition, master)
        failures = 0
        with Display(Console(stderr=True)) as display:
            while True:
                query = start(spark, definition, self._transform)
                try:
                    for report in follow(query, lambda: False):
                        failures = 0
                        standing.state, standing.last = "running", report
                        standing.rows += report.rows
                        display.show(standing)
                    return standing.rows
                except StreamingQueryException as failure:
                    failures += 1
                    wait = definition.restart.wait(failures)
                    if wait is None:
                        raise
                    standing.restarts += 1
                    display.trouble(f"{str(failure).splitlines()[0]} (again in {wait:g} s)")
                    time.sleep(wait)
                finally:
                    query.stop()
