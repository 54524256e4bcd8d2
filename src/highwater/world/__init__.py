"""The one door to the world: clock, randomness, sockets, disk and background jobs.

What a node is made of reaches the outside through these interfaces alone. `highwater.world.real` is the real
implementation; `highwater.sim` has the simulated one, with the same broker code running in both.
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
from typing import Any, Literal, Protocol, TypeVar

from highwater.model import Endpoint
from highwater.world.boundary import Dead as Dead
from highwater.world.boundary import Failures

Buffer = bytes | bytearray | memoryview
T = TypeVar("T")
Place = Literal["thread", "quorum", "sync", "reading", "client", "inflating", "process", "background"]
"""Where a job runs. The first six are threads, apart from each other so that none waits for the others: for the node's
own files; for what an election or a commit of the quorum waits for; for syncs; for bytes that clients read; for what
clients have looked up or worked out, where jobs take turns; for batches that inflate, one at a time for their memory. A
process is for what loops in Python; one in the background gives way to everything else on the machine."""


class Refused(ConnectionError):
    """Nothing listens at the address. Twice in a row against one broker epoch, this is proof of death."""


class Unreachable(ConnectionError):
    """No answer to the dial: proves nothing."""


class Poisoned(OSError):
    """A failed append could not be trimmed back: the file's tail is unknown, the log must go offline."""


class Exhausted(OSError):
    """There was no descriptor or no memory to open a file with, so nothing was done: the same may well succeed later.

    No error of a sync: a file that could not be opened was not synced, and can still be.
    """


EXHAUSTED_SECONDS = 0.1
"""Until it pays to try again."""


def gravest(errors: Iterable[OSError]) -> OSError | None:
    """Of what befell the files of one sync: what is final comes before what passes, and before a file that is gone."""
    return min(errors, key=lambda error: isinstance(error, (Exhausted, FileNotFoundError)), default=None)


class WorkerDied(EOFError):
    """A job's process was killed or never began: its answer is unknown, and the same job may well succeed."""


class AlreadyLocked(OSError):
    """Another process holds the lock file."""


_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
_PASSING = _EXHAUSTED | {errno.ENOSPC, errno.EDQUOT}


@contextmanager
def telling_exhaustion(path: PurePath) -> Iterator[None]:
    """Around what opens a file or a directory: where the system had nothing to open it with, Exhausted is raised."""
    try:
        yield
    except OSError as failed:
        if failed.errno not in _EXHAUSTED:
            raise
        raise Exhausted(failed.errno, failed.strerror, str(path)) from failed


def is_passing(failed: BaseException | None) -> bool:
    """Whether room, descriptors or memory were short for an open, a create or an append: later it may succeed.

    Nothing that a sync raised is passing, since nobody knows what it dropped.
    """
    return isinstance(failed, OSError) and failed.errno in _PASSING


class Timer(Protocol):
    def cancel(self) -> None: ...


class Clock(Protocol):
    def monotonic(self) -> float:
        """Seconds, for durations. Never the loop's cached time."""
        ...

    def wall_ms(self) -> int:
        """Milliseconds since 1970, for timestamps that leave the node. May jump."""
        ...

    def call_later(self, seconds: float, fn: Callable[..., None], *args: object) -> Timer: ...

    def call_soon(self, fn: Callable[..., None], *args: object) -> Timer:
        """Run `fn` on the next loop turn: how work of one turn is coalesced."""
        ...


class Listener(Protocol):
    @property
    def endpoint(self) -> Endpoint:
        """The address really bound; its port is the free one chosen where 0 was asked for."""
        ...

    def close(self) -> None: ...


class Net(Protocol):
    """asyncio's own transport contract, so that uvloop stays unwrapped."""

    @property
    def room(self) -> int:
        """How many connections it can hold at a time, whatever the settings say."""
        ...

    async def listen(
        self, factory: Callable[[], BufferedProtocol], at: Endpoint, tls: SSLContext | None = None
    ) -> Listener: ...

    async def dial(
        self, factory: Callable[[], BufferedProtocol], to: Endpoint, tls: SSLContext | None = None
    ) -> Transport:
        """Raises Refused or Unreachable."""
        ...


