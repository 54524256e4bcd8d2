"""Kafka's small text files: a version, a count, one entry a line. Replaced whole, never half-written."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from pathlib import PurePath

from highwater.model import TopicPartition
from highwater.world import Disk, Step, World

VERSION = "0"


class BadCheckpoint(ValueError):
    """The file does not hold what its own count line promises."""


def replace_file(disk: Disk, path: PurePath, data: bytes) -> Generator[Step, None, None]:
    """A job: write aside, sync, rename over, sync the directory. A crash leaves the old file or the new one."""
    aside = path.with_name(path.name + ".tmp")
    file = disk.open(aside, create=True)
    file.truncate(0)
    file.append(data)
    yield Step()
    file.sync()
    yield Step()
    disk.rename(aside, path)
    yield Step()
    disk.sync_dir(path.parent)
    file.close()


def read_file(disk: Disk, path: PurePath) -> bytes | None:
    """Jobs only. None where it is missing."""
    if disk.stat(path) is None:
        return None
    file = disk.open(path)
    data = bytes(file.read(0, file.size))
    file.close()
    return data


def _lines(entries: Iterable[str]) -> bytes:
    rows = list(entries)
    return "\n".join([VERSION, str(len(rows)), *rows, ""]).encode()


def _entries(data: bytes) -> list[list[str]]:
    try:
        lines = data.decode("ascii").split("\n")
        if lines[0] != VERSION:
            raise BadCheckpoint(f"version {lines[0]!r}")
        count = int(lines[1])
        rows = [line.split(" ") for line in lines[2:] if line]
    except (UnicodeDecodeError, IndexError, ValueError) as bad:
        raise BadCheckpoint(str(bad)) from bad
    if len(rows) != count:
        raise BadCheckpoint(f"{count} entries announced, {len(rows)} there")
    return rows


def encode_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    return _lines(f"{tp.topic} {tp.partition} {offset}" for tp, offset in sorted(offsets.items()))


def decode_offsets(data: bytes) -> dict[TopicPartition, int]:
    try:
        return {TopicPartition(topic, int(partition)): int(offset) for topic, partition, offset in _entries(data)}
    except ValueError as bad:
        raise BadCheckpoint(str(bad)) from bad


def encode_epochs(entries: Iterable[tuple[int, int]]) -> bytes:
    return _lines(f"{epoch} {start}" for epoch, start in entries)


def decode_epochs(data: bytes) -> list[tuple[int, int]]:
    try:
        return [(int(epoch), int(start)) for epoch, start in _entries(data)]
    except ValueError as bad:
        raise BadCheckpoint(str(bad)) from bad


class CheckpointFile:
    """A file kept in step with a value that changes often: one write under way at a time, the newest value next."""

    def __init__(
        self, world: World, path: PurePath, content: Callable[[], bytes], failed: Callable[[Exception], None]
    ) -> None:
        self._world = world
        self.path = path
        self._content = content
        self._failed = failed
        self._written: bytes | None = None
        self._under_way = False
        self._again = False
        self._waiting: list[Callable[[], None]] = []
        self._covered: list[Callable[[], None]] = []

    def write(self, done: Callable[[], None] | None = None) -> None:
        """`done` once a content taken at or after this call is durable; never, if the disk fails."""
        if done is not None:
            self._waiting.append(done)
        if self._under_way:
            self._again = True
            return
        self._covered, self._waiting = self._waiting, []
        content = self._content()
        if content == self._written:
            self._world.clock.call_soon(self._wrote, content, None)
        else:
            self._world.run(replace_file, self.path, content, done=lambda result: self._wrote(content, result))
        self._under_way = True

    def _wrote(self, content: bytes, result: Exception | None) -> None:
        self._under_way = False
        if isinstance(result, Exception):
            self._failed(result)
            return
        self._written = content
        covered, self._covered = self._covered, []
        for done in covered:
            done()
        if self._again or self._waiting:
            self._again = False
            self.write()
