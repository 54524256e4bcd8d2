"""Every verb of the embedded cluster, shown by its effect: in one process, and with a process per node."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer as ConfluentProducer
from confluent_kafka.admin import AdminClient

from highwater import Cluster
from highwater.client import Client, RequestTimeout
from highwater.client.admin import Admin
from highwater.cluster import ClusterFailed
from highwater.cluster.layout import Layout
from highwater.cluster.process_host import ProcessHost
from highwater.config import ConfigError

QUICK = {"min.insync.replicas": 1, "replica.lag.time.max.ms": 1000}
SOON = {**QUICK, "broker.session.timeout.ms": 3000, "broker.heartbeat.interval.ms": 300}
"""For what is about the end of a session alone: a busy machine may hold a broker up for as long."""
ONE_WAY_MS = 150
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
THREADS = ("highwater-node", "job", "background", "flush")
names = (f"topic-{number}" for number in itertools.count())


@pytest.fixture(scope="module", params=["threads", "processes"])
def running(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    with Cluster(brokers=3, config=QUICK, processes=request.param == "processes") as cluster:
        yield cluster


@pytest.fixture
def cluster(running: Cluster) -> Iterator[Cluster]:
    """Whole again after each test."""
    yield running
    running.restore()


@pytest.fixture
def topic(cluster: Cluster) -> str:
    """One partition, replicated to all three."""
    name = next(names)
    cluster.create_topic(name, replication_factor=3)
    cluster.wait_for_isr(name, 0, 3)
    return name


def send(cluster: Cluster, topic: str, *values: bytes) -> None:
    """With acks=all; returns when all are acknowledged. The leader is asked: others may be paused or not ready yet."""
    leader = cluster.wait_for_leader(topic, 0)
    address = cluster.bootstrap_servers.split(",")[leader - 1]
    producer = ConfluentProducer({"bootstrap.servers": address, "acks": "all", "linger.ms": 0, "log_level": 0})
    for value in values:
        producer.produce(topic, value=value, partition=0)
    assert producer.flush(120) == 0


def values(cluster: Cluster, topic: str) -> list[bytes | None]:
    return [record.value for record in cluster.records(topic)]


def follower(cluster: Cluster, topic: str) -> int:
    """Not the controller: a leader that is cut off from it could not have the ISR changed."""
    return next(node for node in cluster.brokers if node not in (cluster.leader(topic, 0), cluster.controller()))


def is_refused(cluster: Cluster, node: int) -> bool:
    host, _, port = cluster.bootstrap_servers.split(",")[node - 1].partition(":")
    with socket.socket() as dialled:
        return dialled.connect_ex((host, int(port))) != 0


@pytest.mark.parametrize("begin", [Cluster.start, Cluster.open])
def test_a_cluster_can_be_begun_by_one_call_and_is_given_back(begin: Callable[[Cluster], Cluster]) -> None:
    cluster = begin(Cluster(brokers=1))
    try:
        assert cluster.state(1) == "up"
        with pytest.raises(ClusterFailed, match="open already"):
            cluster.open()
        cluster.kill(1)
        assert cluster.start().state(1) == "up"
        assert cluster.start().state(1) == "up"
    finally:
        cluster.close()


@pytest.mark.parametrize("processes", [False, True])
def test_a_cluster_that_was_not_closed_is_gone_with_its_process(tmp_path: Path, processes: bool) -> None:
    script = f"from highwater import Cluster\nprint(Cluster(brokers=1, processes={processes}).start().log_dir(1))"
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_one_directory_has_one_cluster_at_a_time(tmp_path: Path) -> None:
    with Cluster(brokers=1, data_dir=tmp_path), pytest.raises(ClusterFailed, match=f"{tmp_path} is in use by pid"):
        Cluster(brokers=1, data_dir=tmp_path).open()


def test_a_ready_cluster_is_whole_to_any_client(cluster: Cluster) -> None:
    metadata = AdminClient({"bootstrap.servers": cluster.get_bootstrap_server()}).list_topics(timeout=60)
    assert sorted(metadata.brokers) == cluster.brokers == [1, 2, 3]
    assert metadata.cluster_id == cluster.cluster_id
    assert cluster.controller() in cluster.nodes


def test_records_are_what_a_client_wrote_in_its_order(cluster: Cluster) -> None:
    name = next(names)
    cluster.create_topic(name, partitions=2, replication_factor=3, config={"retention.ms": -1})
    producer = ConfluentProducer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})
    for number in range(20):
        producer.produce(name, key=b"k", value=b"%d" % number, partition=number % 2, headers={"h": b"1"})
    assert producer.flush(120) == 0
    records = cluster.records(name)
    assert [(each.partition, each.offset) for each in records] == [(p, at) for p in (0, 1) for at in range(10)]
    assert [each.value for each in cluster.records(name, 1)] == [b"%d" % number for number in range(1, 20, 2)]
    assert {each.headers for each in records} == {(("h", b"1"),)}


def test_a_killed_leader_is_replaced_and_comes_back_into_the_isr(cluster: Cluster, topic: str) -> None:
    send(cluster, topic, b"before")
    leader = cluster.leader(topic, 0)
    assert leader is not None
    cluster.kill(leader)
    assert cluster.state(leader) == "down" and is_refused(cluster, leader)
    assert not (cluster.log_dir(leader) / CLEAN_SHUTDOWN).exists()
    assert cluster.wait_for_leader(topic, 0, other_than=leader) != leader
    send(cluster, topic, b"while it was down")
    cluster.start(leader)
    assert cluster.wait_for_isr(topic, 0, 3) == {1, 2, 3}
    assert values(cluster, topic) == [b"before", b"while it was down"]


def test_a_kill_breaks_the_connections_of_clients(cluster: Cluster, topic: str) -> None:
    host, _, port = cluster.bootstrap_servers.split(",")[1].partition(":")
    with socket.create_connection((host, int(port)), timeout=20) as connected:
        cluster.kill(2)
        with contextlib.suppress(ConnectionResetError):
            assert connected.recv(1) == b""
    assert cluster.state(2) == "down"


def test_a_stopped_leader_hands_over_and_shuts_down_cleanly(cluster: Cluster) -> None:
    """Not the controller: what that one commits as it leaves the others hear from the next."""
    name = next(names)
    leader, *others = sorted(cluster.brokers, key=lambda node: node == cluster.controller())
    cluster.create_topic(name, assignment=[[leader, *others]])
    cluster.wait_for_isr(name, 0, 3)
    cluster.wait_for_leader(name, 0, leader)
    cluster.stop(leader)
    assert (cluster.log_dir(leader) / CLEAN_SHUTDOWN).exists()
    assert cluster.leader(name, 0) in others
    assert is_refused(cluster, leader)


def test_a_paused_node_answers_nothing_until_it_is_resumed(cluster: Cluster) -> None:
    paused = 3
    address = cluster.bootstrap_servers.split(",")[paused - 1]
    with Client(address) as client:
        client.metadata([])
        cluster.pause(paused)
        assert cluster.state(paused) == "paused" and not is_refused(cluster, paused)
        client.any_connection().timeout = client.timeout = 0.3
        with pytest.raises(RequestTimeout):
            client.metadata([])
    cluster.resume(paused)
    with Client(address) as client:
        assert client.metadata([]).cluster_id == cluster.cluster_id


def test_a_paused_follower_leaves_the_isr_and_returns_when_resumed(cluster: Cluster, topic: str) -> None:
    paused = follower(cluster, topic)
    cluster.pause(paused)
    cluster.wait_for_isr(topic, 0, {1, 2, 3} - {paused})
    send(cluster, topic, b"without it")
    cluster.resume(paused)
    cluster.wait_for_isr(topic, 0, 3)
    assert values(cluster, topic) == [b"without it"]


def test_a_paused_node_can_be_killed(cluster: Cluster) -> None:
    cluster.pause(2)
    cluster.kill(2)
    assert cluster.state(2) == "down" and is_refused(cluster, 2)


def test_a_follower_cut_off_from_its_leader_leaves_the_isr_until_the_link_heals(cluster: Cluster, topic: str) -> None:
    leader, lagging = cluster.leader(topic, 0), follower(cluster, topic)
    assert leader is not None
    cluster.cut(leader, lagging)
    send(cluster, topic, b"over the cut")
    assert lagging not in cluster.isr(topic, 0)
    cluster.heal()
    cluster.wait_for_isr(topic, 0, 3)
    assert values(cluster, topic) == [b"over the cut"]


@pytest.mark.parametrize("from_leader", [True, False])
def test_one_direction_is_enough_to_cut_a_follower_off(cluster: Cluster, topic: str, from_leader: bool) -> None:
    leader, lagging = cluster.leader(topic, 0), follower(cluster, topic)
    assert leader is not None
    one, other = (leader, lagging) if from_leader else (lagging, leader)
    cluster.cut(one, other, one_way=True)
    send(cluster, topic, b"one way")
    assert lagging not in cluster.isr(topic, 0)
    cluster.heal()
    assert cluster.wait_for_isr(topic, 0, 3)


def test_a_cut_stays_over_a_restart(cluster: Cluster, topic: str) -> None:
    leader, lagging = cluster.leader(topic, 0), follower(cluster, topic)
    third = ({1, 2, 3} - {leader, lagging}).pop()
    assert leader is not None
    send(cluster, topic, b"before")
    cluster.kill(lagging)
    cluster.cut(leader, lagging)
    cluster.start(lagging, wait=False)
    cluster.wait_for_isr(topic, 0, {leader, third})
    send(cluster, topic, b"behind its back")
    assert lagging not in cluster.isr(topic, 0)
    cluster.heal()
    assert cluster.wait_for_isr(topic, 0, 3) == {1, 2, 3}


def test_slow_links_delay_what_waits_for_all_replicas(cluster: Cluster, topic: str) -> None:
    leader = cluster.leader(topic, 0)
    assert leader is not None
    send(cluster, topic, b"first")

    def is_late() -> bool:
        """Later than there and back again."""
        begun = time.monotonic()
        send(cluster, topic, b"sent")
        return time.monotonic() - begun >= 2 * ONE_WAY_MS / 1000

    for node in {1, 2, 3} - {leader}:
        cluster.slow(leader, node, ms=ONE_WAY_MS)
    assert all(is_late() for _ in range(3))
    cluster.heal()
    cluster.wait_until(lambda: not is_late(), what="a record is as quick as the machine lets it")


def test_verbs_refuse_what_makes_no_sense(cluster: Cluster) -> None:
    with pytest.raises(ValueError, match="there is no node 9"):
        cluster.kill(9)
    with pytest.raises(ValueError, match="node 1 is up"):
        cluster.start(1)
    with pytest.raises(ValueError, match="node 1 is up"):
        cluster.resume(1)
    with pytest.raises(ValueError, match="there is no partition"):
        cluster.leader("nowhere", 0)
    with pytest.raises(TimeoutError, match="pigs fly .nodes: 1 up, 2 up, 3 up"):
        cluster.wait_until(lambda: False, 0.02, "pigs fly")


@pytest.mark.parametrize("processes", [False, True], ids=["threads", "processes"])
def test_a_kept_data_directory_has_the_records_at_the_next_opening(tmp_path: Path, processes: bool) -> None:
    with Cluster(brokers=1, data_dir=tmp_path, processes=processes) as first:
        first.create_topic("kept")
        send(first, "kept", b"a", b"b")
        address, cluster_id = first.bootstrap_servers, first.cluster_id
    assert (tmp_path / "node-1" / "data" / CLEAN_SHUTDOWN).exists()
    with Cluster(brokers=1, data_dir=tmp_path, processes=processes) as second:
        assert values(second, "kept") == [b"a", b"b"]
        assert (second.bootstrap_servers, second.cluster_id) == (address, cluster_id)


@pytest.mark.parametrize("processes", [False, True], ids=["threads", "processes"])
def test_a_broker_cut_off_from_a_controller_of_its_own_is_fenced(processes: bool) -> None:
    with Cluster(brokers=2, controllers=1, config=SOON, processes=processes, racks=["a", "b"]) as cluster:
        assert cluster.nodes == [1, 2, 101] and cluster.controller() == 101
        with cluster.client() as client:
            assert [broker.rack for broker in Admin(client).describe_cluster().brokers] == ["a", "b"]
        cluster.cut(2, 101)
        cluster.wait_until(lambda: cluster.view().brokers == {1})
        cluster.heal()
        cluster.wait_until(lambda: cluster.view().brokers == {1, 2})
        assert cluster.state(2) == "up"


def test_a_closed_cluster_leaves_no_thread_no_port_and_no_data() -> None:
    before = set(threading.enumerate())
    with Cluster(brokers=1) as cluster:
        assert [each for each in set(threading.enumerate()) - before if each.name.startswith(THREADS[0])]
        directory = cluster.log_dir(1)
        host, _, port = cluster.bootstrap_servers.partition(":")
        assert directory.exists()
    assert not directory.exists()
    # Of this process others may begin meanwhile; a thread of a node is its own, or one that does its jobs.
    assert not [each for each in set(threading.enumerate()) - before if each.name.startswith(THREADS)]
    with socket.socket() as taken:
        taken.bind((host, int(port)))


def test_the_port_of_a_node_s_status_is_its_own_also_while_it_is_down(tmp_path: Path) -> None:
    layout = Layout(tmp_path, 1, 0, None, {}, http=True)
    try:
        host, _, port = (layout.members[0].http or "").partition(":")
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind((host, int(port)))
    finally:
        layout.release()


def test_a_command_to_a_process_that_has_just_ended_does_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the thread of another node does, in which a failure was spent at that very moment."""
    ended = []
    end = ProcessHost._end

    def note_and_end(host: ProcessHost) -> None:
        host.send("disarm", 1)
        ended.append(host.member.id)
        end(host)

    monkeypatch.setattr(ProcessHost, "_end", note_and_end)
    with Cluster(brokers=1, processes=True) as cluster:
        cluster.kill(1)
        assert ended == [1] and cluster.state(1) == "down"


