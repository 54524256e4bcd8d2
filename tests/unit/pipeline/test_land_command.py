"""`highwater pipeline land` as a command, as far as it comes without Spark."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from highwater.cluster.ports import ReservedPort
from highwater.pipeline.checkpoint import Checkpoint
from highwater.pipeline.project import write_project

WAIT_SECONDS = 120.0
PIPELINE = """name: orders
source:
  bootstrap_servers: 127.0.0.1:{port}
  topic: orders
sink:
  table: parquet
  path: table
"""


def test_a_run_to_the_end_that_is_interrupted_fails(tmp_path: Path) -> None:
    """Whoever started it must not take the table for complete. The cluster never answers: nothing can be landed."""
    with socket.create_server(("127.0.0.1", 0)) as cluster:
        cluster.settimeout(WAIT_SECONDS)
        (tmp_path / "pipeline.yml").write_text(PIPELINE.format(port=cluster.getsockname()[1]))
        land = subprocess.Popen(
            [sys.executable, "-m", "highwater", "pipeline", "land", "--once"],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        with cluster.accept()[0]:
            land.send_signal(signal.SIGINT)
            said, failed = land.communicate(timeout=WAIT_SECONDS)
    assert land.returncode == 1
    assert failed == "stopped before all was landed\n"
    assert said.splitlines()[-1] == "orders stopped"


def test_a_second_one_names_the_first_and_leaves_its_port_and_its_standing_alone(tmp_path: Path) -> None:
    standing = tmp_path / "checkpoints" / "orders.status.json"
    with socket.create_server(("127.0.0.1", 0)) as first, Checkpoint(tmp_path / "checkpoints" / "orders").locked():
        port = first.getsockname()[1]
        (tmp_path / "pipeline.yml").write_text(PIPELINE.format(port=1) + f"metrics:\n  port: {port}\n")
        standing.write_text("that of the first")
        second = _pipeline(tmp_path, "land")
    assert (second.returncode, second.stdout) == (1, "")
    assert f"in use by another driver (process {os.getpid()})" in second.stderr
    assert standing.read_text() == "that of the first"


def test_the_first_holds_its_checkpoint_also_while_no_worker_runs(tmp_path: Path) -> None:
    """The lock is that of `land`, not of the worker: between two attempts nobody else begins."""
    with socket.create_server(("127.0.0.1", 0)) as cluster:
        cluster.settimeout(WAIT_SECONDS)
        text = PIPELINE.format(port=cluster.getsockname()[1])
        (tmp_path / "pipeline.yml").write_text(text + "restart:\n  backoff: 3600s\n  max_backoff: 3600s\n")
        first = subprocess.Popen(
            [sys.executable, "-m", "highwater", "pipeline", "land"], cwd=tmp_path, stdout=subprocess.PIPE, text=True
        )
        with cluster.accept()[0]:
            [worker] = Path(f"/proc/{first.pid}/task/{first.pid}/children").read_text().split()
            os.kill(int(worker), signal.SIGKILL)
            assert first.stdout is not None
            assert any("again in" in line for line in first.stdout)
            try:
                second = _pipeline(tmp_path, "land", "--once")
            finally:
                first.send_signal(signal.SIGINT)
                first.communicate(timeout=WAIT_SECONDS)
    assert f"in use by another driver (process {first.pid})" in second.stderr


@pytest.mark.parametrize("end", ["orders", "orders:0", "orders:0:x", ":0:1"])
def test_an_end_that_is_none_is_named(tmp_path: Path, end: str) -> None:
    (tmp_path / "pipeline.yml").write_text(PIPELINE.format(port=1))
    failed = _pipeline(tmp_path, "position", "--set", end)
    assert failed.returncode == 1
    assert failed.stderr == f"--set {end}: expected TOPIC:PARTITION:OFFSET, such as orders:0:1200\n"


def test_a_project_says_how_to_start_a_cluster_at_its_own_address(tmp_path: Path) -> None:
    for servers, up in {
        "127.0.0.1:9092": "highwater up --data-dir data",
        "localhost:28092,localhost:28093": "highwater up --data-dir data --port 28092",
        "broker.example:28092": "highwater up --data-dir data",
    }.items():
        folder = tmp_path / servers
        made = _pipeline(tmp_path, "init", str(folder), "--bootstrap-server", servers)
        assert f"Next: {up}, then" in made.stdout
        assert f"       {up}\n" in (folder / "README.md").read_text()


def test_the_producer_of_a_project_says_in_one_line_that_no_cluster_is_up(tmp_path: Path) -> None:
    port = ReservedPort.drawn()
    write_project(tmp_path, f"127.0.0.1:{port.number}")
    command = [sys.executable, "produce.py"]
    made = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)
    port.release()
    assert made.returncode == 1
    assert made.stderr == (
        f"cannot connect to 127.0.0.1:{port.number}: Connection refused; is the cluster up? "
        "README.md says how to start one\n"
    )


def _pipeline(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "highwater", "pipeline", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)
