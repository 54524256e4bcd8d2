"""Kafka's small text files: a version, a count, one entry a line. Replaced whole, never half-written."""

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
    """The file does not hold what its own count line promises."""


@contextmanager
def _in_use(file: File) -> Iterator[File]:
    """Closed also where the disk fails. Not by a job that is dropped: its world may have ended, with all its files."""
    try:
        yield file
    except OSError:
        file.close()
        raise
    file.close()


def replace_file(disk: Disk, path: PurePath, data: bytes) -> Generator[Step, None, None]:
    """A job: write aside, sync, rename over, sync the directory. A crash leaves the old file or the new one."""
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
    """The same, however often room, a descriptor or memory is short: each attempt writes the whole file. Any other
    error is raised."""
    job = partial(finished, world, replace_file, path, data, where=where)
    await patiently(job, told=lambda failed: _log.error("%s is not written yet: %s", path, failed))


def read_file(disk: Disk, path: PurePath) -> bytes | None:
    """Jobs only. None where it is missing."""
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
    """A file kept in step with a value that changes often: one write under way at a time, the newest value next.

    `failed` is told of an error and says whether to try again, as it pays where the disk was merely full.
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
        self._boundary = world.failures.boundary("callback", f"who waited for {path.name}")

    @property
    def in_step(self) -> bool:
        """What was last asked to be written is durable."""
        return not (self._under_way or self._again or self._retry)

    def write(self, done: Callable[[], None] | None = None, failed: Callable[[Exception], None] | None = None) -> None:
        """`done` once a content taken at or after this call is durable, however often that is tried.

        `failed` if the next attempt does not succeed; `done` is then for nobody. Nothing happens once it is closed.
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
        """What it says now is durable on return. Else the error is raised; but where room, a descriptor or memory is
        short, it is waited for as long as the caller says at each attempt that he is `patient`."""
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
            for told in self._idle:
                told()
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
        """No further attempt, and nobody is told any more but of its end."""
        self._closed, self._again = True, False
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None

    def when_idle(self, told: Callable[[], None]) -> None:
        """`told` once nothing is being written, at once if nothing is: for one that is closed."""
        if self._under_way:
            self._idle.append(told)
        else:
            told()
