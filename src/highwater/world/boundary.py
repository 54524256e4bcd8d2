"""Where an exception stops: it ends the work in which it happened, and nothing more.

There is a boundary around everything that can fail by itself: a request of a connection, a turn of periodic work, the
work on one partition, a task, the end of a job, the node. An exception that reaches a boundary is counted and logged
once. Then the boundary decides: the response is an error, the work is done again later, the partition goes offline, or
the node stops. An exception without a boundary stops at the event loop: the callback ends, and others go on.

Expected failures of a disk or of a peer do not count here. They are handled where they happen.
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
"""The same failure is logged once in this time. A failure that comes ten times a second would fill the disk
otherwise."""
_log = logging.getLogger(__name__)


class Dead(BaseException):
    """Raised by every handle of a crashed world. No code may catch it and go on."""


def as_os_error(failed: Exception) -> OSError:
    """For callers that treat a failed disk and a bug of the program in the same way."""
    return OSError(errno.EIO, f"an unexpected error: {failed!r}")


class Failures:
    """The unexpected exceptions of one node, counted by the kind of boundary that they reached."""

    def __init__(
        self, monotonic: Callable[[], float], witness: Callable[[str, BaseException], None] | None = None
    ) -> None:
        """`witness` is called for each exception. A simulation treats them as findings."""
        self._monotonic = monotonic
        self._witness = witness
        self._logged: dict[tuple[str, str, str], tuple[float, int]] = {}
        """When a failure was last logged, and how often it came since."""
        self._lines: dict[str, float] = {}
        self.counts: dict[Kind, int] = dict.fromkeys(KINDS, 0)

    def note(self, kind: Kind, name: str, failed: BaseException) -> None:
        self.counts[kind] += 1
        now = self._monotonic()
        key = (kind, name, repr(failed)[:200])
        logged_at, since = self._logged.get(key, (-QUIET_SECONDS, 0))
        if now - logged_at < QUIET_SECONDS:
            self._logged[key] = (logged_at, since + 1)
        else:
            if len(self._logged) > 1000:
                self._logged.clear()
            self._logged[key] = (now, 0)
            more = f", and {since} times before" if since else ""
            _log.error("%s: an unexpected error stops here (%s)%s", name, kind, more, exc_info=failed)
        if self._witness is not None:
            self._witness(f"{kind} {name}", failed)

    def is_news(self, line: str) -> bool:
        """Whether to log the line. It is for expected failures that may repeat: each line is logged once in a while."""
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
        """`decide` handles a failed task. Without `decide`, the node ends and logs the reason."""
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
        """A callback that runs within its boundary."""
        boundary = self.boundary(kind, name, decide)

        def guarded() -> None:
            with boundary:
                fn()

        return guarded


class Boundary:
    """A context manager. After an exception it calls `decide` and raises nothing."""

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
        """For code that catches the exception itself: a context manager is too slow for a hundred thousand callbacks a
        second."""
        self._failures.note(self._kind, self._name, failed)
        if self._decide is not None:
            self._decide(failed)
