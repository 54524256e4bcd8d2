"""The interfaces to the outside world: clock, randomness, sockets, disk and background jobs.

All parts of a node reach the outside through these interfaces only. `highwater.world.real` is the real implementation,
and `highwater.sim` has a simulated one; the same broker code runs in both. The package may use only `model`.

Start here, then read `boundary` (where an exception stops) and `real`.
"""

from __future__ import annotations

import errno
from asyncio import BufferedProtocol, Task, Transport
from collections.abc import Callable, Collection, Coroutine, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import PurePath
from random import Random
from ssl import SSLContext
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

from highwater.model import Endpoint
from highwater.world.boundary import Dead as Dead
from highwater.world.boundary import Failures

Buffer = bytes | bytearray | memoryview
T = TypeVar("T")
Place = Literal["thread", "quorum", "sync", "reading", "client", "inflating", "looking up", "process", "background"]
"""Where a job runs. The first seven are threads, apart from each other so that none waits for the others: for the
node's own files; for what an election or a commit of the quorum waits for; for syncs; for bytes that clients read; for
the work that clients ask for; for batches that clients have inflated, and for batches that look-ups inflate, one at a
time each because of their memory. Jobs of clients take turns. A process is for what loops in Python; one in the
background gives way to everything else on the machine."""


class ConnectionRefused(ConnectionError):
    """No process listens at the address. Two refusals in a row, for one broker epoch, prove that the broker is dead."""


class Unreachable(ConnectionError):
    """The connection attempt got no answer, which proves nothing."""


class Poisoned(OSError):
    """A failed append could not be trimmed. The tail of the file is unknown, so the log must go offline."""


class Exhausted(OSError):
    """There was no descriptor or no memory to open a file, so nothing was done, and the same call may succeed later. It
    is not an error of a sync: a file that could not be opened was not synced, and can still be."""


EXHAUSTED_SECONDS = 0.1
"""The pause before the next attempt."""


def gravest(errors: Iterable[OSError]) -> OSError | None:
    """The worst error of one sync: a final error comes before a passing one, and before a missing file."""
    return min(errors, key=lambda error: isinstance(error, (Exhausted, FileNotFoundError)), default=None)


class WorkerDied(EOFError):
    """The process of a job was killed or never began. Its result is unknown, and the same job may succeed later."""


class AlreadyLocked(OSError):
    """Another process holds the lock file."""


_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
_PASSING = _EXHAUSTED | {errno.ENOSPC, errno.EDQUOT}


@contextmanager
def raising_exhausted(path: PurePath) -> Iterator[None]:
    """Raises Exhausted if the system has no descriptor or no memory to open a file or a directory."""
    try:
        yield
    except OSError as failed:
        if failed.errno not in _EXHAUSTED:
            raise
        raise Exhausted(failed.errno, failed.strerror, str(path)) from failed


def is_passing(failed: BaseException | None) -> bool:
    """Whether disk space, descriptors or memory were short for an open, a create or an append: later it may succeed. An
    error of a sync is never passing, because it is unknown what the kernel dropped."""
    return isinstance(failed, OSError) and failed.errno in _PASSING


class Timer(Protocol):
    def cancel(self) -> None: ...


class Clock(Protocol):
    def monotonic(self) -> float:
        """Seconds, for durations. Never the loop's cached time."""
        ...

    def wall_ms(self) -> int:
        """Milliseconds since 1970, for timestamps that leave the node. The clock may jump."""
        ...

    def call_later(self, seconds: float, fn: Callable[..., None], *args: object) -> Timer: ...

    def call_soon(self, fn: Callable[..., None], *args: object) -> Timer:
        """Runs `fn` in the next turn of the loop. So the work of one turn can be done together."""
        ...


class ListeningSocket(Protocol):
    @property
    def endpoint(self) -> Endpoint:
        """The bound address. If port 0 was asked for, this has the free port that was chosen."""
        ...

    def close(self) -> None: ...


class Net(Protocol):
    """asyncio's own transport contract, so that uvloop stays unwrapped."""

    @property
    def room(self) -> int:
        """How many connections it can hold at a time, even if the settings allow more."""
        ...

    async def listen(
        self, factory: Callable[[], BufferedProtocol], at: Endpoint, tls: SSLContext | None = None
    ) -> ListeningSocket: ...

    async def dial(
        self, factory: Callable[[], BufferedProtocol], to: Endpoint, tls: SSLContext | None = None
    ) -> Transport:
        """Raises ConnectionRefused or Unreachable."""
        ...


