"""The story of a run for people: faults, logs of nodes, answers to clients, and findings."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from highwater.sim.process import OWNER
from highwater.world import Dead

LAST_LINES = 120


@dataclass
class Finding:
    """What is wrong in the run of a seed, and the story that led to it."""

    seed: int
    shape: str
    faults: list[str]
    schedule: list[str]
    timeline: list[str]
    profile: str = ""
    """The profile of faults, unless it is the usual one."""

    def text(self, last: int = LAST_LINES) -> str:
        parts = [f"seed {self.seed}: {self.shape}", "", "what went wrong:"]
        parts += [f"  {fault}" for fault in self.faults[:5]]
        parts += ["", "faults:", *self.schedule, "", f"timeline (the last {last} lines):", *self.timeline[-last:]]
        profile = f" --profile {self.profile}" if self.profile else ""
        parts += ["", f"run it again: highwater sim --seed {self.seed}{profile}"]
        return "\n".join(parts)


class Timeline(logging.Handler):
    """Lines of `seconds subject event`, in order."""

    def __init__(self, now: Callable[[], float]) -> None:
        super().__init__(logging.INFO)
        self._now = now
        self.lines: list[str] = []
        self.tracebacks: list[str] = []

    def note(self, subject: str, text: str) -> None:
        self.lines.append(f"{self._now():9.4f}  {subject:8}  {text}")

    def emit(self, record: logging.LogRecord) -> None:
        process = OWNER.get()
        self.note("" if process is None else process.name, record.getMessage())
        if record.exc_info and record.exc_info[1] is not None and not isinstance(record.exc_info[1], Dead):
            self.tracebacks.append(self.format(record))

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Collects the log lines of all nodes; no other handler gets them."""
        logger = logging.getLogger("highwater")
        before = logger.level, logger.propagate
        logger.addHandler(self)
        logger.setLevel(logging.INFO)
        logger.propagate = False
        try:
            yield
        finally:
            logger.removeHandler(self)
            logger.setLevel(before[0])  # an assignment would leave what other loggers have cached of it
            logger.propagate = before[1]
