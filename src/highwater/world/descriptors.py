"""How many file descriptors this process may have open, and how they are shared.

Files can be closed and opened again, but an accepted connection stays. So both are limited by what the system allows: a
client that opens many connections must not keep a log from its own files.
"""

from __future__ import annotations

import contextlib
import resource
from typing import NamedTuple

MOST_FILES = 2048
KEPT_BACK = 384
"""Descriptors for files of jobs, connections to other nodes and the HTTP listener."""
_ENDLESS = 1 << 20


class Shares(NamedTuple):
    files: int
    connections: int


def limit() -> int:
    """The present RLIMIT_NOFILE."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _ENDLESS if soft == resource.RLIM_INFINITY else soft


def raise_limit() -> None:
    """Raises the limit as far as the system allows. The usual soft limit of 1024 is for programs that still call
    select()."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):  # macOS reports a hard limit that it does not accept
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def shares(limit: int) -> Shares:
    files = min(MOST_FILES, limit // 4)
    return Shares(files, limit - files - min(KEPT_BACK, limit * 3 // 8))
