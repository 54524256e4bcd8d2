"""Kafka's checkpoint files: a version, a count, and one entry per line. A file is always replaced as a whole."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import PurePath

from highwater.log import names
from highwater.model import TopicPartition
from highwater.world import Disk, File, Place, Step, Timer, World, is_passing
from highwater.world.jobs import finished, patiently

VERSION = "0"
RETRY_SECONDS = 1.0
_log = logging.getLogger(__name__)


class BadCheckpoint(ValueError):
    """The content of the file does not match its version or its count."""


@contextmanager
def _in_use(file: File) -> Iterator[File]:
    """Closes the file, even if the disk fails. A job that is dropped does not close it: its world may have ended, and
    all its files with it."""
    try:
        yield file
    except OSError:
        file.close()
        raise
    file.close()


def replace_file(disk: Disk, path: PurePath, data: bytes) -> Generator[Step, None, None]:
    """A job: writes another file, syncs it, renames it over `path` and syncs the directory. A crash leaves the old file
    or the new one."""
    aside = path.with_name(path.name + names.ASIDE)
    with _in_use(disk.open(aside, create=True)) as file:
        if file.size:  # a crash left it
            file.truncate(0)
        file.append(data)
        yield Step()
        file.sync()
        yield Step()
        disk.rename(aside, path)
        yield Step()
        disk.sync_dir(path.parent)


async def replaced(world: World, path: PurePath, data: bytes, where: Place = "thread") -> None:
    """As `replace_file`, and tries again while disk space, descriptors or memory are short. Each attempt writes the
    whole file. Any other error is raised."""
    job = partial(finished, world, replace_file, path, data, where=where)
    await patiently(job, on_failure=lambda failed: _log.error("%s is not written yet: %s", path, failed))


def read_file(disk: Disk, path: PurePath) -> bytes | None:
    """For jobs only. None if the file is missing."""
    if disk.stat(path) is None:
        return None
    with _in_use(disk.open(path)) as file:
        return bytes(file.read(0, file.size))


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
    """A file that follows a value which changes often. There is one write at a time; the next one takes the newest
    value.

    `failed` gets an error and returns whether to try again, as for a full disk.
    """

    def __init__(
        self, world: World, path: PurePath, content: Callable[[], bytes], failed: Callable[[Exception], bool]
    ) -> None:
        self._world = world
        self.path = path
        self._content = content
        self._failed = failed
        self._written: bytes | None = None
        self._under_way = False
        self._again = False
        self._retry: Timer | None = None
        self._waiting: list[Callable[[], None]] = []
        self._covered: list[Callable[[], None]] = []
        self._given_up: list[Callable[[Exception], None]] = []
        self._idle: list[Callable[[], None]] = []
        self._closed = False
        self._boundary = world.failures.boundary("callback", f"a callback that waited for {path.name}")

    @property
    def in_step(self) -> bool:
        """Whether the last write that was asked for is durable."""
        return not (self._under_way or self._again or self._retry)

    def write(self, done: Callable[[], None] | None = None, failed: Callable[[Exception], None] | None = None) -> None:
        """Calls `done` when a content that was taken at or after this call is durable, however many attempts it takes.

        Calls `failed` if the next attempt does not succeed; the caller then ignores `done`. Nothing happens after
        `close`.
        """
        if self._closed:
            return
        if done is not None:
            self._waiting.append(done)
        if failed is not None:
            self._given_up.append(failed)
        if self._under_way:
            self._again = True
        else:
            self._begin()

    async def written(self, patient: Callable[[], bool] = lambda: False) -> None:
        """The present content is durable on return, or the error is raised. If disk space, descriptors or memory are
        short, it tries again as long as `patient` returns true after each attempt."""
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def done() -> None:
            if not written.done():
                written.set_result(None)

        def failed(why: Exception) -> None:
            if is_passing(why) and patient():
                self._given_up.append(failed)
            elif not written.done():
                written.set_exception(why)

        self.write(done, failed)
        await written

    def _begin(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        self._again = False
        try:
            content = self._content()
        except Exception as failed:  # noqa: BLE001 the boundary of this write: there must be a next one
            self._world.failures.note("callback", f"the content of {self.path.name}", failed)
            self._retry = self._world.clock.call_later(RETRY_SECONDS, self._begin)
            return
        self._under_way = True
        self._covered, self._waiting = self._waiting, []
        if content == self._written:
            self._world.clock.call_soon(self._wrote, content, None)
        else:
            self._world.run(replace_file, self.path, content, done=lambda result: self._wrote(content, result))

    def _wrote(self, content: bytes, result: Exception | None) -> None:
        self._under_way = False
        if self._closed:
            for callback in self._idle:
                callback()
            return
        if result is not None:
            self._written = None
            self._waiting = self._covered + self._waiting
            given_up, self._given_up = self._given_up, []
            if self._failed(result):
                self._retry = self._world.clock.call_later(RETRY_SECONDS, self._begin)
            for failed in given_up:
                with self._boundary:
                    failed(result)
            return
        self._written = content
        covered, self._covered = self._covered, []
        for done in covered:
            with self._boundary:
                done()
        if self._again and not self._under_way:
            self._begin()
        elif not self._under_way:
            self._given_up.clear()

    def close(self) -> None:
        """Makes no further attempt, and calls no callback except those of `when_idle`."""
        self._closed, self._again = True, False
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None

    def when_idle(self, callback: Callable[[], None]) -> None:
        """Calls `callback` when no write is under way; at once if there is none. For a closed file."""
        if self._under_way:
            self._idle.append(callback)
        else:
            callback()
