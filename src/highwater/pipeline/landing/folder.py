"""Files in a folder that the driver and all executors share, kept through a loss of power."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from highwater.pipeline.landing.partitioning import WHOLE, Partitioning

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class FolderStaging:
    folder: str
    suffix: str
    required: tuple[str, ...] = ()
    """Columns that the table does not let be null."""
    partitioning: Partitioning = WHOLE

    def create(self, name: str) -> tuple[str, pa.NativeFile]:
        import pyarrow as pa

        location = f"{self.folder}/{name}{self.suffix}"
        return location, pa.OSFile(location, "wb")

    def seal(self, location: str) -> None:
        sync(Path(location))
        sync(Path(self.folder))


def sync(path: Path) -> None:
    """A file's bytes, or a folder's names."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(path: Path) -> None:
    """With its parents; their names survive a loss of power, too."""
    if not path.is_dir():
        make_folder(path.parent)
        path.mkdir(exist_ok=True)
        sync(path.parent)


def remove_old(files: Iterable[Path], older_than: timedelta) -> list[str]:
    """Removes those that have not been written to for so long; another clean-up may be at it, too."""
    limit = time.time() - older_than.total_seconds()
    removed = []
    for file in files:
        try:
            if file.stat().st_mtime < limit:
                file.unlink()
                removed.append(str(file))
        except FileNotFoundError:
            continue
    return removed
