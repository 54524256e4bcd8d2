"""Which of its nodes `up` takes for alive, and what it refuses before anything starts."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner

from highwater.cli import main
from highwater.cli.node_process import Handle


def test_a_node_that_has_ended_is_dead_though_whoever_started_it_has_not_looked() -> None:
    """`up` would else wait for it to the end of its patience."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    handle = Handle(process.pid)
    try:
        assert handle.is_alive
        process.communicate(b"\n")
        assert not handle.is_alive
    finally:
        handle.close()


def test_a_port_that_is_taken_is_named_with_its_holder_before_anything_starts(tmp_path: Path) -> None:
    directory = tmp_path / "a/b"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = CliRunner().invoke(main, ["up", "--brokers", "1", "--port", str(port), "--data-dir", str(directory)])
    assert done.exit_code == 1
    assert f"127.0.0.1:{port}, the client port of node 1, is taken by pid {os.getpid()} (" in done.output
    assert "choose another --port" in done.output
    assert list(tmp_path.iterdir()) == []
