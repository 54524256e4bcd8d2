"""Where an embedded cluster keeps its data: in a directory that stays, or in one that is deleted with the cluster."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from highwater.cluster.directory import DataDirectory


class Home:
    def __init__(self, kept: Path | None) -> None:
        self._kept = kept
        self._directory: DataDirectory | None = None

    @property
    def is_kept(self) -> bool:
        return self._kept is not None

    def open(self) -> Path:
        """Raises ClusterFailed if another cluster uses it."""
        self._directory = DataDirectory(self._kept or Path(tempfile.mkdtemp(prefix="highwater-")))
        return self._directory.path

    def close(self) -> None:
        if self._directory is not None:
            if not self.is_kept:
                shutil.rmtree(self._directory.path, ignore_errors=True)
            self._directory.release()
            self._directory = None

    def abandon(self) -> None:
        """As `close`, if nothing was laid out: a directory that was made for it is removed."""
        if self._directory is not None:
            self._directory.abandon()
        self.close()
