"""How many descriptors this process may have open, and who gets how many of them.

Files are opened again when they are needed; a connection that is let in is there to stay. So both are bounded by what
the system allows: a client that dials often enough must not keep a log from its own files.
"""

from __future__ import annotations

import contextlib
import resource
from typing import NamedTuple

MOST_FILES = 2048
KEPT_BACK = 384
"""For files that jobs have open, connections to other nodes and the HTTP listener."""
_ENDLESS = 1 << 20


class Shares(NamedTuple):
    files: int
    connections: int


def limit() -> int:
    """RLIMIT_NOFILE as it is now."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _ENDLESS if soft == resource.RLIM_INFINITY else soft


def raise_limit() -> None:
    """As far as the system lets us: a shell's soft limit of 1024 is for programs that still call select()."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):  # macOS has a hard limit that it does not keep to
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def shares(limit: int) -> Shares:
    files = min(MOST_FILES, limit // 4)
    return Shares(files, limit - files - min(KEPT_BACK, limit * 3 // 8))
