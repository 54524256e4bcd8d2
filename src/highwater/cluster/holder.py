"""Finds the process that has a port or a file, from /proc: for messages, and before a signal is sent."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

_PROC = Path("/proc")
_COMMAND_LENGTH = 120


def named(pid: int) -> str:
    """`pid 17 (python3 -m http.server)`"""
    try:
        words = (_PROC / str(pid) / "cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        words = []
    command = " ".join(filter(None, words))
    if len(command) > _COMMAND_LENGTH:
        command = command[:_COMMAND_LENGTH] + "…"
    return f"pid {pid} ({command})" if command else f"pid {pid}"


def holder_of_port(port: int) -> int | None:
    """The process with a socket on this TCP port; None if /proc does not show it, as for other users' processes."""
    sockets = {f"socket:[{inode}]" for table in ("tcp", "tcp6") for inode in _inodes(table, port)}
    return next((pid for pid in _pids() if sockets & set(_open_files(pid))), None) if sockets else None


def holder_of_file(path: Path) -> int | None:
    """The process that has exactly this file open; None if /proc does not show it."""
    wanted = str(path.resolve())
    return next((pid for pid in _pids() if wanted in _open_files(pid)), None)


def has_open(pid: int, path: Path) -> bool:
    """Whether the process has exactly this file open; False if /proc does not show it."""
    return str(path.resolve()) in _open_files(pid)


def _inodes(table: str, port: int) -> Iterator[str]:
    with contextlib.suppress(OSError):
        for line in (_PROC / "net" / table).read_text().splitlines()[1:]:
            fields = line.split()
            if int(fields[1].rpartition(":")[2], 16) == port:
                yield fields[9]


def _pids() -> list[int]:
    with contextlib.suppress(OSError):
        return [int(name) for name in os.listdir(_PROC) if name.isdigit()]
    return []


def _open_files(pid: int) -> list[str]:
    """The targets of its descriptors. A descriptor that is closed meanwhile, and a process of another user, show
    nothing."""
    found = []
    descriptors = f"/proc/{pid}/fd"
    with contextlib.suppress(OSError):
        for name in os.listdir(descriptors):
            with contextlib.suppress(OSError):
                found.append(os.readlink(f"{descriptors}/{name}"))
    return found
