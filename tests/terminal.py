"""A program on a terminal of its own: what it shows, what is typed, and how it leaves the terminal."""

from __future__ import annotations

import codecs
import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from types import TracebackType

from tests.heeding import heed_signals

PATIENCE_SECONDS = 120.0
CONTROL = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\x1b\][^\x07]*\x07|\r")


class Terminal:
    """The program is the leader of its session, and the terminal is its own: Ctrl-C reaches it as a signal."""

    def __init__(
        self, argv: Sequence[str], columns: int, rows: int, environment: Mapping[str, str] | None = None
    ) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self._theirs = theirs
        self._ends = [self._ours, theirs]
        self._before = termios.tcgetattr(theirs)
        usual = {"TERM": "xterm-256color", "COLUMNS": str(columns), "LINES": str(rows)}
        self.process = subprocess.Popen(
            argv,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=_take_terminal,
            env={**os.environ, **usual, **(environment or {})},
        )
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.raw = ""
        self._mark = 0

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            deadline = time.monotonic() + PATIENCE_SECONDS
            while self.process.poll() is None and time.monotonic() < deadline:
                self._read()
            self.process.kill()
        self.process.wait()
        self.hang_up()

    def hang_up(self) -> None:
        """Closes the terminal: its session gets SIGHUP."""
        while self._ends:
            os.close(self._ends.pop())

    @property
    def text(self) -> str:
        """All that was shown, without colours and movements of the cursor."""
        return CONTROL.sub("", self.raw)

    @property
    def lines(self) -> list[str]:
        return [line.rstrip() for line in self.text.splitlines() if line.strip()]

    @property
    def is_sane(self) -> bool:
        """Whether it echoes and edits lines as before, with the cursor shown and the main screen."""
        after = termios.tcgetattr(self._theirs)
        shown = self.raw.rfind("\x1b[?25h") >= self.raw.rfind("\x1b[?25l")
        main = self.raw.rfind("\x1b[?1049l") >= self.raw.rfind("\x1b[?1049h")
        return after[3] == self._before[3] and shown and main

    def type(self, keys: str) -> None:
        """What is shown from now on is what the next `until` looks at."""
        self._mark = len(self.raw)
        os.write(self._ours, keys.encode())

    def until(self, *expected: str) -> None:
        """Waits until all of it has been shown since keys were typed last."""
        self.either(expected)

    def either(self, *choices: tuple[str, ...]) -> tuple[str, ...]:
        """The first choice of which all has been shown since keys were typed last."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            shown = CONTROL.sub("", self.raw[self._mark :])
            for each in choices:
                if all(part in shown for part in each):
                    return each
            assert time.monotonic() < deadline, f"{choices} was not shown:\n{self.text[-6000:]}"
            is_going_on = self._read() or self.process.poll() is None
            assert is_going_on, f"it ended before {choices} was shown:\n{self.text[-6000:]}"

    def ended(self) -> int:
        """Its exit code."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self.process.poll() is None:
            assert time.monotonic() < deadline, f"it did not end:\n{self.text[-6000:]}"
            self._read()
        while self._read():
            pass
        return self.process.wait()

    def _read(self) -> bool:
        """Whether anything came within a moment."""
        if not select.select([self._ours], [], [], 0.1)[0]:
            return False
        with contextlib.suppress(OSError):
            self.raw += self._decoder.decode(os.read(self._ours, 65536))
        return True


def _take_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    heed_signals()