class File(Protocol):
    @property
    def path(self) -> PurePath: ...
    @property
    def size(self) -> int:
        """Where the next append lands."""
        ...

    def append(self, *parts: Buffer) -> int:
        """Write all parts at the end, into the page cache; returns the position of the first byte.

        On an error nothing is kept: the file is trimmed back to its size before the call and the OSError raised.
        If the trim fails too, Poisoned is raised, now and at every later append.
        """
        ...

    def read_cached(self, pos: int, n: int) -> Buffer | None:
        """The bytes if they can be had without blocking, else None: then read in a job.

        Shorter than `n` only at the end of the file. Where the system cannot tell (tmpfs, macOS) the tail that
        this process wrote is read plainly and everything else is None.
        """
        ...

    def read(self, pos: int, n: int) -> Buffer:
        """Jobs only: may block. Shorter than `n` only at the end of the file."""
        ...

    def sync(self) -> None:
        """Jobs only: data and size are durable on return. An error is final for the file: never retried.

        Exhausted is no such error: the file could not be opened, and nothing was tried.
        """
        ...

    def truncate(self, size: int) -> None: ...

    def close(self) -> None:
        """Gives up the descriptor; a later call opens it again, even after a rename through the same Disk."""
        ...


class FileStat(Protocol):
    @property
    def size(self) -> int: ...
    @property
    def modified_ms(self) -> int: ...
    @property
    def is_dir(self) -> bool: ...


class Disk(Protocol):
    """Paths are absolute. Renames and new names are durable only after `sync_dir` of their directory."""

    def open(self, path: PurePath, create: bool = False) -> File:
        """FileNotFoundError where it is missing and `create` is False. Opening is lazy about descriptors."""
        ...

    def stat(self, path: PurePath) -> FileStat | None: ...

    def list(self, path: PurePath) -> list[str]:
        """Names in a directory, sorted. FileNotFoundError where it is missing."""
        ...

    def mkdir(self, path: PurePath) -> None:
        """With parents; fine where it exists."""
        ...

    def rename(self, old: PurePath, new: PurePath) -> None:
        """Atomic, replaces `new`. A directory moves with the open files in it."""
        ...

    def unlink(self, path: PurePath) -> None:
        """FileNotFoundError where it is missing. A File still open keeps its bytes until closed."""
        ...

    def rmdir(self, path: PurePath) -> None: ...

    def sync_dir(self, path: PurePath) -> None:
        """Jobs only."""
        ...

    def lock(self, path: PurePath) -> Callable[[], None]:
        """Take the lock file or raise AlreadyLocked; returns its release."""
        ...

    def flush(self, files: Collection[File], done: Callable[[OSError | None], None]) -> None:
        """Group commit: sync these files in the next round of the disk's flusher, then `done` on the loop.

        All that was appended before the call is covered. Calls made while a round is under way share the next.
        """
        ...


@dataclass(frozen=True, slots=True)
class Step:
    """What a job yields: how far it is, and how many seconds its work since the last one is to take at least."""

    progress: object = None
    takes: float = 0.0


class Job(Protocol):
    def cancel(self, closed: Callable[[], None] | None = None) -> None:
        """The job is closed at its next step, `done` is not called; `closed` is, once it touches nothing any more."""
        ...


class World(Protocol):
    """One per node."""

    @property
    def clock(self) -> Clock: ...
    @property
    def net(self) -> Net: ...
    @property
    def disk(self) -> Disk: ...
    @property
    def failures(self) -> Failures:
        """Unexpected ones, and the boundaries that they stop at."""
        ...

    def random(self, label: str) -> Random:
        """A stream of its own, forked by label: new draws elsewhere do not shift it."""
        ...

    def run(
        self,
        job: Callable[..., Generator[Step, None, T]],
        *args: object,
        done: Callable[[T | Exception], None],
        step: Callable[[Step], None] | None = None,
        where: Place = "thread",
    ) -> Job:
        """Drive the generator `job(disk, *args)` off the loop; `done` and `step` are called on the loop.

        The job's first argument is a Disk of its own. A job for a process is a module-level function with picklable
        arguments and result.
        """
        ...

    def spawn(
        self, name: str, coroutine: Coroutine[Any, Any, None], failed: Callable[[Exception], None] | None = None
    ) -> Task[None]:
        """A task owned by the node. If it fails, `failed` decides; without it, the node's failure handler is told."""
        ...

    def crash(self) -> None:
        """As kill -9 would: every handle raises Dead from now on, no callback runs any more."""
        ...


class Check(Protocol):
    """Looks at the bytes of a slice as they are read, one piece after the other."""

    def passes(self, data: Buffer) -> bool: ...


class FileSlice:
    """A range of a file as part of a response: read when the socket has room, not before.

    It pins its file: the bytes stay readable though the segment is deleted meanwhile. `intact` tells whether
    they are still the bytes that were promised (a truncation may have cut them off), `check` whether they are
    what was once written.
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
