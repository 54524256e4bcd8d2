"""What the processes of a system cost, as the kernel accounts it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_PROC = Path("/proc")


def tree(root: int) -> list[int]:
    """A process and all that descend from it."""
    children: dict[int, list[int]] = {}
    for entry in _PROC.iterdir():
        if entry.name.isdigit() and (fields := _stat(int(entry.name))):
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    found = [root]
    for pid in found:
        found += children.get(pid, [])
    return found


def cpu_seconds(pids: Iterable[int]) -> float:
    """Used so far, by their ended and awaited children too."""
    return sum(sum(map(int, fields[11:15])) for pid in pids if (fields := _stat(pid))) / _TICKS


def memory(pids: Iterable[int]) -> int:
    """Bytes, as the sum of PSS: a page that several processes share counts once, divided among them."""
    return sum(_pss(pid) for pid in pids)


def peak_memory(pids: Iterable[int]) -> int:
    """Bytes: the most that any one of them ever had in memory."""
    return max(_high_water(pid) for pid in pids)


def _high_water(pid: int) -> int:
    try:
        lines = (_PROC / str(pid) / "status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), 0)


def _stat(pid: int) -> list[str]:
    """From the state on: the name before it may hold spaces. Empty where the process has ended."""
    try:
        return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _pss(pid: int) -> int:
    try:
        lines = (_PROC / str(pid) / "smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
