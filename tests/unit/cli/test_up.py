"""Which of its nodes `up` takes for alive, and what it refuses before anything starts."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from highwater.cli import main
from highwater.cli.environment import Environment
from highwater.cli.local_cluster import LocalCluster
from highwater.cli.node import Readiness
from highwater.cli.node_process import Handle, NodeProcess
from highwater.cli.up import spread
from highwater.cluster.failed import ClusterFailed
from highwater.cluster.layout import NodeLayout
from highwater.cluster.ports import free_ports
from highwater.config.properties import parse_properties
from highwater.model import NodeId

DELAY = "group.initial.rebalance.delay.ms"


def test_a_node_that_has_ended_is_dead_before_its_parent_waits_for_it() -> None:
    """`up` would else wait for it to the end of its patience."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    handle = Handle(process.pid)
    try:
        assert handle.is_alive
        process.communicate(b"\n")
        assert not handle.is_alive
    finally:
        handle.close()


@pytest.mark.parametrize(
    ("program", "ending"),
    [
        ("pass", "stopped (exit code 0)"),
        ("raise SystemExit(3)", "died (exit code 3)"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "died (killed by SIGKILL)"),
    ],
)
def test_up_reports_how_a_node_ended_and_the_end_of_its_log(tmp_path: Path, program: str, ending: str) -> None:
    node = NodeProcess(NodeLayout(NodeId(1), ("broker",), tmp_path), tmp_path / "lock")
    node.output.write_text("".join(f"line {number}\n" for number in range(100)))
    node.hold(os.posix_spawn(sys.executable, [sys.executable, "-c", program], os.environ))
    assert node.wait()
    first, *rest = f"{node.fate}{node.last_words(15)}".splitlines()
    assert first == f"{ending}; its log, {tmp_path}/node.log, ends:"
    assert rest == [f"  line {number}" for number in range(85, 100)]
    node.output.unlink()
    assert node.last_words(15).endswith("(No such file or directory)")
    node.close()


def test_a_node_whose_disk_cannot_be_read_ends_neither_up_nor_the_other_nodes(tmp_path: Path) -> None:
    """`up` looks for the pid of each node several times a second."""
    member = NodeLayout(NodeId(1), ("broker",), tmp_path)
    node = NodeProcess(member, tmp_path / "lock")
    node.pid_file.mkdir()  # to read it is an error, and not that it is missing
    assert not node.look()


class Late:
    """A cluster of one node, which says the next of these each time `up` looks; so many seconds go by each time."""

    def __init__(self, directory: Path, *said: bytes, each: float = 30.0) -> None:
        self._said = list(said)
        self._each = each
        self._read, self._write = os.pipe()
        self.printed: list[str] = []
        self.seconds = 0.0
        self._cluster = LocalCluster(directory, 1, free_ports(1), {})

    def _look(self, _: float) -> bool:
        self.seconds += self._each
        if self._said:
            os.write(self._write, self._said.pop(0))
        return False

    def is_waited_for(self) -> bool:
        cluster = self._cluster
        waiting = {Readiness(self._read): cluster.members[0]}
        try:
            return cluster.wait_for(waiting, self._look, self.printed.append, lambda: self.seconds)
        finally:
            os.close(self._write)
            for pipe in waiting:
                pipe.close()
            cluster.stop()


def test_a_node_that_recovers_its_logs_has_all_the_time_that_it_needs(tmp_path: Path) -> None:
    """Else it would begin anew each time, and never be ready."""
    late = Late(tmp_path / "data", *[b"."] * 10, b"+")
    assert late.is_waited_for()
    assert late.seconds == 330
    assert late.printed.count("node 1 recovers its logs") == 1


def test_a_short_recovery_is_not_reported(tmp_path: Path) -> None:
    late = Late(tmp_path / "data", b".", b".", b".", b"+", each=1.0)
    assert late.is_waited_for()
    assert late.printed == []


def test_a_quorum_is_not_missed_while_a_node_recovers_its_logs(tmp_path: Path) -> None:
    """It has the metadata by then, and that only from a quorum. Nobody listens here, so each voter seems to be away."""
    late = Late(tmp_path / "data", b".", b".", b"+")
    assert late.is_waited_for()
    assert late.printed == ["node 1 recovers its logs"]


