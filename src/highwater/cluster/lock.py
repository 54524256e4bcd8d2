"""The lock of a cluster's data directory. It is held from before the first write until the last node has ended."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from highwater.cluster.failed import ClusterFailed
from highwater.cluster.holder import named
from highwater.log.names import LOCK

PATIENCE_SECONDS = 1.0
"""Nodes that outlived their cluster take the lock for a moment, to check whether it is free."""
_POLL_SECONDS = 0.02


class DirectoryLock:
    """The system releases it when the process ends, even by a kill."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / LOCK
        self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            self._take()
        except BaseException:
            os.close(self._fd)
            raise

    def _take(self) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise ClusterFailed(
                        f"{self.path.parent} is in use{_by(self.path)}: end that cluster, or choose another directory"
                    ) from None
                time.sleep(_POLL_SECONDS)
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """In a fork this only closes the fork's share: the lock stays with the process that took it."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def when_released(path: Path, act: Callable[[], None]) -> bool:
    """Calls `act`, from its own thread, when the holder of the lock has ended. False if no process holds the lock now:
    then it is never called."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        threading.Thread(target=_wait, args=(fd, act), name="cluster-lock", daemon=True).start()
        return True
    os.close(fd)
    return False


def _wait(fd: int, act: Callable[[], None]) -> None:
    try:
        fcntl.flock(fd, fcntl.LOCK_SH)
    finally:
        os.close(fd)
    act()


def _by(path: Path) -> str:
    """For messages only: a process that a file names is never signalled."""
    try:
        return f" by {named(int(path.read_text()))}"
    except (OSError, ValueError):
        return ""
