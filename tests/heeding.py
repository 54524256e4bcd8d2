"""Signals that a test sends must reach the program, however the tests were started."""

from __future__ import annotations

import signal


def heed_signals() -> None:
    """For `preexec_fn`: a shell without job control has programs in the background ignore SIGINT, and nohup has them
    ignore SIGHUP. Their children inherit that."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
