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
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
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


def main(formats: Sequence[str], sources: Sequence[str], arguments: Sequence[str], is_changed: bool = False) -> None:
    """As the interpreter would be called by Spark; what is no daemon goes on to the interpreter itself, unless the
    sources change what runs there."""
    os.environ["PYTHONPATH"] = os.pathsep.join(unzipped(os.environ.get("PYTHONPATH", "").split(os.pathsep)))
    is_daemon = arguments[:2] == DAEMON
    if not is_daemon and (not is_changed or arguments[:1] != ["-m"]):
        os.execv(sys.executable, [sys.executable, *arguments])
    _, module, *workers = arguments
    sys.path[:] = [os.getcwd(), *unzipped(sys.path[1:])]  # as with -m
    if not is_daemon:  # the process of a source, for example
        for name in sources:
            importlib.import_module(name)
    for worker in workers if is_daemon else ():
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


def written_to(
    path: Path,
    formats: Sequence[str] = tuple(OF_TABLES),
    sources: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> Path:
    """An executable that runs `main` with the interpreter of the tests.

    For tables of these formats, and for data sources of these modules beside our own. With an `environment` it runs
    anywhere: in the working directory of an executor, too, modules of the tests can be imported."""
    is_changed = environment is not None
    call = f"runpy.run_path({__file__!r})['main']({tuple(formats)}, {(*OURS, *sources)}, sys.argv[1:], {is_changed})"
    if environment is not None:
        call = f"import os\nos.environ |= {dict(environment)!r}\nsys.path.append({str(ROOT)!r})\n{call}"
    path.write_text(f"#!{sys.executable}\nimport runpy, sys\n{call}\n")
    path.chmod(0o700)
    return path
