"""Stops in the product's own source and sink, as Spark's Python processes run them: loaded by `quick_python` before
they begin, so that what runs is the command as users type it.

A process that comes to the point that the file `armed` names says so in `parked`, and stands there until that file is
gone, or its parent is. The file `sabotage` names a mistake that the sink is to make, to be found by the judge.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from pyspark import TaskContext

import highwater
from highwater.pipeline.landing.writer import BATCH_PROPERTY, StreamWriter
from highwater.pipeline.stream import StreamReader

FOLDER = "HIGHWATER_STOPS"
"""The variable with the folder of these files."""
LOOK_SECONDS = 0.05


def stop_here(point: str) -> None:
    """Of several processes that come here one stops."""
    folder = Path(os.environ[FOLDER])
    armed, mine = folder / "armed", folder / f"armed.{os.getpid()}"
    try:
        if armed.read_text() != point:
            return
        armed.rename(mine)
    except FileNotFoundError:
        return
    mine.write_text(json.dumps({"point": point, "pid": os.getpid(), "code": highwater.__file__, "batch": _batch()}))
    parked = folder / "parked"
    mine.rename(parked)
    parent = os.getppid()
    while parked.exists():
        if os.getppid() != parent:
            os._exit(1)
        time.sleep(LOOK_SECONDS)


def _batch() -> str | None:
    context = TaskContext.get()
    return None if context is None else context.getLocalProperty(BATCH_PROPERTY)


def _sabotage() -> str:
    file = Path(os.environ[FOLDER], "sabotage")
    return file.read_text() if file.exists() else ""


def _stopping(owner: type, name: str, changed: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    setattr(owner, name, changed(getattr(owner, name)))


def _partitions(usual: Callable[..., Any]) -> Callable[..., Any]:
    def partitions(self: StreamReader, start: Any, end: Any) -> Any:
        planned = usual(self, start, end)
        if planned:
            stop_here("planned")
        return planned

    return partitions


def _read(usual: Callable[..., Any]) -> Callable[..., Any]:
    def read(self: StreamReader, partition: Any) -> Iterator[Any]:
        yield from usual(self, partition)
        if self._rows is not None:
            stop_here("fetched")

    return read


def _write(usual: Callable[..., Any]) -> Callable[..., Any]:
    def write(self: StreamWriter, iterator: Any) -> Any:
        staged = usual(self, iterator)
        if self.task.direct:
            stop_here("fetched")
        return staged

    return write


def _land(usual: Callable[..., Any]) -> Callable[..., Any]:
    def land(self: StreamWriter, batch: Any, files: Any) -> bool:
        mistake = _sabotage()
        if mistake == "forgets":
            # A table that never heard of the batch, whatever it has.
            unknown = str(uuid4())
            batch = replace(batch, landing_id=unknown, query_id=unknown, reaches=None, has_past=False)
        elif mistake == "loses":
            files = files[1:]
        stop_here("before-commit")
        landed: bool = usual(self, batch, files)
        stop_here("after-commit")
        return landed

    return land


if FOLDER in os.environ:
    _stopping(StreamReader, "partitions", _partitions)
    _stopping(StreamReader, "read", _read)
    _stopping(StreamWriter, "write", _write)
    _stopping(StreamWriter, "land", _land)
