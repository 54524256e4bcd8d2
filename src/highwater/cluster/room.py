"""Checks whether the disk of a data directory has free space."""

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
        """One line when the disk has become full, one when it has space again, and one when this cannot be found
        out."""
        try:
            short = shortage(self._path, self.least)
        except OSError as failed:
            if not self._was_unknown:
                yield f"how much room there is cannot be read: {failed}"
            self._was_unknown = True
            return
        self._was_unknown = False
        is_full = short is not None
        if is_full == self._was_full:
            return
        self._was_full = is_full
        if not is_full:
            yield f"the disk of {self._path} has room again"
        else:
            yield f"the disk of {self._path} is full ({short}): writes are refused until there is room"


def shortage(path: Path, least: int = LEAST_BYTES) -> str | None:
    """What the disk of a directory is short of; None if it has room. Raises OSError if this cannot be found out."""
    disk = os.statvfs(path)
    blocks = disk.f_bfree if os.geteuid() == 0 else disk.f_bavail  # some are kept for root alone
    free = blocks * disk.f_frsize
    if disk.f_files and not disk.f_ffree:
        return "no file can be made any more"
    return f"{free} bytes are free" if free < least else None
