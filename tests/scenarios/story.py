"""What the nodes of a staged cluster logged, and what was done to them. It is printed when a scenario fails."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple

from highwater.sim.process import OWNER
from highwater.world import Dead


class Said(NamedTuple):
    at: float
    node: str
    level: int
    text: str


class Story(logging.Handler):
    def __init__(self, now: Callable[[], float]) -> None:
        super().__init__(logging.INFO)
        self._now = now
        self.said: list[Said] = []
        self.tracebacks: list[str] = []

    def begin(self) -> None:
        logger = logging.getLogger("highwater")
        self._before = (logger.level, logger.propagate)
        logger.addHandler(self)
        logger.setLevel(logging.INFO)
        logger.propagate = False

    def end(self) -> None:
        logger = logging.getLogger("highwater")
        logger.removeHandler(self)
        logger.setLevel(self._before[0])
        logger.propagate = self._before[1]

    def note(self, node: str, text: str) -> None:
        self.said.append(Said(self._now(), node, logging.INFO, text))

    def emit(self, record: logging.LogRecord) -> None:
        process = OWNER.get()
        node = "" if process is None else process.name
        self.said.append(Said(self._now(), node, record.levelno, record.getMessage()))
        if record.exc_info and record.exc_info[1] is not None and not isinstance(record.exc_info[1], Dead):
            self.tracebacks.append(f"{node}: {self.format(record)}")

    def has(self, node: str, part: str, at_least: int) -> bool:
        return any(said.node == node and part in said.text and said.level >= at_least for said in self.said)

    def text(self, last: int = 80) -> str:
        return "\n".join(f"{said.at:9.4f}  {said.node:8}  {said.text}" for said in self.said[-last:])
