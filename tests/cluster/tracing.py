"""strace on a running node: what it asks the kernel for, in order, and errors put in its way."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

needs_strace = pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")

_CALL = re.compile(r"^\d+ +(?P<name>\w+)\((?:\w+, )?(?:\d+|AT_FDCWD)<(?P<on>TCP:\[[^\]]*\]|[^>]*)>(?P<rest>.*)$")
_UNFINISHED = " <unfinished ...>"
_BEGUN = re.compile(rf"^(?P<thread>\d+) +(?P<name>\w+)\(.*{re.escape(_UNFINISHED)}$")
_FILLED = re.compile(r"\) += ")
_RESUMED = re.compile(r"^(?P<thread>\d+) +<\.\.\. (?P<name>\w+) resumed>")


class Call(NamedTuple):
    """A system call that has returned: its name, the path or the connection it was for, the rest of the line."""

    name: str
    on: str
    rest: str


@contextmanager
def traced(pid: int, output: Path, *options: str) -> Iterator[None]:
    """strace with these options while the block runs; it is attached when the block begins."""
    command = ["strace", "-f", "-yy", "-p", str(pid), "-o", str(output), *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        line = process.stderr.readline()
        if "attached" not in line:
            pytest.skip(f"processes cannot be traced here: {line}{process.stderr.read()}")
        yield
    finally:
        process.terminate()
        process.communicate()


@contextmanager
def failing(pid: int, output: Path, path: Path | Sequence[Path], *faults: str) -> Iterator[None]:
    """Errors for system calls on these paths: `fdatasync:error=EIO` and the like."""
    paths = [path] if isinstance(path, Path) else path
    options = [option for each in paths for option in ("-P", str(each))]
    with traced(pid, output, *options, *(f"--inject={fault}" for fault in faults)):
        yield


def calls(output: Path) -> list[Call]:
    """In the order in which they returned."""
    found = (_CALL.match(line) for line in whole_lines(output.read_text()))
    return [Call(called["name"], called["on"], called["rest"]) for called in found if called]


def whole_lines(trace: str) -> Iterator[str]:
    """Each a whole call, in the order in which they returned. strace writes a call in two parts where another thread or
    process makes one meanwhile, and fills the space before its result."""
    begun: dict[tuple[str, str], str] = {}
    for line in trace.splitlines():
        if half := _BEGUN.match(line):
            begun[half["thread"], half["name"]] = half[0].removesuffix(_UNFINISHED)
        elif resumed := _RESUMED.match(line):
            yield begun.pop((resumed["thread"], resumed["name"]), "") + _FILLED.sub(") = ", line[resumed.end() :])
        else:
            yield _FILLED.sub(") = ", line)
