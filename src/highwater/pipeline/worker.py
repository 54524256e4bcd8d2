"""The process that runs one Spark query of a pipeline and reports its batches, for `job` to watch and start again."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from highwater.pipeline.definition import AVAILABLE_NOW
from highwater.pipeline.query import follow, session, sole_driver, start, transform_of
from highwater.pipeline.yaml_file import load


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m highwater.pipeline.worker")
    parser.add_argument("file", type=Path)
    parser.add_argument("--master")
    parser.add_argument("--once", action="store_true")
    parser.add_argument("--reports", type=int, required=True, help="the descriptor that reports are written to")
    arguments = parser.parse_args()
    parent = os.getppid()
    stops: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, _: stops.append(received))
    definition = load(arguments.file)
    if arguments.once:
        definition = replace(definition, trigger=AVAILABLE_NOW)
    transform = transform_of(definition)
    with os.fdopen(arguments.reports, "w", encoding="utf-8") as reports:

        def tell(**what: Any) -> None:
            reports.write(json.dumps(what) + "\n")
            reports.flush()

        with sole_driver(definition):
            spark = session(definition, arguments.master)
            try:
                query = start(spark, definition, transform)
                tell(event="started", query_id=str(query.id))
                # Without a parent nobody would ever stop this process.
                for report in follow(query, lambda: bool(stops) or os.getppid() != parent):
                    tell(event="batch", **report.to_json())
            finally:
                spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
