"""The content of a disk: files and directories, each with its present state and with what would survive a power cut."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

PAGE = 4096


class Version:
    """The content of a file at some moment, described by the live bytes: the first `upto` of them, and then `tail`."""

    __slots__ = ("number", "tail", "upto")

    def __init__(self, number: int, upto: int) -> None:
        self.number = number
        self.upto = upto
        self.tail = b""

    def before_cut(self, live: bytearray, size: int) -> None:
        """The live bytes are about to be cut to `size`. Keeps the bytes of this version that would be lost by that."""
        if size < self.upto:
            self.tail = bytes(live[size : self.upto]) + self.tail
            self.upto = size


class FileNode:
    """A file: the live bytes, as the page cache has them, and the version that was last synced. As in Linux, a failed
    sync marks the pages as clean although they never reached the disk. No later sync makes anything of the file
    durable, unless the file was emptied and written again."""

    __slots__ = (
        "_versions",
        "damaged_at",
        "data",
        "durable",
        "linked",
        "lost_pages",
        "modified_ms",
        "rounds",
        "warm_from",
    )

    def __init__(self, modified_ms: int = 0) -> None:
        self.data = bytearray()
        self.durable = Version(0, 0)
        self.rounds: list[Version] = []
        self.linked = True
        self.lost_pages = False
        self.damaged_at: int | None = None
        """From this position on, the content may differ from what was written."""
        self.modified_ms = modified_ms
        self.warm_from = 0
        self._versions = 0

    def truncate(self, size: int) -> None:
        if size < len(self.data):
            for version in (self.durable, *self.rounds):
                version.before_cut(self.data, size)
            del self.data[size:]
        else:
            self.data.extend(bytes(size - len(self.data)))
        if size == 0:
            self.lost_pages = False  # those pages are gone: new writes are dirty, and reach the disk
        self.warm_from = min(self.warm_from, size)
        if self.damaged_at is not None and size <= self.damaged_at:
            self.damaged_at = None

    def begin_sync(self) -> Version:
        """The version that a sync begun now makes durable when it ends."""
        self._versions += 1
        version = Version(self._versions, len(self.data))
        self.rounds.append(version)
        return version

    def end_sync(self, version: Version, kept: bool) -> None:
        """`kept` is False if the disk reported success and kept nothing."""
        self.rounds.remove(version)
        if kept and not self.lost_pages and version.number > self.durable.number:
            self.durable = version

    def drop_sync(self, version: Version) -> None:
        """The sync was not tried."""
        self.rounds.remove(version)

    def fail_sync(self, version: Version) -> None:
        self.rounds.remove(version)
        self.lost_pages = True

    def durable_bytes(self) -> bytes:
        return bytes(self.data[: self.durable.upto]) + self.durable.tail

    def lose_power(self, random: Random) -> None:
        """Goes back to the durable bytes and a random part of what was written after them."""
        synced = self.durable_bytes()
        written = bytes(self.data[self.durable.upto :])
        truncation_reached_disk = not self.durable.tail or random.random() < 0.5
        if truncation_reached_disk:
            self.data = bytearray(synced[: self.durable.upto])
            self.data += torn(written, self.durable.upto, random)
        else:
            self.data = bytearray(synced)
        self._settle()

    def replace(self, data: bytes) -> None:
        """Replaces the whole content durably."""
        self.data = bytearray(data)
        self._settle()

    def _settle(self) -> None:
        """All live bytes are on the disk, and no others."""
        self._versions += 1
        self.durable = Version(self._versions, len(self.data))
        self.rounds.clear()
        self.lost_pages = False
        if self.damaged_at is not None and self.damaged_at >= len(self.data):
            self.damaged_at = None


def torn(written: bytes, at: int, random: Random) -> bytes:
    """What a power cut leaves of bytes that were appended at `at` and not synced: nothing, all, the beginning, or pages
    with holes. The size may have reached the disk before the bytes; then the gap is read as zeros."""
    chance = random.random()
    if chance < 0.15 or not written:
        return b""
    if chance < 0.25:
        return written
    kept = bytearray(written[: random.randint(1, len(written))])
    if chance < 0.55:
        return bytes(kept)
    if chance < 0.7:
        return bytes(kept) + bytes(random.randint(0, len(written) - len(kept)))
    for start, end in _pages(at, len(kept)):
        fate = random.random()
        if fate < 0.3:
            kept[start:end] = bytes(end - start)
        elif fate < 0.5:
            middle = random.randint(start, end)
            kept[middle:end] = bytes(end - middle)
    return bytes(kept)


def _pages(at: int, size: int) -> Iterator[tuple[int, int]]:
    """Divides `size` bytes at file position `at` into ranges that are in one page each."""
    start = 0
    while start < size:
        end = min(size, start + PAGE - (at + start) % PAGE)
        yield start, end
        start = end


class DirNode:
    """A directory: the names as processes see them, and as they were last synced."""

    __slots__ = ("durable", "entries", "modified_ms")

    def __init__(self, modified_ms: int = 0) -> None:
        self.entries: dict[str, Node] = {}
        self.durable: dict[str, Node] = {}
        self.modified_ms = modified_ms

    def files(self) -> Iterator[FileNode]:
        """Every file below the directory, by the names that processes see now."""
        for node in self.entries.values():
            if isinstance(node, FileNode):
                yield node
            else:
                yield from node.files()


Node = FileNode | DirNode
Place = tuple[DirNode, str]


class Change:
    """One change of names: a link, an unlink or a rename. It is kept or lost as a whole."""

    __slots__ = ("added", "node", "removed")

    def __init__(self, node: Node, removed: Place | None, added: Place | None) -> None:
        self.node = node
        self.removed = removed
        self.added = added

    def touches(self, directory: DirNode) -> bool:
        return any(place is not None and place[0] is directory for place in (self.removed, self.added))

    def settle(self) -> None:
        """The change reaches the disk. If an earlier change was lost on which it depends, only a part of it takes
        effect."""
        if self.removed is not None:
            directory, name = self.removed
            if directory.durable.get(name) is self.node:
                del directory.durable[name]
        if self.added is not None:
            directory, name = self.added
            directory.durable[name] = self.node
