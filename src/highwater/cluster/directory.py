"""The data directory of a cluster: it is made if it is missing, it is locked, and no node of an earlier run still uses
it."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

from highwater.cluster.failed import ClusterFailed
from highwater.cluster.holder import has_open, named
from highwater.cluster.lock import DirectoryLock
from highwater.log.checkpoint import replace_file
from highwater.log.names import LOCK
from highwater.storage.format import make_directory
from highwater.world import AlreadyLocked
from highwater.world.real_disk import RealDisk

NODES = "nodes.json"
PID = "pid"
ENDING_SECONDS = 10.0
"""How long the nodes may take to end if their `highwater up` was killed a moment ago."""
_POLL_SECONDS = 0.05


class DataDirectory:
    """The directory belongs to this process from now on. Raises ClusterFailed if another process uses it. Nothing is
    changed before that is known."""

    def __init__(self, path: Path) -> None:
        self.path = path
        missing = [each for each in (path, *path.parents) if not each.exists()]
        make_directory(RealDisk(), path)
        self._made = missing
        try:
            self.lock = DirectoryLock(path)
        except BaseException:
            self._unmake()
            raise
        try:
            self._wait_for_nodes()
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        self.lock.release()

    def abandon(self) -> None:
        """The start failed: removes what was made for it, unless something was put there."""
        if self._made:
            self.lock.path.unlink(missing_ok=True)
        self.release()
        self._unmake()

    def _unmake(self) -> None:
        with contextlib.suppress(OSError):
            for each in self._made:
                each.rmdir()

    def _wait_for_nodes(self) -> None:
        deadline = time.monotonic() + ENDING_SECONDS
        for home in sorted(self.path.glob("node-*")):
            lock = home / "data" / LOCK
            while lock.exists() and not _is_free(lock):
                if time.monotonic() > deadline:
                    raise ClusterFailed(f"{lock.parent} is in use by a node{_holder(home, lock)}: end it first")
                time.sleep(_POLL_SECONDS)


def write_durably(path: Path, text: str) -> None:
    """Replaces the whole file durably."""
    for _ in replace_file(RealDisk(), path, text.encode("iso-8859-1")):
        pass


def _is_free(lock: Path) -> bool:
    try:
        RealDisk().lock(lock)()
    except AlreadyLocked:
        return False
    return True


def _holder(home: Path, lock: Path) -> str:
    with contextlib.suppress(OSError, ValueError):
        pid = int((home / PID).read_text())
        if has_open(pid, lock):
            return f", {named(pid)}"
    return ""
