"""The signals that end a program in order: SIGTERM, Ctrl-C, and SIGHUP of a closed terminal. `up` polls them, so that
they interrupt nothing half-way."""

from __future__ import annotations

import signal


def stop_signals() -> set[signal.Signals]:
    """SIGHUP is one of them unless it was ignored at the start, as nohup does for what shall outlive its terminal."""
    terminal = set() if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else {signal.SIGHUP}
    return {signal.SIGTERM, signal.SIGINT} | terminal


class StopSignals:
    """While it is entered, signals are kept until `arrived` asks for them. Forks undo it with `let_through`. When a
    signal has come, this process only ends, and later signals do not matter."""

    def __init__(self) -> None:
        self._signals = stop_signals()
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
