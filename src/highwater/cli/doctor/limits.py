"""What the system allows a node's process: descriptors and memory. Read from /proc, for processes of this machine."""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from highwater.cli.doctor.finding import LIMITS, Finding
from highwater.world.descriptors import shares

LEAST_DESCRIPTORS = 4096
MOST_OF_DESCRIPTORS = 0.8
LEAST_MEMORY = 256 << 20
"""Less than this is soon taken, and then the system ends a process."""
_PROC = Path("/proc")
_CGROUPS = Path("/sys/fs/cgroup")
_MIB = 1 << 20


class Memory(NamedTuple):
    """What a process may still take, and what bounds it."""

    free: int
    bound: str


def examine_process(name: str, pid: int, proc: Path = _PROC, cgroups: Path = _CGROUPS) -> Iterator[Finding]:
    """A node that runs."""
    try:
        limit = _limit(proc / str(pid) / "limits", "Max open files")
        used = len(os.listdir(proc / str(pid) / "fd"))
    except OSError as failed:
        yield LIMITS.unknown(
            f"{name} (pid {pid}): {failed.strerror}", "Run highwater doctor as the user of the node, or as root."
        )
        return
    yield _descriptors(f"{name} (pid {pid})", limit, used)
    memory = _memory(pid, proc, cgroups)
    if memory is not None:
        yield _judged(f"{name} (pid {pid})", memory)


def examine_start(name: str, proc: Path = _PROC, cgroups: Path = _CGROUPS) -> Iterator[Finding]:
    """A node that would be started from here. It raises its own limit as far as the system lets it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = None if hard == resource.RLIM_INFINITY else hard
    yield _descriptors(f"{name}, if it is started from here,", limit, 0)
    memory = _memory(os.getpid(), proc, cgroups)
    if memory is not None:
        yield _judged(f"{name}, if it is started from here,", memory)


def _descriptors(whose: str, limit: int | None, used: int) -> Finding:
    if limit is None:
        return LIMITS.well(f"{whose} may open any number of files")
    remedy = (
        f"Raise it to {LEAST_DESCRIPTORS} or more before the start: `ulimit -n`, or LimitNOFILE= of its systemd unit."
    )
    if limit < LEAST_DESCRIPTORS:
        part = shares(limit)
        return LIMITS.wrong(
            f"{whose} may open only {limit} files: room for {part.connections} connections and {part.files} files of "
            "logs",
            remedy,
        )
    if used > MOST_OF_DESCRIPTORS * limit:
        return LIMITS.wrong(f"{whose} has {used} of the {limit} files open that it may open", remedy)
    return LIMITS.well(f"{whose} may open {limit} files{f', and has {used} open' if used else ''}")


def _judged(whose: str, memory: Memory) -> Finding:
    text = f"{whose} may take {memory.free // _MIB} MiB more of memory ({memory.bound})"
    if memory.free >= LEAST_MEMORY:
        return LIMITS.well(text)
    return LIMITS.wrong(text, "Raise that bound, or move other programs away, before the system ends a process.")


def _memory(pid: int, proc: Path, cgroups: Path) -> Memory | None:
    """The narrowest of what binds the process; None if nothing is known."""
    found = []
    with contextlib.suppress(OSError, ValueError, KeyError):
        rows = dict(line.split(":", 1) for line in (proc / "meminfo").read_text().splitlines())
        found.append(Memory(int(rows["MemAvailable"].split()[0]) * 1024, "what is available on this machine"))
    with contextlib.suppress(OSError, ValueError):
        found += _of_group(pid, proc, cgroups)
    with contextlib.suppress(OSError, ValueError, KeyError):
        allowed = _limit(proc / str(pid) / "limits", "Max address space")
        if allowed is not None:
            rows = dict(line.split(":", 1) for line in (proc / str(pid) / "status").read_text().splitlines())
            taken = int(rows["VmSize"].split()[0]) * 1024
            found.append(Memory(max(0, allowed - taken), f"its limit of address space, {allowed // _MIB} MiB"))
    return min(found, default=None)


def _of_group(pid: int, proc: Path, cgroups: Path) -> Iterator[Memory]:
    """The bounds of its control group (version 2), as containers have them, and of those around it."""
    path = next(
        line.removeprefix("0::").lstrip("/")
        for line in [*(proc / str(pid) / "cgroup").read_text().splitlines(), "0::"]
        if line.startswith("0::")
    )
    group = cgroups / path
    for each in (group, *group.parents):
        if not each.is_relative_to(cgroups):
            return
        with contextlib.suppress(OSError, ValueError):
            bound = (each / "memory.max").read_text().strip()
            if bound != "max":
                taken = int((each / "memory.current").read_text())
                yield Memory(max(0, int(bound) - taken), f"the bound of its control group, {int(bound) // _MIB} MiB")


def _limit(path: Path, name: str) -> int | None:
    """The soft limit in a process's table; None for unlimited. Raises OSError, also if it is not there."""
    for line in path.read_text().splitlines():
        if line.startswith(name):
            soft = line.removeprefix(name).split()[0]
            return None if soft == "unlimited" else int(soft)
    raise OSError(f"{path} does not name {name}")