def test_a_wait_that_ends_in_vain_says_how_it_stood(cluster: Cluster, topic: str) -> None:
    isr = cluster.wait_for_isr(topic, 0, 3)
    known = ",".join(map(str, sorted(isr)))
    with pytest.raises(TimeoutError) as raised:
        cluster.wait_for_isr(topic, 0, 5, seconds=0)
    assert str(raised.value).startswith(f"not within 0.0 s: the ISR of {topic}-0 has 5 members; it was {known} at last")
    with pytest.raises(TimeoutError, match=f"the ISR of {topic}-0 has 1,2; it was {known} at last"):
        cluster.wait_for_isr(topic, 0, {2, 1}, seconds=0)
    leader = cluster.wait_for_leader(topic, 0)
    ended = f"{topic}-0 is led by a leader other than node {leader}; node {leader} led it at last"
    with pytest.raises(TimeoutError, match=ended):
        cluster.wait_for_leader(topic, 0, other_than=leader, seconds=0)


def test_a_setting_that_cannot_be_is_refused_at_once() -> None:
    with pytest.raises(ConfigError), Cluster(brokers=1, config={"log.retention.ms": "soon"}):
        pass
    with pytest.raises(ClusterFailed, match="not open"):
        Cluster().start(1)


def test_a_topic_that_is_not_there_and_a_link_that_cannot_be_are_refused() -> None:
    """With no records of a mistyped topic a test would be green for another reason."""
    with Cluster(brokers=2) as cluster:
        cluster.create_topic("orders")
        assert cluster.records("orders") == []
        with pytest.raises(ValueError, match="there is no topic ordres"):
            cluster.records("ordres")
        with pytest.raises(ValueError, match="there is no partition orders-1"):
            cluster.records("orders", 1)
        for refused in (lambda: cluster.cut(1, 1), lambda: cluster.slow(2, 2, ms=3)):
            with pytest.raises(ValueError, match="has no link to itself"):
                refused()
        with pytest.raises(ValueError, match="cannot be slower by -3 ms"):
            cluster.slow(1, 2, ms=-3)
