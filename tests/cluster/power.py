"""A machine whose power can be cut: what its disks were not made to keep is lost, and its processes are gone.

A disk is an ext4 file system in a file. The cut is ext4's own: it takes in nothing more from that moment on, and what
lies in memory alone, records of the journal included, is dropped. To mount it again is the reboot.

Only root may mount. So that nothing stays mounted whatever becomes of a run, it belongs into a mount namespace of its
own, which ends with its processes: `in_own_mounts`.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import shutil
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from select import select

EXT4_IOC_SHUTDOWN = 0x8004587D
WITHOUT_THE_JOURNAL = struct.pack("I", 2)
PR_SET_CHILD_SUBREAPER = 36
STRICT = "loop,noauto_da_alloc,commit=300"
"""Else ext4 itself syncs a file that replaces another one, and everything every five seconds."""
MEGABYTES = 512
UNSYNCED = "unsynced"
READY_SECONDS = 90.0
CANNOT_MOUNT = 77
"""The exit code of a program that says so."""


class CannotMount(Exception):
    """Not root, or a kernel or a container without loop devices."""


class Disk:
    """The file grows as it is written."""

    def __init__(self, image: Path, at: Path) -> None:
        self._image = image
        self.at = at

    def make(self) -> None:
        with self._image.open("wb") as image:
            image.truncate(MEGABYTES << 20)
        _run("mkfs.ext4", "-q", "-F", "-m", "0", str(self._image))

    def mount(self) -> None:
        """After a cut, ext4 puts its journal in order first."""
        self.at.mkdir(exist_ok=True)
        _run("mount", "-o", STRICT, str(self._image), str(self.at))

    def unmount(self) -> None:
        _run("umount", str(self.at))

    def cut(self) -> None:
        where = os.open(self.at, os.O_RDONLY)
        try:
            fcntl.ioctl(where, EXT4_IOC_SHUTDOWN, WITHOUT_THE_JOURNAL)
        finally:
            os.close(where)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise OSError(f"{' '.join(command)}: {done.stderr.strip()}")


class Machine:
    """One disk for `up` and one for each node, since in a file system each sync is a sync of all names; one power."""

    def __init__(self, folder: Path, nodes: int, *others: str) -> None:
        """`others` name further disks, each mounted below the folder by its name."""
        self.data = folder / "data"
        self._folder = folder
        names = {"data": self.data} | {f"node-{node}": self.data / f"node-{node}" for node in range(1, nodes + 1)}
        names |= {name: folder / name for name in others}
        self._disks = [Disk(folder / f"{name}.ext4", at) for name, at in names.items()]
        for disk in self._disks:
            disk.make()
            disk.mount()
        _run("sync", "--file-system", str(self.data))  # the places where the other disks are mounted
        self._processes: list[subprocess.Popen[str]] = []
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)

    def start(
        self, command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
    ) -> subprocess.Popen[str]:
        """A process that loses its power with the rest. Its log is on no disk of this machine."""
        with log.open("a") as output:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=output, text=True, env=environment
            )
        self._processes.append(process)
        return process

    def up(self, *arguments: str) -> subprocess.Popen[str]:
        """`highwater up`; its first line says that it is ready."""
        command = [sys.executable, "-m", "highwater", "up", "--data-dir", str(self.data), *arguments]
        return self.start(command, self._folder / "up.err")

    def wait_until_ready(self, up: subprocess.Popen[str]) -> float:
        """Gives the seconds that it took from now on."""
        assert up.stdout is not None
        began = time.monotonic()
        line = up.stdout.readline() if select([up.stdout], [], [], READY_SECONDS)[0] else ""
        assert line.startswith("ready "), f"not ready after {time.monotonic() - began:.0f} s: {self._last_words()}"
        return time.monotonic() - began

    def _last_words(self) -> str:
        """Of `up` and of each node; those of a node are on its disk, so that its earlier ones may be lost."""
        logs = [self._folder / "up.err", *sorted(self.data.glob("node-*/node.log"))]
        return "\n".join(f"{log}:\n" + log.read_text(errors="replace")[-1500:] for log in logs if log.exists())

    def cut_power(self) -> None:
        """At once. The processes live a moment longer, on disks that keep nothing any more."""
        for disk in self._disks:
            (disk.at / UNSYNCED).write_text("in memory alone")
        for disk in self._disks:
            disk.cut()
        self._kill()

    def reboot(self) -> None:
        for disk in reversed(self._disks):
            disk.unmount()
        for disk in self._disks:
            disk.mount()
            unsynced = disk.at / UNSYNCED
            assert not unsynced.exists() or not unsynced.stat().st_size, "a cut that loses nothing proves nothing"

    def _kill(self) -> None:
        """All that runs, and what was started a moment ago: orphans come to this process, as it has asked for."""
        while members := family(os.getpid())[1:]:
            for pid in members:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            for process in self._processes:
                process.wait()
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, 0)[0]:
                    pass
        for process in self._processes:
            assert process.stdout is not None
            process.stdout.close()
        self._processes.clear()

    def close(self) -> None:
        self._kill()
        for disk in reversed(self._disks):
            with contextlib.suppress(OSError):
                disk.unmount()


@contextlib.contextmanager
def powered(folder: Path, nodes: int, *others: str) -> Iterator[Machine]:
    folder.mkdir(parents=True, exist_ok=True)
    try:
        machine = Machine(folder, nodes, *others)
    except OSError as reason:
        raise CannotMount(str(reason)) from reason
    try:
        yield machine
    finally:
        machine.close()


def family(pid: int) -> list[int]:
    """The process, those that it started, and theirs."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            found += [member for child in task.read_text().split() for member in family(int(child))]
    return found


def in_own_mounts(*command: str) -> subprocess.CompletedProcess[str]:
    """Runs a program of this module's kind to its end; raises CannotMount where it cannot be."""
    unshare = shutil.which("unshare")
    if unshare is None or os.geteuid() != 0:
        raise CannotMount("power cuts need root and `unshare`: they mount file systems")
    own = [unshare, "--mount", "--propagation", "private", sys.executable, "-m", *command]
    done = subprocess.run(own, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode == CANNOT_MOUNT or (done.returncode and done.stdout.startswith("unshare:")):
        raise CannotMount(done.stdout.strip())
    return done
