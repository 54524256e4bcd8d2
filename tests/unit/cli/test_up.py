"""Which of its nodes `up` takes for alive."""

from __future__ import annotations

import os
import subprocess
import sys

from highwater.cli.up import is_alive


def test_a_node_that_has_ended_is_dead_though_whoever_started_it_has_not_looked() -> None:
    """`up` would else wait for it to the end of its patience."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    try:
        assert not is_alive(process.pid)
    finally:
        process.wait()
    assert not is_alive(process.pid)


def test_a_running_process_is_alive() -> None:
    assert is_alive(os.getpid())
    assert not is_alive(0)
