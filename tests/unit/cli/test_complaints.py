"""No tool is silent for long: it says what it waits for, and names the disk that is full."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from highwater.cli import complaints, diagnosis, main
from highwater.client import connection
from highwater.cluster import Cluster

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """And looked into with patience: a busy machine must not hide the cause."""
    monkeypatch.setattr(complaints, "FIRST_SECONDS", 0.0)
    monkeypatch.setattr(diagnosis, "ANSWER_SECONDS", 30.0)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=1) as cluster:
        cluster.create_topic("there")
        yield cluster


@pytest.fixture
def quick(tmp_path: Path) -> tuple[str, str]:
    path = tmp_path / "quick.properties"
    path.write_text("default.api.timeout.ms=1000\n")
    return "--command-config", str(path)


@pytest.fixture
def hurried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """For who is not answered at all."""
    monkeypatch.setattr(connection, "DELAY_SECONDS", 0.05)
    path = tmp_path / "hurried.properties"
    path.write_text("default.api.timeout.ms=1000\nrequest.timeout.ms=500\n")
    return "--command-config", str(path)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def test_a_controller_that_takes_nothing_is_reported_with_what_it_may_lack(
    cluster: Cluster, quick: tuple[str, str]
) -> None:
    refusing = cluster.fail("CreateTopics", "NOT_CONTROLLER").always()
    try:
        done = run("topics", "--bootstrap-server", cluster.bootstrap_servers, *quick, "--create", "--topic", "new")
    finally:
        cluster.heal()
    assert refusing.fired > 1 and done.exit_code == 1
    assert done.stderr.startswith(f"Still waiting: {complaints.NO_CONTROLLER}\n")
    assert done.stderr.count("Still waiting") == 1


@pytest.mark.parametrize(
    ("api", "arguments"),
    [
        ("CreateTopics", ("topics", "--create", "--topic", "new")),
        ("DeleteTopics", ("topics", "--delete", "--topic", "there")),
        ("CreatePartitions", ("topics", "--alter", "--topic", "there", "--partitions", "7")),
        ("IncrementalAlterConfigs", ("configs", "--alter", "--topic", "there", "--add-config", "retention.ms=1")),
        ("DeleteRecords", ("delete-records", "--offset-json-file", "OFFSETS")),
    ],
)
def test_a_full_disk_is_named_by_every_tool_that_waits_for_it(
    cluster: Cluster,
    quick: tuple[str, str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    api: str,
    arguments: tuple[str, ...],
) -> None:
    offsets = tmp_path / "offsets.json"
    offsets.write_text(json.dumps({"version": 1, "partitions": [{"topic": "there", "partition": 0, "offset": 0}]}))
    monkeypatch.setattr(diagnosis, "LEAST_BYTES", 1 << 62)
    error = "NOT_LEADER_OR_FOLLOWER" if api == "DeleteRecords" else "NOT_CONTROLLER"
    cluster.fail(api, error).always()
    try:
        noun, *options = (str(offsets) if each == "OFFSETS" else each for each in arguments)
        done = run(noun, "--bootstrap-server", cluster.bootstrap_servers, *quick, *options)
    finally:
        cluster.heal()
    assert f"the disk of node 1 ({cluster.log_dir(1)}) is full (" in done.stderr


def test_a_server_that_does_not_answer_is_reported(hurried: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnosis, "ANSWER_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        at = "{}:{}".format(*silent.getsockname())
        done = run("topics", "--bootstrap-server", at, *hurried, "--list")
    assert done.exit_code == 1
    assert done.stderr.startswith(f"Still waiting: {at} has not answered for 0 s\n")


def test_brokers_that_do_not_answer_are_named_where_there_is_no_quorum(hurried: tuple[str, str]) -> None:
    with Cluster(brokers=3) as cluster:
        servers = cluster.bootstrap_servers
        one, _, three = servers.split(",")
        cluster.kill(2, 3)  # broker 2 may be fenced, and forgotten, before broker 3 ends the quorum
        done = run("topics", "--bootstrap-server", one, *hurried, "--create", "--topic", "new")
    assert done.exit_code == 1
    assert f"broker 3 at {three} does not answer\n" in done.stderr


def test_ctrl_c_ends_a_waiting_tool_without_a_message() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        at = "{}:{}".format(*silent.getsockname())
        command = ["env", "--default-signal=INT", sys.executable, "-m", "highwater", "topics", "--bootstrap-server", at]
        with subprocess.Popen([*command, "--list"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
            dialled, _ = silent.accept()
            process.send_signal(signal.SIGINT)
            printed, _ = process.communicate(timeout=60)
            dialled.close()
    assert process.returncode == 130
    assert b"Aborted" not in printed and b"Traceback" not in printed


def test_a_bulk_sender_says_what_keeps_its_records_from_being_acknowledged_and_how_many_are(cluster: Cluster) -> None:
    refusing = cluster.fail("Produce", "NOT_ENOUGH_REPLICAS").always()
    sending = ("--topic", "there", "--num-records", "10", "--record-size", "5", "--throughput", "-1")
    try:
        done = run("producer-perf", "--bootstrap-server", cluster.bootstrap_servers, *sending,
                   "--command-property", "delivery.timeout.ms=1000")  # fmt: skip
    finally:
        cluster.heal()
    assert refusing.fired > 1 and done.exit_code == 1
    reason, ended, failed = done.stderr.splitlines()
    assert reason.startswith("Still trying to send to topic there: there-0: "), done.stderr
    assert ended.startswith("Ended with 0 of 10 records acknowledged; ") and failed.startswith("there-0: ")


def test_a_bulk_sender_that_is_ended_says_how_many_records_were_acknowledged(cluster: Cluster) -> None:
    sending = ["--topic", "there", "--num-records", "1000000", "--record-size", "5", "--throughput", "100"]
    command = ["env", "--default-signal=INT", sys.executable, "-m", "highwater", "producer-perf", *sending]
    server = ["--bootstrap-server", cluster.bootstrap_servers, "--reporting-interval", "100"]
    with subprocess.Popen([*command, *server], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert "records sent" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=60)
    [ended] = told.splitlines()
    count = int(ended.removeprefix("Ended with ").partition(" of 1000000 records acknowledged; ")[0])
    assert process.returncode == 130 and 0 < count < 1000000
