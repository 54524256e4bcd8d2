"""Where an exception stops: it ends what it happened in, and nothing more.

A boundary is drawn around whatever can fail by itself: a request of a connection, a turn of periodic work, the work on
one partition, a task, the end of a job, the node. An exception that reaches one is counted, told in the log once, and
then the boundary decides: the answer is an error, the work is done again later, the partition goes offline, the node
stops. What nobody drew a boundary around stops at the loop's own: the callback ends, and the others go on.

Expected failures, of a disk, of a peer, are no exceptions in this sense: they are dealt with where they happen.
"""

from __future__ import annotations

import errno
import logging
from asyncio import Task
from collections.abc import Callable
from types import TracebackType
from typing import Literal, get_args

Kind = Literal["connection", "partition", "periodic", "job", "task", "callback", "node"]
Decide = Callable[[Exception], None]
KINDS: tuple[Kind, ...] = get_args(Kind)
QUIET_SECONDS = 60.0
"""The same failure is told once in that time; what repeats itself ten times a second would fill the disk."""
_log = logging.getLogger(__name__)


class Dead(BaseException):
    """Raised by every handle of a crashed world: nothing may catch it and go on."""


def as_os_error(failed: Exception) -> OSError:
    """For those who know what to do when a disk fails, and do the same when it is the program that did."""
    return OSError(errno.EIO, f"an unexpected error: {failed!r}")


class Failures:
    """Of one node: how many, by the kind of boundary that they reached."""

    def __init__(
        self, monotonic: Callable[[], float], witness: Callable[[str, BaseException], None] | None = None
    ) -> None:
        """`witness` is told of each; a simulation takes them for findings."""
        self._monotonic = monotonic
        self._witness = witness
        self._told: dict[tuple[str, str, str], tuple[float, int]] = {}
        """When a failure was last told, and how often it came since."""
        self._lines: dict[str, float] = {}
        self.counts: dict[Kind, int] = dict.fromkeys(KINDS, 0)

    def note(self, kind: Kind, name: str, failed: BaseException) -> None:
        self.counts[kind] += 1
        now = self._monotonic()
        key = (kind, name, repr(failed)[:200])
        told, since = self._told.get(key, (-QUIET_SECONDS, 0))
        if now - told < QUIET_SECONDS:
            self._told[key] = (told, since + 1)
        else:
            if len(self._told) > 1000:
                self._told.clear()
            self._told[key] = (now, 0)
            more = f", and {since} times before" if since else ""
            _log.error("%s: an unexpected error stops here (%s)%s", name, kind, more, exc_info=failed)
        if self._witness is not None:
            self._witness(f"{kind} {name}", failed)

    def is_news(self, line: str) -> bool:
        """Whether the line is to be logged, about a failure that is expected and may repeat itself: once in a while."""
        now = self._monotonic()
        if now - self._lines.get(line, -QUIET_SECONDS) < QUIET_SECONDS:
            return False
        if len(self._lines) > 1000:
            self._lines.clear()
        self._lines[line] = now
        return True

    def task_ended(
        self, task: Task[None], decide: Decide | None, ends_node: Callable[[str, BaseException], None]
    ) -> None:
        """What becomes of a task that failed is for `decide`; where there is none, the node ends, and says so."""
        failed = None if task.cancelled() else task.exception()
        if failed is None or isinstance(failed, Dead):
            return
        if decide is not None and isinstance(failed, Exception):
            self.note("task", task.get_name(), failed)
            decide(failed)
        else:
            self.counts["node"] += 1
            ends_node(task.get_name(), failed)

    def boundary(self, kind: Kind, name: str, decide: Decide | None = None) -> Boundary:
        return Boundary(self, kind, name, decide)

    def guarded(
        self, kind: Kind, name: str, fn: Callable[[], None], decide: Decide | None = None
    ) -> Callable[[], None]:
        """A callback within its boundary."""
        boundary = self.boundary(kind, name, decide)

        def guarded() -> None:
            with boundary:
                fn()

        return guarded


class Boundary:
    """A context manager. After an exception `decide` says what becomes of what failed; nothing is raised."""

    __slots__ = ("_decide", "_failures", "_kind", "_name")

    def __init__(self, failures: Failures, kind: Kind, name: str, decide: Decide | None) -> None:
        self._failures = failures
        self._kind: Kind = kind
        self._name = name
        self._decide = decide

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, failed: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if not isinstance(failed, Exception):  # a cancelled task, and a world that ended, are no failures
            return False
        self.stop(failed)
        return True

    def stop(self, failed: Exception) -> None:
        """For who catches it by himself: where a hundred thousand callbacks a second pass, a context manager costs."""
        self._failures.note(self._kind, self._name, failed)
        if self._decide is not None:
            self._decide(failed)
