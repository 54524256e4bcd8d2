"""A Python for the tasks of Spark whose workers begin with everything imported: half of a small test is imports.

Spark forks workers off daemons, `python -m pyspark.daemon <module of the worker>`, one daemon for each kind of worker,
and most workers live for one question: to plan a read, to commit a batch. What Spark leaves for after the fork, since
there must be no threads then, is done before: those of numpy and Arrow belong to allocators and pools that are made for
it. And what Spark puts on the path as zips, where no bytecode is kept, is taken from where it is installed.
"""

from __future__ import annotations

import gc
import importlib
import os
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

DAEMON = ["-m", "pyspark.daemon"]
SPARKS_ZIPS = ("pyspark.zip", "py4j-")
OURS = ("pyspark_highwater", "pyspark_highwater_table")
TASKS = "pyspark.worker"
OF_TASKS = ("pandas", "pyarrow.parquet")
OPEN_TABLES = (
    "pyspark.sql.worker.write_into_data_source",
    "pyspark.sql.worker.commit_data_source_write",
    "pyspark.sql.worker.python_streaming_sink_runner",
)
OF_TABLES = {
    "parquet": ("pyarrow.parquet",),
    "delta": ("deltalake",),
    "iceberg": ("pyiceberg.catalog.sql", "pyiceberg.io.pyarrow"),
}
"""By format. Iceberg's take longer than all others together."""


def main(formats: Sequence[str], sources: Sequence[str], arguments: Sequence[str]) -> None:
    """As the interpreter would be called by Spark; what is no daemon goes on to the interpreter itself."""
    os.environ["PYTHONPATH"] = os.pathsep.join(unzipped(os.environ.get("PYTHONPATH", "").split(os.pathsep)))
    if arguments[:2] != DAEMON:
        os.execv(sys.executable, [sys.executable, *arguments])
    _, module, *workers = arguments
    sys.path[:] = [os.getcwd(), *unzipped(sys.path[1:])]  # as with -m
    for worker in workers:
        for name in (*sources, *imported_by(worker, formats), worker):
            importlib.import_module(name)
    gc.freeze()  # a worker collects garbage after each task, and would look through all of this
    sys.argv = [module, *workers]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def unzipped(path: Sequence[str]) -> list[str]:
    return [entry for entry in path if not os.path.basename(entry).startswith(SPARKS_ZIPS)]


def imported_by(worker: str, formats: Sequence[str]) -> Sequence[str]:
    """Beside the code of data sources, which is all that a question about options takes."""
    if worker == TASKS:
        return OF_TASKS
    return [name for kind in formats for name in OF_TABLES[kind]] if worker in OPEN_TABLES else ()


def written_to(path: Path, formats: Sequence[str] = tuple(OF_TABLES), sources: Sequence[str] = ()) -> Path:
    """An executable that runs `main` with the interpreter of the tests.

    For tables of these formats, and for data sources of these modules beside our own."""
    call = f"runpy.run_path({__file__!r})['main']({tuple(formats)}, {(*OURS, *sources)}, sys.argv[1:])"
    path.write_text(f"#!{sys.executable}\nimport runpy, sys\n{call}\n")
    path.chmod(0o700)
    return path
