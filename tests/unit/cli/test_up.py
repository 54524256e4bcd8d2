"""Which of its nodes `up` takes for alive."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner

from highwater.cli import main
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


def test_a_port_that_is_taken_is_named_before_anything_starts(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = CliRunner().invoke(main, ["up", "--brokers", "1", "--port", str(port), "--data-dir", str(tmp_path)])
    assert done.exit_code == 1 and f"127.0.0.1:{port}: Address already in use" in done.output
    assert not (tmp_path / "nodes.json").exists()
