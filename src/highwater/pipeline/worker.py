"""The process that runs one Spark query of a pipeline and reports its batches, for `job` to watch and start again."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from highwater.pipeline.definition import AVAILABLE_NOW, Definition, Transform
from highwater.pipeline.failures import failure_of
from highwater.pipeline.query import follow, maintained, session, sole_driver, start, transform_of
from highwater.pipeline.readiness import check_clusters
from highwater.pipeline.yaml_file import load


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m highwater.pipeline.worker")
    parser.add_argument("file", type=Path)
    parser.add_argument("--master")
    parser.add_argument("--once", action="store_true")
    parser.add_argument("--reports", type=int, required=True, help="the descriptor that reports are written to")
    parser.add_argument("--lock", type=int, help="the descriptor by which this process holds the checkpoint")
    arguments = parser.parse_args()
    parent = os.getppid()
    stops: list[int] = []

    def stop_in_order() -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda received, _: stops.append(received))

    with os.fdopen(arguments.reports, "w", encoding="utf-8") as reports:

        def report_event(**what: Any) -> None:
            reports.write(json.dumps(what) + "\n")
            reports.flush()

        try:
            definition = load(arguments.file)
            if arguments.once:
                definition = replace(definition, trigger=AVAILABLE_NOW)
            # Without a parent no process would ever stop this one.
            with sole_driver(definition, arguments.lock):
                transform = transform_of(definition)
                check_clusters(definition)
                # Until here a signal ends this process at once: it may be waiting for a cluster that does not answer.
                stop_in_order()
                _run(
                    definition, transform, arguments.master, lambda: bool(stops) or os.getppid() != parent, report_event
                )
        except Exception as error:
            report_event(event="failed", **asdict(failure_of(error)))
            raise
    return 0


def _run(
    definition: Definition,
    transform: Transform | None,
    master: str | None,
    stopping: Callable[[], bool],
    report_event: Callable[..., None],
) -> None:
    spark = session(definition, master)
    try:
        query = start(spark, definition, transform)
        report_event(event="started", query_id=str(query.id))
        with maintained(definition) as after_batch:
            for report in follow(query, definition, stopping, lambda: report_event(event="idle")):
                report_event(event="batch", **report.to_json())
                after_batch()
    finally:
        spark.stop()


if __name__ == "__main__":
    sys.exit(main())
