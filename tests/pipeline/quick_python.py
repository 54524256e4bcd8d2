"""A Python for the tasks of Spark whose workers begin with everything imported: half of a small test is imports.

Spark forks workers off daemons, `python -m pyspark.daemon <module of the worker>`, and most live for one question: to
plan a read, to commit a batch. What it leaves for after the fork, since there must be no threads then, is done before:
those of numpy and Arrow belong to allocators and pools that are made for it.

The source of a stream has a process of its own, and Spark waits ten seconds for that, whatever the machine is doing.
It has PySpark from a zip file then, where nothing is compiled: that alone takes a second of a processor.
"""

from __future__ import annotations

import importlib
import os
import runpy
import sys
from pathlib import Path

DAEMON = "pyspark.daemon"
IMPORTED = ("pandas", "pyarrow.parquet", "deltalake", "pyiceberg.catalog.sql", "pyiceberg.io.pyarrow")
OURS = ("pyspark_highwater", "pyspark_highwater_table")


def main(*arguments: str) -> None:
    """As the interpreter would be called by Spark; what is no module goes on to the interpreter itself."""
    if arguments[:1] != ("-m",):
        os.execv(sys.executable, [sys.executable, *arguments])
    _, module, *others = arguments
    # As with -m; and PySpark as it is installed beside us.
    sys.path[:] = [os.getcwd(), *(path for path in sys.path[1:] if not path.endswith((".zip", ".jar")))]
    for name in (*IMPORTED, *OURS, *others) if module == DAEMON else ():
        importlib.import_module(name)
    sys.argv = [module, *others]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def written_to(path: Path) -> Path:
    """An executable that is this file, and runs with the interpreter of the tests."""
    path.write_text(f"#!{sys.executable}\n{Path(__file__).read_text()}")
    path.chmod(0o700)
    return path


if __name__ == "__main__":
    main(*sys.argv[1:])
