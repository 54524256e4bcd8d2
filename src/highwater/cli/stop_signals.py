"""SIGTERM, Ctrl-C and a closed terminal, asked for instead of suffered: none of them interrupts anything half-way."""

from __future__ import annotations

import signal


class StopSignals:
    """While it is entered they wait to be asked for, however many there are. Forks undo it by `let_through`.

    Once one has come, this process does nothing but end, and the later ones never matter.
    """

    def __init__(self) -> None:
        self._signals = {signal.SIGTERM, signal.SIGINT}
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as nohup has it
            self._signals.add(signal.SIGHUP)
        self._seen = False

    def __enter__(self) -> StopSignals:
        self._before = signal.pthread_sigmask(signal.SIG_BLOCK, self._signals)
        return self

    def __exit__(self, *_: object) -> None:
        if not self.arrived():
            signal.pthread_sigmask(signal.SIG_SETMASK, self._before)

    def arrived(self, seconds: float = 0) -> bool:
        """Whether one has come, or comes within this time."""
        self._seen = self._seen or signal.sigtimedwait(self._signals, seconds) is not None
        return self._seen


def let_through() -> None:
    """In a new process, which answers to its own."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
