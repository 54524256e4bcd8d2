"""A terminal that is closed sends SIGHUP to what runs on it: that stops in order, unless nohup started it."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

from highwater.cluster.directory import NODES
from tests.cluster.nodes import Node
from tests.cluster.stage import WAIT_SECONDS
from tests.cluster.test_up import up
from tests.heeding import heed_signals
from tests.terminal import Terminal

CLEAN = ".kafka_cleanshutdown"


def test_a_node_stops_in_order_when_its_terminal_is_closed(tmp_path: Path) -> None:
    node = Node.fresh(tmp_path)
    node.start()
    assert node.stop(signal.SIGHUP) == 0, node.output
    assert (node.log_dir / CLEAN).exists()


def test_signals_that_are_repeated_change_nothing_about_the_end_of_a_node(tmp_path: Path) -> None:
    node = Node.fresh(tmp_path)
    node.start()
    while not node.ends_after(signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        """Again."""
    assert node.stop() == 0, node.output
    assert (node.log_dir / CLEAN).exists()


def test_up_stops_its_nodes_in_order_when_its_terminal_is_closed(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    options = ["--brokers", "1", "--port", "0", "--console-port", "off", "--data-dir", str(directory)]
    with Terminal([sys.executable, "-m", "highwater", "up", *options], 100, 30) as terminal:
        terminal.until("ready ")
        terminal.hang_up()
        assert terminal.process.wait(WAIT_SECONDS) == 0
    assert list(directory.rglob(CLEAN))


def test_a_cluster_that_nohup_started_outlives_its_terminal(tmp_path: Path) -> None:
    with up(tmp_path / "data", "--brokers", "1", "--console-port", "off", prefix=("nohup",)) as running:
        running.until_ready()
        for process in (running.process.pid, running.nodes[0]["pid"]):
            assert _ignores_hang_ups(process)
        assert running.end(signal.SIGHUP, signal.SIGTERM) == 0
        assert "stopping" in running.errors


def test_a_console_ends_in_order_when_its_terminal_is_closed(tmp_path: Path) -> None:
    (tmp_path / NODES).write_text('{"nodes": []}')
    command = [sys.executable, "-m", "highwater", "console", "--bootstrap-server", "127.0.0.1:1", "--port", "0"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True, preexec_fn=heed_signals) as console:
        assert console.stdout is not None
        try:
            assert console.stdout.readline().startswith("console http")
            console.send_signal(signal.SIGHUP)
            assert console.wait(WAIT_SECONDS) == 0
        finally:
            console.kill()


def _ignores_hang_ups(process: int) -> bool:
    found = re.search(r"^SigIgn:\s*([0-9a-f]+)$", Path(f"/proc/{process}/status").read_text(), re.MULTILINE)
    assert found is not None
    return bool(int(found[1], 16) >> (signal.SIGHUP - 1) & 1)