class File(Protocol):
    @property
    def path(self) -> PurePath: ...
    @property
    def size(self) -> int:
        """The position of the next append."""
        ...

    def append(self, *parts: Buffer) -> int:
        """Writes all parts at the end, into the page cache, and returns the position of the first byte.

        On an error nothing is kept: the file is trimmed to its size before the call, and the OSError is raised. If the
        trim fails, too, Poisoned is raised, now and at every later append.
        """
        ...

    def read_cached(self, pos: int, n: int) -> Buffer | None:
        """The bytes if they can be read without blocking, or else None: then read them in a job. The result is shorter
        than `n` only at the end of the file.

        Some systems cannot say what is in memory (tmpfs, macOS). There the tail that this process wrote is read
        directly, and everything else is None.
        """
        ...

    def read(self, pos: int, n: int) -> Buffer:
        """For jobs only: it may block. The result is shorter than `n` only at the end of the file."""
        ...

    def sync(self) -> None:
        """For jobs only: data and size are durable on return. An error is final for the file and is never retried.
        Exhausted is no such error: the file could not be opened, and nothing was tried."""
        ...

    def truncate(self, size: int) -> None: ...

    def close(self) -> None:
        """Closes the descriptor. A later call opens the file again, even after a rename through the same Disk."""
        ...


class FileStat(Protocol):
    @property
    def size(self) -> int: ...
    @property
    def modified_ms(self) -> int: ...
    @property
    def is_dir(self) -> bool: ...


class Space(NamedTuple):
    """Bytes of a file system: of all of it, and what is left for this process."""

    total: int
    usable: int


class Disk(Protocol):
    """Paths are absolute. Renames and new names are durable only after `sync_dir` of their directory."""

    def open(self, path: PurePath, create: bool = False) -> File:
        """Raises FileNotFoundError if the file is missing and `create` is False. The descriptor is opened only when it
        is needed."""
        ...

    def stat(self, path: PurePath) -> FileStat | None: ...

    def space(self, path: PurePath) -> Space:
        """The file system of a directory. For jobs only."""
        ...

    def list(self, path: PurePath) -> list[str]:
        """The names in a directory, sorted. Raises FileNotFoundError if it is missing."""
        ...

    def mkdir(self, path: PurePath) -> None:
        """Creates the directory and its parents. It may exist already."""
        ...

    def rename(self, old: PurePath, new: PurePath) -> None:
        """Atomic; replaces `new`. Open files in a renamed directory stay usable."""
        ...

    def unlink(self, path: PurePath) -> None:
        """Raises FileNotFoundError if the file is missing. A File that is still open keeps its bytes until it is
        closed."""
        ...

    def rmdir(self, path: PurePath) -> None: ...

    def sync_dir(self, path: PurePath) -> None:
        """For jobs only."""
        ...

    def lock(self, path: PurePath) -> Callable[[], None]:
        """Takes the lock file, or raises AlreadyLocked. Returns a function that releases it."""
        ...

    def flush(self, files: Collection[File], done: Callable[[OSError | None], None]) -> None:
        """Group commit: syncs these files in the next round of the disk's flusher, and then calls `done` on the loop.

        Everything that was appended before the call is covered. Calls that come during a round share the next one. That
        does not wait for a round that takes long.
        """
        ...


@dataclass(frozen=True, slots=True)
class Step:
    """What a job yields: its progress, and the least time in seconds that its work since the last step must take."""

    progress: object = None
    takes: float = 0.0


class Job(Protocol):
    def cancel(self, closed: Callable[[], None] | None = None) -> None:
        """Closes the job at its next step. `done` is not called. `closed` is called when the job no longer touches
        anything."""
        ...


class World(Protocol):
    """Each node has its own."""

    @property
    def clock(self) -> Clock: ...
    @property
    def net(self) -> Net: ...
    @property
    def disk(self) -> Disk: ...
    @property
    def failures(self) -> Failures:
        """Counts unexpected exceptions, and makes the boundaries that stop them."""
        ...

    def random(self, label: str) -> Random:
        """A random stream of its own for each label: draws from other streams do not shift it."""
        ...

    def run(
        self,
        job: Callable[..., Generator[Step, None, T]],
        *args: object,
        done: Callable[[T | Exception], None],
        step: Callable[[Step], None] | None = None,
        where: Place = "thread",
    ) -> Job:
        """Runs the generator `job(disk, *args)` off the loop; `done` and `step` are called on the loop.

        The first argument of the job is its own Disk. A job for a process is a module-level function with picklable
        arguments and a picklable result.
        """
        ...

    def spawn(
        self, name: str, coroutine: Coroutine[Any, Any, None], failed: Callable[[Exception], None] | None = None
    ) -> Task[None]:
        """Starts a task that the node owns. If it fails, `failed` is called; without `failed`, the node's failure
        handler is."""
        ...

    def crash(self) -> None:
        """Like kill -9: every handle raises Dead from now on, and no callback runs any more."""
        ...


class Check(Protocol):
    """Checks the bytes of a slice as they are read, one piece after the other."""

    def passes(self, data: Buffer) -> bool: ...


class FileSlice:
    """A range of a file that is part of a response. It is read only when the socket has room.

    It keeps its file open: the bytes stay readable even if the segment is deleted meanwhile. `intact` says whether they
    are still the promised bytes (a truncation may have cut them off). `check` says whether they are what was once
    written.
    """

    __slots__ = ("check", "file", "intact", "pos", "size")

    def __init__(self, file: File, pos: int, size: int, intact: Callable[[], bool], check: Check | None = None) -> None:
        self.file = file
        self.pos = pos
        self.size = size
        self.intact = intact
        self.check = check

    def __len__(self) -> int:
        return self.size
