"""Files of Iceberg that survive a loss of power once they are closed.

pyiceberg's own are left to the operating system. A catalog that has a commit on its disk, and names metadata that is
not on any, would have lost the table.
"""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import TYPE_CHECKING

from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO

from highwater.pipeline.landing.folder import make_folder, sync

if TYPE_CHECKING:
    from pyiceberg.io import OutputStream

_BUFFER = 1 << 20


class KeptFileIO(PyArrowFileIO):
    """As pyiceberg's, for whatever store; what lies in a folder is synced with its name."""

    def new_output(self, location: str) -> PyArrowFile:
        output = super().new_output(location)
        scheme, _, path = self.parse_location(location, self.properties)
        return _KeptFile(output, Path(path)) if scheme == "file" else output


class _KeptFile(PyArrowFile):
    def __init__(self, output: PyArrowFile, path: Path) -> None:
        super().__init__(output.location, output._path, output._filesystem, _BUFFER)
        self._file = path

    def create(self, overwrite: bool = False) -> OutputStream:
        make_folder(self._file.parent)
        return io.BufferedWriter(_SyncedFile(self._file, "wb" if overwrite else "xb"), _BUFFER)


class _SyncedFile(io.FileIO):
    def close(self) -> None:
        if not self.closed:
            os.fsync(self.fileno())
            super().close()
            sync(Path(os.fsdecode(self.name)).parent)
