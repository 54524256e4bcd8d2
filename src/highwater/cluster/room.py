"""Whether the disk under a data directory has room left."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

LEAST_BYTES = 1 << 20


class Room:
    def __init__(self, path: Path, least: int = LEAST_BYTES) -> None:
        self._path = path
        self.least = least
        self._was_full = False
        self._was_unknown = False

    def news(self) -> Iterator[str]:
        """One line when the disk has become full, one when it has room again, and one when nobody can tell."""
        try:
            disk = os.statvfs(self._path)
        except OSError as failed:
            if not self._was_unknown:
                yield f"how much room there is cannot be read: {failed}"
            self._was_unknown = True
            return
        self._was_unknown = False
        blocks = disk.f_bfree if os.geteuid() == 0 else disk.f_bavail  # some are kept for root alone
        free = blocks * disk.f_frsize
        has_names = not disk.f_files or disk.f_ffree > 0
        is_full = free < self.least or not has_names
        if is_full == self._was_full:
            return
        self._was_full = is_full
        if not is_full:
            yield f"the disk of {self._path} has room again"
        else:
            left = f"{free} bytes are free" if has_names else "no file can be made any more"
            yield f"the disk of {self._path} is full ({left}): writes are refused until there is room"
