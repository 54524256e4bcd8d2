"""Ctrl-C as the end of input: what was typed before is still sent."""

from __future__ import annotations

import os
import signal
from types import FrameType


class Interrupt:
    """While it is entered, the first Ctrl-C makes `descriptor` readable and interrupts nothing. The second one does
    interrupt."""

    def __init__(self) -> None:
        self.arrived = False

    def __enter__(self) -> Interrupt:
        self.descriptor, self._written = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._before = signal.getsignal(signal.SIGINT)
        if self._before is not signal.SIG_IGN:  # a shell ignores it for background processes
            signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._before)
        os.close(self.descriptor)
        os.close(self._written)

    def _note(self, number: int, frame: FrameType | None) -> None:
        """A wait of the process continues after this, and then finds the descriptor readable."""
        self.arrived = True
        os.write(self._written, b"!")
        signal.signal(signal.SIGINT, signal.default_int_handler)
