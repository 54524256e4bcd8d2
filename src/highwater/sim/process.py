"""One life of a node, from its start to its crash."""

from __future__ import annotations

from asyncio import Handle
from collections import deque
from collections.abc import Callable, Generator
from contextvars import Context, ContextVar, copy_context
from typing import Any

from highwater.sim.trace import Trace
from highwater.world import Dead

OWNER: ContextVar[Process | None] = ContextVar("owner", default=None)
"""The process whose code is running. Callbacks and tasks inherit it by their context."""


class Process:
    """Owns callbacks, tasks, handles and random streams. A crash ends all of them, and a pause holds them."""

    __slots__ = (
        "__weakref__",
        "_context",
        "_trace",
        "alive",
        "busy_until",
        "in_job",
        "jobs",
        "life",
        "name",
        "on_crash",
        "paused",
        "queued",
        "ready",
        "remains",
    )

    def __init__(self, name: str, life: int, trace: Trace) -> None:
        self.name = name
        self.life = life
        self.alive = True
        self.paused = False
        self.busy_until = 0.0
        """Its code is busy until then: nothing else of the process runs."""
        self.queued = False
        self.in_job = False
        self.ready: deque[Handle] = deque()
        self.jobs: dict[object, Generator[Any, None, Any]] = {}
        self.on_crash: list[Callable[[], None]] = []
        self.remains: list[object] = []
        self._trace = trace
        self._context = Context()
        self._context.run(OWNER.set, self)

    def check(self) -> None:
        if not self.alive:
            raise Dead(f"{self.name} crashed")

    def emit(self, kind: str, subject: str = "", note: str = "") -> None:
        """An operation is about to take effect. It is traced, and a watcher may crash the process instead."""
        self.check()
        self._trace.record(self.name, kind, subject, note)
        if self._trace.watchers:
            self._trace.show(self.name, kind, subject, "before")
            self.check()

    def midway(self, kind: str, subject: str) -> None:
        if self._trace.watchers:
            self._trace.show(self.name, kind, subject, "during")
            self.check()

    def happened(self, kind: str, subject: str) -> None:
        if self._trace.watchers:
            self._trace.show(self.name, kind, subject, "after")
            self.check()

    def context(self) -> Context:
        """The context for a callback of this process: the caller's context if it belongs to this process, or else a new
        one."""
        return copy_context() if OWNER.get() is self else self._context.copy()

    def is_running_on_the_loop(self) -> bool:
        return OWNER.get() is self and not self.in_job
