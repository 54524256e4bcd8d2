"""Losses of power, as bad as they can be: of a folder, only what was synced is left, or only the names are."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ITS_OWN = "catalog.db"
"""SQLite syncs its file itself, where Python does not see it."""


@dataclass
class Disk:
    """What is on the disk for good, at one moment."""

    root: int = 0
    names: dict[int, dict[str, int]] = field(default_factory=dict)
    """Of each folder that was synced, by its inode, the inodes by name."""
    contents: dict[int, bytes] = field(default_factory=dict)
    there: dict[str, int] = field(default_factory=dict)
    """All paths at that moment, synced or not."""
    own: dict[str, bytes] = field(default_factory=dict)
    folders: set[int] = field(default_factory=set)

    def rebuilt(self, folder: Path, new: Path, *, with_all_names: bool) -> None:
        """The folder after the power came back; what was not synced is empty, or has no name either."""
        new.mkdir(parents=True)
        paths = dict(sorted(self.there.items())) if with_all_names else dict(self._kept(str(folder), self.root))
        for path, inode in paths.items():
            target = new / Path(path).relative_to(folder)
            if inode in self.folders:
                target.mkdir(exist_ok=True)
            else:
                target.write_bytes(self.own.get(path, self.contents.get(inode, b"")))

    def _kept(self, path: str, folder: int) -> Iterator[tuple[str, int]]:
        for name, inode in sorted(self.names.get(folder, {}).items()):
            yield f"{path}/{name}", inode
            yield from self._kept(f"{path}/{name}", inode)


class Power:
    """Records what is synced below a folder; each moment before a sync is one at which the power may go."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.moments: list[Disk] = []
        self._now = Disk()

    def moment(self) -> Disk:
        now = self._now
        root = os.stat(self.folder).st_ino if self.folder.exists() else 0
        disk = Disk(root, {inode: dict(names) for inode, names in now.names.items()}, dict(now.contents))
        for parent, folders, files in os.walk(self.folder):
            for name in (*folders, *files):
                path = f"{parent}/{name}"
                disk.there[path] = os.stat(path).st_ino
                if name == ITS_OWN:
                    disk.own[path] = Path(path).read_bytes()
            disk.folders.update(os.stat(f"{parent}/{name}").st_ino for name in folders)
        return disk

    def synced(self, descriptor: int) -> None:
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        if path != str(self.folder) and not path.startswith(f"{self.folder}/"):
            return
        self.moments.append(self.moment())
        found = os.fstat(descriptor)
        if stat.S_ISDIR(found.st_mode):
            self._now.names[found.st_ino] = {each.name: each.inode() for each in os.scandir(path)}
        else:
            self._now.contents[found.st_ino] = Path(path).read_bytes()


@contextmanager
def watched(folder: Path) -> Iterator[Power]:
    power = Power(folder)
    really = os.fsync

    def fsync(descriptor: int) -> None:
        power.synced(descriptor)
        really(descriptor)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        yield power
