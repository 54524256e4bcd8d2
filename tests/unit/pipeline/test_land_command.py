"""`highwater pipeline land` as a command, as far as it comes without Spark."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from highwater.cluster import Cluster
from highwater.cluster.ports import ReservedPort
from highwater.pipeline.checkpoint import Checkpoint
from highwater.pipeline.project import write_project
from highwater.pipeline.yaml_file import load

pytestmark = pytest.mark.slow

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
    """Its caller must not take the table for complete. The cluster never answers: nothing can be landed."""
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
    assert failed == "stopped before all records were landed\n"
    assert said.splitlines()[-1] == "orders stopped"


def test_a_second_land_names_the_first_and_leaves_its_port_and_status_alone(tmp_path: Path) -> None:
    standing = tmp_path / "checkpoints" / "orders.status.json"
    with socket.create_server(("127.0.0.1", 0)) as first, Checkpoint(tmp_path / "checkpoints" / "orders").locked():
        port = first.getsockname()[1]
        (tmp_path / "pipeline.yml").write_text(PIPELINE.format(port=1) + f"metrics:\n  port: {port}\n")
        standing.write_text("that of the first")
        second = _pipeline(tmp_path, "land")
    assert (second.returncode, second.stdout) == (1, "")
    assert f"in use by another driver (process {os.getpid()})" in second.stderr
    assert standing.read_text() == "that of the first"


def test_land_keeps_its_checkpoint_locked_while_no_worker_runs(tmp_path: Path) -> None:
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


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--skip", "orders:0"), "--skip orders:0: expected TOPIC:PARTITION:OFFSET, such as orders:0:1200\n"),
        (("--skip", "orders:0:7"), "there is no table yet: start the pipeline first, so that it says at which offset"),
        (("--reason", "poison"), "--reason is given without --skip\n"),
    ],
)
def test_what_cannot_be_skipped_is_said_before_anything_starts(
    tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    (tmp_path / "pipeline.yml").write_text(PIPELINE.format(port=1))
    failed = _pipeline(tmp_path, "land", *words)
    assert failed.returncode == 1
    assert failed.stderr.startswith(said)


@pytest.mark.parametrize(
    ("servers", "up"),
    [
        ("127.0.0.1:9092,127.0.0.1:9093,127.0.0.1:9094", ""),
        ("127.0.0.1:9092", " --brokers 1"),
        ("localhost:28092,localhost:28093", " --brokers 2 --port 28092"),
    ],
)
def test_a_project_says_how_to_start_a_cluster_at_its_own_addresses(tmp_path: Path, servers: str, up: str) -> None:
    made = _pipeline(tmp_path, "init", "--bootstrap-server", servers)
    assert f"Next: highwater up --data-dir data{up}, then" in made.stdout
    assert f"       highwater up --data-dir data{up}\n" in (tmp_path / "README.md").read_text()


@pytest.mark.parametrize("servers", ["broker.example:9092", "127.0.0.1:9092,127.0.0.1:9192", "127.0.0.1"])
def test_a_project_starts_no_cluster_where_up_would_not_listen(tmp_path: Path, servers: str) -> None:
    made = _pipeline(tmp_path, "init", "--bootstrap-server", servers)
    assert made.stdout.endswith("Next: what README.md says.\n")
    readme = (tmp_path / "README.md").read_text()
    assert f"1. The cluster at {servers} must be up" in readme
    assert "highwater up" not in readme


def test_a_project_knows_all_brokers_that_up_starts(tmp_path: Path) -> None:
    """Else it stands still with the first of them, though the others serve."""
    made = _pipeline(tmp_path, "init")
    assert "Next: highwater up --data-dir data, then" in made.stdout
    servers = "127.0.0.1:9092,127.0.0.1:9093,127.0.0.1:9094"
    assert load(tmp_path / "pipeline.yml").bootstrap_servers == servers
    assert f'SERVERS = "{servers}"' in (tmp_path / "produce.py").read_text()


def test_the_topics_of_a_project_outlive_a_broker(tmp_path: Path) -> None:
    with Cluster(brokers=3) as cluster:
        write_project(tmp_path, cluster.bootstrap_servers)
        assert _produce(tmp_path, "100").stderr == ""
        for topic in ("orders", "orders.bad"):
            assert [sorted(each.replicas) for each in cluster.view(topic).partitions.values()] == [[1, 2, 3]] * 3
        cluster.kill(1)
        assert _produce(tmp_path, "100").stderr == ""
        assert len(cluster.records("orders")) == 200


def test_the_topics_of_a_project_have_no_more_replicas_than_there_are_brokers(tmp_path: Path) -> None:
    with Cluster(brokers=1) as cluster:
        write_project(tmp_path, cluster.bootstrap_servers)
        made = _produce(tmp_path, "10")
        assert (made.returncode, made.stderr) == (0, "")
        assert len(cluster.records("orders")) == 10


def test_the_producer_of_a_project_says_in_one_line_what_a_broker_refuses(tmp_path: Path) -> None:
    with Cluster(brokers=1) as cluster:
        write_project(tmp_path, cluster.bootstrap_servers)
        cluster.fail("CreateTopics", "POLICY_VIOLATION").always()
        made = _produce(tmp_path, "10")
    assert (made.returncode, made.stderr) == (1, "the request violates a policy of the cluster\n")


def test_the_producer_of_a_project_says_in_one_line_that_no_cluster_is_up(tmp_path: Path) -> None:
    port = ReservedPort.drawn()
    write_project(tmp_path, f"127.0.0.1:{port.number}")
    made = _produce(tmp_path)
    port.release()
    assert made.returncode == 1
    assert made.stderr == (
        f"cannot connect to 127.0.0.1:{port.number}: Connection refused; is the cluster up? "
        "README.md says how to start one\n"
    )


def _produce(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "produce.py", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)


def _pipeline(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "highwater", "pipeline", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)
