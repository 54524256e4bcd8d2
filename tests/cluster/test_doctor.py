"""`highwater doctor` on real nodes: what is well, what is wrong, and what it says is to be done."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner

from highwater.cli import main
from highwater.client import Admin, Client, NewTopic
from tests.apache import ApacheKafka, free_ports
from tests.cluster.nodes import Node, run
from tests.cluster.stage import Stage, staged, wait_until

pytestmark = pytest.mark.slow

AREAS = ["settings", "ports", "limits", "addresses", "versions", "quorum", "partitions", "disks", "clocks"]
UNROUTED = "192.0.2.1"
"""An address for documents: no machine has it."""


class Examined(NamedTuple):
    code: int
    findings: list[dict[str, Any]]

    def wrong(self, area: str) -> list[str]:
        return [f"{each['what']} -> {each['remedy']}" for each in self._of(area, "wrong")]

    def well(self, area: str) -> list[str]:
        return [each["what"] for each in self._of(area, "well")]

    def unknown(self, area: str) -> list[str]:
        return [each["what"] for each in self._of(area, "unknown")]

    @property
    def all_wrong(self) -> list[str]:
        return [each["what"] for each in self.findings if each["state"] == "wrong"]

    def _of(self, area: str, state: str) -> list[dict[str, Any]]:
        assert area in AREAS
        return [each for each in self.findings if (each["area"], each["state"]) == (area, state)]


def doctor(*options: str) -> Examined:
    done = CliRunner().invoke(main, ["doctor", *options, "-o", "json"])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    found = json.loads(done.stdout)
    assert found["is_well"] == (done.exit_code == 0)
    assert {each["area"] for each in found["findings"]} <= set(AREAS)
    assert all(each["remedy"] for each in found["findings"] if each["state"] == "wrong")
    return Examined(done.exit_code, found["findings"])


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with staged(tmp_path_factory.mktemp("doctor") / "data", 3, settings={"min.insync.replicas": "2"}) as stage:
        stage.create_topic("orders", 3, 3)
        stage.create_topic_on("tight", [3, 1, 2], {"min.insync.replicas": "3"})
        stage.create_topic_on("lone", [3], {"min.insync.replicas": "1"})
        yield stage


def test_a_healthy_cluster_is_well_in_every_area(stage: Stage) -> None:
    found = doctor("--data-dir", str(stage.directory))
    assert (found.code, found.all_wrong) == (0, [])
    assert all(found.well(area) for area in AREAS)
    for node in stage.brokers:
        assert f"broker {node} is advertised as {stage.address(node)}, and answers there" in found.well("addresses")
        assert any(each.startswith(f"the clock of node {node} is ") for each in found.well("clocks"))
        pid = stage.nodes[node]["pid"]
        assert any(f"node {node}, is its own (pid {pid})" in each for each in found.well("ports"))
    assert "5 partitions, all led and in sync" in found.well("partitions")
    assert any("Highwater 0." in each for each in found.well("versions"))


def test_the_same_is_seen_by_an_address_alone_and_told_in_lines(stage: Stage) -> None:
    done = CliRunner().invoke(main, ["doctor", "--bootstrap-server", stage.bootstrap])
    assert done.exit_code == 0
    assert done.stdout.splitlines()[-1] == "all is well"
    assert "  well     5 partitions, all led and in sync" in done.stdout.splitlines()


def test_a_node_of_a_file_is_examined_with_its_cluster(stage: Stage) -> None:
    found = doctor("--config", str(stage.log_dir(2).with_name("server.properties")))
    assert (found.code, found.all_wrong) == (0, [])
    assert len(found.well("addresses")) == 4


def test_a_port_that_another_process_has_is_named_with_that_process(tmp_path: Path) -> None:
    node = Node.fresh(tmp_path)
    with socket.socket() as other:
        other.bind(("127.0.0.1", node.port))
        other.listen()
        found = doctor("--config", str(node.config))
    assert found.code == 1
    [taken] = found.wrong("ports")
    assert f"127.0.0.1:{node.port}, PLAINTEXT of node 1, is taken by pid {os.getpid()} (" in taken
    assert "give the node another port" in taken
    assert found.unknown("settings") == [f"node 1 ({node.config}) does not run"]


def test_settings_that_cannot_be_used_are_told_before_anything_else(tmp_path: Path) -> None:
    node = Node.fresh(tmp_path)
    node.config.write_text(f"{node.config.read_text()}log.retention.ms=soon\n")
    found = doctor("--config", str(node.config))
    [wrong] = found.wrong("settings")
    assert "log.retention.ms" in wrong and f"Correct it in {node.config}." in wrong


def test_a_directory_that_is_not_formatted_and_an_address_of_another_machine_are_told(tmp_path: Path) -> None:
    node = Node.fresh(tmp_path)
    elsewhere = node.config.read_text().replace(str(node.log_dir), str(tmp_path / "none"))
    node.config.write_text(elsewhere.replace(f"PLAINTEXT://127.0.0.1:{node.port}", f"PLAINTEXT://{UNROUTED}:9092"))
    found = doctor("--config", str(node.config))
    assert any("is not there" in each and "storage format" in each for each in found.wrong("disks"))
    assert any(f"this machine has no address {UNROUTED}" in each for each in found.wrong("ports"))


def test_a_data_directory_none_of_whose_nodes_runs_is_told(tmp_path: Path) -> None:
    Node.fresh(tmp_path)
    found = doctor("--data-dir", str(tmp_path))
    assert found.wrong("settings") == [f"no node of {tmp_path} runs -> Start them: highwater up --data-dir {tmp_path}"]
    assert found.all_wrong == [f"no node of {tmp_path} runs"]


def test_clients_that_would_be_sent_back_to_themselves_are_told_before_the_start(tmp_path: Path) -> None:
    node = Node.fresh(tmp_path, {"advertised.listeners": "PLAINTEXT://localhost:9092"})
    text = node.config.read_text()
    assert doctor("--config", str(node.config)).code == 0  # it listens for this machine alone
    node.config.write_text(text.replace(f"PLAINTEXT://127.0.0.1:{node.port}", f"PLAINTEXT://0.0.0.0:{node.port}"))
    [wrong] = doctor("--config", str(node.config)).wrong("addresses")
    assert "tells their clients to connect to localhost:9092, which is each machine's own address" in wrong


def test_a_node_that_reaches_no_other_controller_hears_why(tmp_path: Path) -> None:
    node = Node.fresh(tmp_path)
    own, *others = node.port_of("CONTROLLER"), *free_ports(2)
    peers = ",".join(f"127.0.0.1:{port}" for port in (own, *others))
    node.config.write_text(f"{node.config.read_text()}controller.quorum.bootstrap.servers={peers}\n")
    [wrong] = doctor("--config", str(node.config)).wrong("addresses")
    assert wrong.startswith(f"node 1 reaches no other controller: 127.0.0.1:{others[0]}: the connection is refused")
    with socket.socket() as other:
        other.bind(("127.0.0.1", others[1]))
        other.listen()
        found = doctor("--config", str(node.config))
    assert found.well("addresses") == [f"node 1 reaches the controllers 127.0.0.1:{others[1]}"]
    assert found.code == 0


def test_clients_that_are_sent_to_a_name_that_is_not_known_hear_so(tmp_path: Path) -> None:
    node = Node.fresh(tmp_path, {"advertised.listeners": "PLAINTEXT://kafka.invalid:9092"}).start()
    try:
        found = doctor("--bootstrap-server", node.bootstrap, "--timeout", "1")
    finally:
        node.kill()
    assert found.code == 1
    [wrong] = found.wrong("addresses")
    assert wrong.startswith("broker 1 is advertised as kafka.invalid:9092: the name is not known here -> ")
    assert "Make kafka.invalid known on this machine (DNS or /etc/hosts), or set advertised.listeners" in wrong


def test_a_port_that_nobody_listens_on_is_told_as_refused(tmp_path: Path) -> None:
    [unused] = free_ports(1)
    node = Node.fresh(tmp_path, {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{unused}"}).start()
    try:
        found = doctor("--bootstrap-server", node.bootstrap)
    finally:
        node.kill()
    [wrong] = found.wrong("addresses")
    assert wrong.startswith(f"broker 1 is advertised as 127.0.0.1:{unused}: the connection is refused: nothing listens")


@pytest.mark.parametrize(
    ("other", "who"),
    [
        ({"node.id": "2"}, "another broker answers there"),  # of the same cluster, by its id
        (None, "a broker of another cluster ("),
    ],
)
def test_an_address_where_another_broker_answers_is_told(
    stage: Stage, tmp_path: Path, other: dict[str, str] | None, who: str
) -> None:
    """A client would send records there."""
    second = None if other is None else Node.fresh(tmp_path / "other", other).start()
    at = stage.address(2) if second is None else second.bootstrap
    node = Node.fresh(tmp_path, {"advertised.listeners": f"PLAINTEXT://{at}"})
    try:
        found = doctor("--bootstrap-server", node.start().bootstrap)
    finally:
        node.kill()
        if second is not None:
            second.kill()
    [wrong] = found.wrong("addresses")
    assert wrong.startswith(f"broker 1 is advertised as {at}, but {who}")
    assert "correct advertised.listeners of broker 1" in wrong


def test_an_address_that_does_not_answer_is_not_waited_for_for_long() -> None:
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        at = f"127.0.0.1:{deaf.getsockname()[1]}"
        found = doctor("--bootstrap-server", at, "--timeout", "0.3")
    [wrong] = found.wrong("addresses")
    assert wrong.startswith(f"{at} (as given): it accepts connections and does not answer (within 0.3 s) -> ")


def test_a_low_limit_of_descriptors_is_told_of_the_process_that_has_it(tmp_path: Path) -> None:
    node = Node.fresh(tmp_path).start("-n 256")
    try:
        found = doctor("--bootstrap-server", node.bootstrap)
    finally:
        node.kill()
    assert found.code == 1
    [wrong] = found.wrong("limits")
    assert f"broker 1 (pid {node_pid(wrong)}) may open only 256 files: room for " in wrong
    assert "ulimit -n" in wrong


def node_pid(text: str) -> int:
    return int(text.partition("(pid ")[2].partition(")")[0])


@contextlib.contextmanager
def small_disk(path: Path, size: str) -> Iterator[Path]:
    """A file system of its own, where this may be mounted."""
    path.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path)], capture_output=True, text=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


@pytest.mark.parametrize("options", ["--bootstrap-server", "--config"])
def test_a_disk_that_is_nearly_full_is_told_by_the_broker_and_by_its_machine(tmp_path: Path, options: str) -> None:
    with small_disk(tmp_path / "small", "64m") as disk:
        node = Node.fresh(tmp_path)
        text = node.config.read_text().replace(f"log.dirs={node.log_dir}", f"log.dirs={disk / 'data'}")
        node.config.write_text(text + "segment.index.bytes=4096\nlog.index.size.max.bytes=4096\n")
        run("storage", "format", "--standalone", "-t", "MkU3OEVBNTcwNTJENDM2Qk", "-c", str(node.config))
        node = Node(node.config).start()
        try:
            free = os.statvfs(disk)
            (disk / "filler").write_bytes(bytes(free.f_bavail * free.f_frsize - (2 << 20)))
            found = doctor(options, node.bootstrap if options == "--bootstrap-server" else str(node.config))
        finally:
            node.kill()
    assert found.code == 1
    [wrong] = found.wrong("disks")
    assert f"{disk / 'data'} of " in wrong and "is nearly full: 2 MiB of 64 MiB are free" in wrong


def test_a_broker_that_is_killed_is_named_with_all_that_misses_it(stage: Stage) -> None:
    """The last test of this cluster."""
    stage.kill(3)
    wait_until(lambda: stage.unfenced() == {1, 2}, "it is fenced")
    wait_until(stage.all_know, "every broker knows of it")
    by_address = doctor("--bootstrap-server", stage.address(1))
    here = doctor("--data-dir", str(stage.directory))
    for found in (by_address, here):
        assert found.code == 1
        assert any(each.startswith("broker 3 is registered and does not serve") for each in found.wrong("addresses"))
        unled, tight, behind = found.wrong("partitions")
        assert unled.startswith("nobody leads lone-0: they are neither read nor written -> Start broker 3")
        assert tight.startswith("fewer replicas than min.insync.replicas are in sync for ") and "tight-0" in tight
        assert "replicas are out of sync for lone-0, orders-0, orders-1, orders-2, tight-0 -> Start broker 3" in behind
    assert any("node 3 does not run, and others of its cluster do" in each for each in here.wrong("settings"))
    [voter] = [each for each in doctor_until_silent(stage) if each.startswith("voter 3 has not fetched")]
    assert "Start node 3" in voter


def doctor_until_silent(stage: Stage) -> list[str]:
    """The leader of the quorum notices after five seconds."""
    found: list[str] = []

    def is_noticed() -> bool:
        found[:] = doctor("--bootstrap-server", stage.address(1)).wrong("quorum")
        return bool(found)

    wait_until(is_noticed, "the voter is silent")
    return found


def test_apache_kafka_is_examined_too(apache_kafka: ApacheKafka) -> None:
    with Client(apache_kafka.bootstrap) as client:
        Admin(client).create_topics([NewTopic("examined", 2, 1)])
    found = doctor("--bootstrap-server", apache_kafka.bootstrap)
    assert found.all_wrong == []
    assert any(
        f"broker 1 is advertised as {apache_kafka.bootstrap}, and answers there" in each
        for each in found.well("addresses")
    )
    assert any(each.startswith("the clock of node 1 is ") for each in found.well("clocks"))
    assert any("not Highwater: Apache Kafka" in each for each in found.well("versions"))
    assert any("metadata.version 4.3-IV0" in each for each in found.well("versions"))
    assert found.well("limits") and found.well("disks") and found.well("quorum") and found.well("partitions")


def test_without_a_cluster_it_says_how_to_name_one(tmp_path: Path) -> None:
    environment = {key: value for key, value in os.environ.items() if key != "HIGHWATER_BOOTSTRAP"}
    command = [sys.executable, "-m", "highwater", "doctor"]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 1
    assert "give --bootstrap-server HOST:PORT" in done.stderr