def test_the_last_warning_of_a_node_that_is_late_is_printed_once(tmp_path: Path) -> None:
    late = Late(tmp_path / "data", b".", b"", b"", b"+", each=4.0)
    log = tmp_path / "data/node-1/node.log"
    log.write_text("[1] WARNING of an earlier start (a.b)\n")
    look = late._look

    def grow(seconds: float) -> bool:
        with log.open("a") as lines:
            lines.write("[2] INFO nothing (a.b)\n[2] WARNING it waits (for a disk) (a.b)\n[3] INFO no more (a.b)\n")
        return look(seconds)

    late._look = grow  # type: ignore[method-assign]
    assert late.is_waited_for()
    assert late.printed == ["node 1 is not ready yet: it waits (for a disk)"]


def test_a_missing_quorum_is_reported_once_while_no_node_reports(tmp_path: Path) -> None:
    late = Late(tmp_path / "data", b"", b"", b"+")
    assert late.is_waited_for()
    [printed] = late.printed
    assert re.fullmatch(
        r"no quorum after 5 s: voter 1 does not answer: cannot connect to .*: Connection refused", printed
    )


def test_a_node_that_reports_nothing_for_a_minute_is_given_up(tmp_path: Path) -> None:
    late = Late(tmp_path / "data", b".", b".", b"", b"", b"", b"", b"+")
    with pytest.raises(ClusterFailed, match="not ready, and silent for 60 s: node 1"):
        late.is_waited_for()
    assert late.seconds == 150


def test_a_port_that_is_taken_is_named_with_its_holder_before_anything_starts(tmp_path: Path) -> None:
    directory = tmp_path / "a/b"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = CliRunner().invoke(main, ["up", "--brokers", "1", "--port", str(port), "--data-dir", str(directory)])
    assert done.exit_code == 1
    assert f"127.0.0.1:{port}, the client port of node 1, is taken by pid {os.getpid()} (" in done.output
    assert "choose another --port" in done.output
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    directory = tmp_path / "file/data"
    done = CliRunner().invoke(main, ["up", "--brokers", "1", "--data-dir", str(directory)])
    assert done.exit_code == 1
    assert done.output == f"Error: --data-dir {directory} cannot be used: {directory}: Not a directory\n"


def refusal(tmp_path: Path, *options: str) -> str:
    """What `up` says instead of starting; it leaves nothing behind."""
    done = CliRunner().invoke(main, ["up", "--brokers", "2", "--data-dir", str(tmp_path / "data"), *options])
    assert done.exit_code in (1, 2), done.output
    assert list(tmp_path.iterdir()) == []
    return done.output


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--port", "99999"), "99999 is not in the range 0<=x<=65535"),
        (("--port", "65535"), "2 ports from 65535 on go beyond 65535"),
        (
            ("--set", "log.retention.msec=1"),
            "log.retention.msec is no setting of a node: did you mean log.retention.ms?",
        ),
        (("--set", "log.retention.ms=soon"), "Invalid value soon for configuration log.retention.ms"),
        (
            ("--set", "node.id=7"),
            "node.id cannot be set for a whole cluster: the nodes are numbered from 1 on, and controllers of their own "
            "from 101 on. Leave it out",
        ),
        (("--set", "broker.id=7"), "broker.id cannot be set for a whole cluster: the nodes are numbered from 1 on"),
        (
            ("--set", "log.dirs=/lake"),
            "log.dirs cannot be set for a whole cluster: each node keeps its data in a folder of its own below the "
            "cluster's directory. Leave it out",
        ),
        (("--set", "log.dir=/lake"), "log.dir cannot be set for a whole cluster: "),
        (("--set", "metadata.log.dir=/lake"), "metadata.log.dir cannot be set for a whole cluster: "),
        (
            ("--set", "process.roles=broker"),
            "process.roles cannot be set for a whole cluster: the numbers of brokers and of controllers decide it",
        ),
        (
            ("--set", "listeners=PLAINTEXT://:9092"),
            "listeners cannot be set for a whole cluster: each node has ports of its own",
        ),
        (
            ("--set", "advertised.listeners=PLAINTEXT://h:9092"),
            "advertised.listeners cannot be set for a whole cluster: each node has ports of its own",
        ),
    ],
)
def test_options_that_do_not_suit_a_cluster_are_refused_with_the_reason(
    tmp_path: Path, options: tuple[str, ...], why: str
) -> None:
    assert why in refusal(tmp_path, *options)


