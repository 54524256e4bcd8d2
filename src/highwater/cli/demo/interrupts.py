"""Counts Ctrl-C, SIGTERM and SIGHUP: the first one ends the run in order, and the second one ends its waiting."""

from __future__ import annotations

import signal
from types import FrameType, TracebackType
from typing import Any

from highwater.cli.stop_signals import stop_signals


class Interrupts:
    """No exception is raised at an arbitrary place: code that may be interrupted asks here."""

    def __init__(self) -> None:
        self.count = 0
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interrupts:
        self._before = {number: signal.signal(number, self._heard) for number in stop_signals()}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def ask(self) -> None:
        """As one Ctrl-C."""
        self.count += 1

    def _heard(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
