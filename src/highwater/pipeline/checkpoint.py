"""A checkpoint of Spark's in a folder of this machine: what is read of it, kept through a loss of power, and locked.

Spark itself syncs nothing. The offsets of a batch are synced here before the table gets its rows: so after a loss of
power a batch that the table has is planned with the same offsets again, and what Spark was just writing, and left
half-written, is no part of any table.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from highwater.pipeline.landing.folder import make_folder, sync
from highwater.pipeline.offsets import Positions, is_initial

ROWS = "highwater-rows"
"""Beside what Spark keeps in the folder."""
NOTED_BATCHES = 200
"""Spark itself reports the last hundred."""
_VERSION = "v1"
_NONE_YET = "-"


class Landed(NamedTuple):
    """What a batch brings into a table."""

    rows: int
    files: int = 0
    size: int = 0
    """Bytes of the files."""
    bad: int = 0
    """Records that did not fit the schema; counted in direct mode alone."""


class InUse(ValueError):
    """Another driver works on the checkpoint."""


class Checkpoint:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def at(cls, location: str | None) -> Checkpoint | None:
        """None where it is not in a folder of this machine."""
        if location is None or ("://" in location and not location.startswith("file://")):
            return None
        return cls(Path(location.removeprefix("file://").removeprefix("file:")))

    def offsets(self, number: int) -> list[Positions | None] | None:
        """Where a batch ends, for each source of the query; None for one that has not begun.

        None where they cannot be read as offsets of topics: another source, or a form of Spark's that is not known.
        """
        try:
            version, _, *sources = (self.folder / "offsets" / str(number)).read_text().splitlines()
        except (OSError, ValueError):
            return None
        if version != _VERSION:
            return None
        try:
            return [_positions(source) for source in sources]
        except ValueError:
            return None

    def first(self) -> int | None:
        """The first batch whose offsets are still there."""
        return min(self._numbers("offsets"), default=None)

    def is_empty(self) -> bool:
        return self.first() is None

    def note(self, number: int, landed: Landed) -> None:
        """Notes what a batch lands, for reports. The note may be lost in a power cut."""
        if not self.folder.is_dir():
            return
        lines = [*self._noted(), " ".join(map(str, (number, *landed)))][-NOTED_BATCHES:]
        path = self.folder / ROWS
        new = path.with_name(f".{ROWS}.new")
        new.write_text("\n".join(lines) + "\n")
        new.replace(path)

    def landed(self, number: int) -> Landed:
        """Nothing of a batch that noted none: without a task there is none. An earlier version noted rows alone."""
        noted = ([int(each) for each in line.split()] for line in reversed(self._noted()))
        return next((Landed(*rest) for batch, *rest in noted if batch == number), Landed(0))

    def _noted(self) -> list[str]:
        try:
            return (self.folder / ROWS).read_text().splitlines()
        except FileNotFoundError:
            return []

    def sync(self, number: int) -> None:
        """The offsets of a batch, before its rows are in a table."""
        folder = self.folder / "offsets"
        for file in (folder / str(number), folder / f".{number}.crc", self.folder / "metadata"):
            if file.exists():
                sync(file)
        for each in (folder, self.folder, self.folder.parent):
            if each.is_dir():
                sync(each)

    def mend(self) -> list[Path]:
        """Removes what a loss of power left half-written at the ends of Spark's logs; call it before Spark reads them.

        Spark does not sync the files of its commit log, so any number of the newest may be half-written. Without them
        Spark goes by the offsets. Only the last file of offsets may be half-written, since they are synced before a
        table commits; so no table has that batch.
        """
        removed = []
        for number in sorted(self._numbers("commits"), reverse=True):
            if not (torn := _removed_if_torn(self.folder / "commits" / str(number))):
                break
            removed += torn
        if (last := max(self._numbers("offsets"), default=None)) is not None:
            removed += _removed_if_torn(self.folder / "offsets" / str(last))
        if self.is_empty():
            removed += _removed_if_torn(self.folder / "metadata")
        return removed

    @contextmanager
    def locked(self) -> Iterator[int]:
        """For as long as a driver works on it; gives the descriptor, with which a child holds it too. The operating
        system lets go when all of them have ended. Raises InUse."""
        make_folder(self.folder.parent)
        with open(self._lock, "a+", encoding="utf-8") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.seek(0)
                raise InUse(
                    f"the checkpoint {self.folder} is in use by another driver (process {file.read().strip() or '?'}): "
                    f"stop that one, or give this pipeline a name and a checkpoint of its own"
                ) from None
            file.truncate(0)
            file.write(f"{os.getpid()}\n")
            file.flush()
            yield file.fileno()

    def is_held_by(self, lock: int) -> bool:
        """Whether the descriptor is one that `locked` gave for this checkpoint."""
        return self._lock.exists() and os.path.samestat(os.fstat(lock), self._lock.stat())

    @property
    def _lock(self) -> Path:
        return self.folder.with_name(f"{self.folder.name}.lock")

    def _numbers(self, log: str) -> list[int]:
        try:
            return [int(name) for name in os.listdir(self.folder / log) if name.isdigit()]
        except FileNotFoundError:
            return []


def _positions(source: str) -> Positions | None:
    if source == _NONE_YET:
        return None
    stored = json.loads(source)
    if isinstance(stored, dict) and is_initial(stored):
        return None
    return Positions.from_json(stored)


def _removed_if_torn(file: Path) -> list[Path]:
    """A file of Spark's is lines of which the last is an object of JSON."""
    if not file.exists():
        return []
    try:
        json.loads(file.read_text().splitlines()[-1])
    except (ValueError, IndexError):
        checksums = file.with_name(f".{file.name}.crc")
        checksums.unlink(missing_ok=True)
        file.unlink()
        sync(file.parent)
        return [file]
    return []