def test_a_variable_of_the_environment_that_breaks_a_setting_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_LOG_RETENTION_MS", "soon")
    printed = refusal(tmp_path)
    assert "configuration log.retention.ms" in printed
    assert "(log.retention.ms is set by the environment variable KAFKA_LOG_RETENTION_MS)" in printed
    assert "(log.retention.ms is set by --set)" in refusal(tmp_path, "--set", "log.retention.ms=later")


def test_a_variable_that_is_nearly_a_setting_is_reported_with_the_right_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_LOG_RETENTION_MSEC", "1000")
    printed = refusal(tmp_path, "--set", "log.roll.ms=soon").splitlines()
    assert printed[0] == (
        "the environment variable KAFKA_LOG_RETENTION_MSEC is ignored: log.retention.msec is no setting of a node; "
        "did you mean KAFKA_LOG_RETENTION_MS?"
    )


@pytest.mark.parametrize(
    "variable",
    [
        "KAFKA_ADVERTISED_HOST_NAME",
        "KAFKA_BOOTSTRAP_SERVERS",
        "KAFKA_BROKERS",
        "KAFKA_BROKER_IDS",
        "KAFKA_BROKER_LIST",
        "KAFKA_COMPRESSION_LEVEL",
        "KAFKA_FETCH_MIN_BYTES",
        "KAFKA_GROUP_ID",
        "KAFKA_HEAP_OPTS",
        "KAFKA_HEARTBEAT_INTERVAL_MS",
        "KAFKA_JMX_PORT",
        "KAFKA_NODE_IDS",
        "KAFKA_RECEIVE_BUFFER_BYTES",
        "KAFKA_SASL_PASSWORD",
        "KAFKA_SESSION_TIMEOUT_MS",
        "KAFKA_TOPIC",
        "KAFKA_TOPIC_REPLICATION_FACTOR",
        "KAFKA_TRANSACTION_TIMEOUT_MS",
        "KAFKA_ZOOKEEPER_CONNECT",
    ],
)
def test_a_variable_of_a_client_is_never_taken_for_a_misspelt_setting(variable: str) -> None:
    environment = Environment({variable: "x"})
    assert (environment.misspelt, environment.settings) == ([], {})


def test_variables_of_clients_and_of_single_nodes_mean_nothing_to_a_cluster() -> None:
    environment = {
        "KAFKA_BOOTSTRAP_SERVERS": "h:1",
        "KAFKA_SASL_MECHANISM": "PLAIN",
        "KAFKA_NODE_ID": "7",
        "KAFKA_LISTENERS": "PLAINTEXT://:9092",
        "KAFKA_TOPIC": "t",
        "KAFKA_LOG_RETENTION_MS": "60000",
        "HOME": "/",
    }
    assert Environment(environment).settings == {"log.retention.ms": "60000"}


@pytest.mark.parametrize(
    ("brokers", "extra", "delay"), [(1, {}, "0"), (1, {DELAY: "3000"}, "3000"), (3, {}, None), (3, {DELAY: "7"}, "7")]
)
def test_the_first_member_of_a_group_does_not_wait_for_others_with_one_broker(
    tmp_path: Path, brokers: int, extra: dict[str, str], delay: str | None
) -> None:
    cluster = LocalCluster(tmp_path / "data", brokers, free_ports(brokers), extra)
    cluster.stop()
    settings = parse_properties((tmp_path / "data/node-1/server.properties").read_text())
    assert settings.get(DELAY) == delay


def test_brokers_have_the_racks_in_turn_and_begin_again_after_the_last_one(tmp_path: Path) -> None:
    assert spread("a, b,c", 5, {}) == ["a", "b", "c", "a", "b"]
    assert spread(None, 5, {}) is None
    cluster = LocalCluster(tmp_path / "data", 3, free_ports(3), {}, racks=spread("a,b", 3, {}))
    try:
        files = [parse_properties(member.config.read_text()) for member in cluster.members]
        assert [properties["broker.rack"] for properties in files] == ["a", "b", "a"]
    finally:
        cluster.stop()


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--racks", "a,b,c,d"], "4 racks for 3 brokers"),
        (["--racks", "a,,c"], "'a,,c' has a rack without a name"),
        (["--racks", "a,b,c", "--set", "broker.rack=z"], "broker.rack is given by --set as well"),
    ],
)
def test_racks_that_do_not_fit_are_refused_before_anything_is_written(
    tmp_path: Path, options: list[str], why: str
) -> None:
    done = CliRunner().invoke(main, ["up", "--data-dir", str(tmp_path / "data"), *options])
    assert done.exit_code == 2 and why in done.output
    assert not (tmp_path / "data").exists()
