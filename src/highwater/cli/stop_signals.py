"""SIGTERM, Ctrl-C and a closed terminal are polled, so that they interrupt nothing half-way."""

from __future__ import annotations

import signal


class StopSignals:
    """While it is entered, signals are kept until `arrived` asks for them. Forks undo it with `let_through`. When a
    signal has come, this process only ends, and later signals do not matter."""

    def __init__(self) -> None:
        self._signals = {signal.SIGTERM, signal.SIGINT}
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup ignores it
            self._signals.add(signal.SIGHUP)
        self._seen = False

    def __enter__(self) -> StopSignals:
        self._before = signal.pthread_sigmask(signal.SIG_BLOCK, self._signals)
        return self

    def __exit__(self, *_: object) -> None:
        if not self.arrived():
            signal.pthread_sigmask(signal.SIG_SETMASK, self._before)

    def arrived(self, seconds: float = 0) -> bool:
        """Whether a signal has come, or comes within this time."""
        self._seen = self._seen or signal.sigtimedwait(self._signals, seconds) is not None
        return self._seen


def let_through() -> None:
    """For a new process, which handles its own signals."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
