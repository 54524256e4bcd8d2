"""Single keys of a terminal, without Enter and without echo. The terminal is as before afterwards."""

from __future__ import annotations

import os
import select
import sys
import termios
import tty
from types import TracebackType
from typing import Any, Final

_NAMES: Final = {
    "\x1b[A": "up",
    "\x1b[B": "down",
    "\x1b[5~": "page up",
    "\x1b[6~": "page down",
    "\x1bOA": "up",
    "\x1bOB": "down",
}
_MOST: Final = 64


class Keys:
    """No key ever comes if standard input is no terminal, or belongs to another job of it: a process in the background
    that changes its terminal is stopped."""

    def __init__(self, descriptor: int | None = None) -> None:
        self._descriptor = sys.__stdin__.fileno() if descriptor is None and sys.__stdin__ is not None else descriptor
        self._before: list[Any] | None = None

    @property
    def are_read(self) -> bool:
        return self._before is not None

    def __enter__(self) -> Keys:
        if self._descriptor is not None and _is_ours(self._descriptor):
            self._before = termios.tcgetattr(self._descriptor)
            tty.setcbreak(self._descriptor)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        before, self._before = self._before, None
        if before is not None and self._descriptor is not None:
            # Keys that were meant for this program do not reach the shell.
            termios.tcsetattr(self._descriptor, termios.TCSAFLUSH, before)

    def pressed(self, seconds: float = 0.0) -> list[str]:
        """The keys that were pressed by then; returns at the first ones. Arrows have names."""
        if self._before is None or self._descriptor is None:
            return []
        if not select.select([self._descriptor], [], [], seconds)[0]:
            return []
        try:
            data = os.read(self._descriptor, _MOST)
        except OSError:  # the terminal is gone
            data = b""
        if not data:
            self._before = None
            return []
        return _split(data.decode(errors="replace"))


def _is_ours(descriptor: int) -> bool:
    try:
        return os.isatty(descriptor) and os.tcgetpgrp(descriptor) == os.getpgrp()
    except OSError:
        return False


def _split(text: str) -> list[str]:
    keys = []
    while text:
        name = next((sequence for sequence in _NAMES if text.startswith(sequence)), text[0])
        keys.append(_NAMES.get(name, name))
        text = text[len(name) :]
    return keys
