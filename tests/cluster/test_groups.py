"""Real clients in groups on three brokers: they share, take over, commit and resume, whichever member goes away."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from highwater import Cluster
from highwater.broker.groups import OFFSETS_TOPIC
from highwater.client.groups import Groups, assigned
from highwater.coordinator.coordinator import partition_for
from highwater.errors import KafkaError
from tests.cluster.group_member import CLIENTS, LONG_SESSION_MS, Member
from tests.cluster.tools import apache, call

PARTITIONS = 6
OFFSETS_PARTITIONS = 8
CONFIG = {
    "offsets.topic.num.partitions": OFFSETS_PARTITIONS,
    "group.initial.rebalance.delay.ms": 200,
    "group.min.session.timeout.ms": 500,
    "broker.session.timeout.ms": 3000,
    "broker.heartbeat.interval.ms": 300,
    "min.insync.replicas": 2,
}
SECONDS = 120.0
COORDINATOR_KILLS = int(os.environ.get("HIGHWATER_COORDINATOR_KILLS", "5"))
"""50 in a full run."""
numbers = itertools.count()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3, config=CONFIG, processes=True) as made:
        yield made


@pytest.fixture
def topic(cluster: Cluster) -> str:
    name = f"shared-{next(numbers)}"
    cluster.create_topic(name, partitions=PARTITIONS, replication_factor=3)
    return name


def produce(cluster: Cluster, topic: str, first: int, count: int) -> None:
    """Records that are numbered `first` and on, each in the partition of its number."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "log_level": 0})
    for number in range(first, first + count):
        producer.produce(topic, b"%d" % number, partition=number % PARTITIONS)
    assert producer.flush(SECONDS) == 0


def are_shared(members: Sequence[Member]) -> bool:
    """Each partition has one owner, and each member some."""
    held = [partition for member in members for partition in member.assigned]
    return sorted(held) == list(range(PARTITIONS)) and all(member.assigned for member in members)


def processed(members: Sequence[Member]) -> set[str]:
    return {record for member in members for record in member.processed}


def committed(cluster: Cluster, group: str, topic: str) -> list[int]:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": group, "log_level": 0})
    try:
        places = consumer.committed([TopicPartition(topic, index) for index in range(PARTITIONS)], timeout=SECONDS)
        return [place.offset for place in places]
    finally:
        consumer.close()


def coordinator(cluster: Cluster, group: str) -> int:
    return cluster.wait_for_leader(OFFSETS_TOPIC, partition_for(group, OFFSETS_PARTITIONS))


def share_lose_and_resume(cluster: Cluster, topic: str, clients: Sequence[str], assignor: str = "range") -> None:
    group = f"group-{topic}"
    with ExitStack() as stack:
        members = [
            stack.enter_context(Member(client, cluster.bootstrap_servers, group, topic, assignor)) for client in clients
        ]
        everyone = list(members)

        def have_processed(count: int) -> bool:
            return (
                len(processed(everyone)) == count
                and committed(cluster, group, topic) == [count // PARTITIONS] * PARTITIONS
            )

        cluster.wait_until(lambda: are_shared(members), SECONDS, "the members share the partitions")
        produce(cluster, topic, 0, 60)
        cluster.wait_until(lambda: have_processed(60), SECONDS, "all is processed")
        members.pop(0).leave()
        cluster.wait_until(lambda: are_shared(members), SECONDS, "the others have what the one left")
        produce(cluster, topic, 60, 60)
        cluster.wait_until(lambda: have_processed(120), SECONDS, "all is processed by those who stay")
        members.pop(0).kill()
        cluster.wait_until(lambda: are_shared(members), SECONDS, "the others have what the dead one had")
        produce(cluster, topic, 120, 60)
        cluster.wait_until(lambda: have_processed(180), SECONDS, "all is processed by the last")
        again = [record for member in everyone for record in member.processed]
        assert len(again) == 180, "what was committed came a second time"


@pytest.mark.slow
@pytest.mark.parametrize("client", CLIENTS)
def test_members_share_and_take_over_and_resume_where_others_ended(cluster: Cluster, topic: str, client: str) -> None:
    share_lose_and_resume(cluster, topic, [client] * 3)


@pytest.mark.slow
def test_members_of_all_clients_share_one_group(cluster: Cluster, topic: str) -> None:
    share_lose_and_resume(cluster, topic, CLIENTS)


@pytest.mark.slow
@pytest.mark.parametrize("client", ["confluent", "kafka-python"])
def test_cooperative_members_share_and_take_over(cluster: Cluster, topic: str, client: str) -> None:
    share_lose_and_resume(cluster, topic, [client] * 3, "cooperative-sticky")


@pytest.mark.slow
@pytest.mark.timeout(200 + 20 * COORDINATOR_KILLS)
def test_a_commit_that_was_acknowledged_outlives_its_coordinator(cluster: Cluster, topic: str) -> None:
    for number in range(COORDINATOR_KILLS):
        group = f"outlives-{number}"
        consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": group, "log_level": 0})
        try:
            consumer.commit(offsets=[TopicPartition(topic, 0, 1000 + number)], asynchronous=False)
            lost = coordinator(cluster, group)
            cluster.kill(lost)
            (place,) = consumer.committed([TopicPartition(topic, 0)], timeout=SECONDS)
            assert place.offset == 1000 + number
            assert coordinator(cluster, group) != lost
        finally:
            consumer.close()
            cluster.restore()


@pytest.mark.slow
def test_a_group_goes_on_when_its_coordinator_is_killed(cluster: Cluster, topic: str) -> None:
    group = f"group-{topic}"
    try:
        with ExitStack() as stack:
            members = [
                stack.enter_context(Member(client, cluster.bootstrap_servers, group, topic, session_ms=LONG_SESSION_MS))
                for client in CLIENTS
            ]
            cluster.wait_until(lambda: are_shared(members), SECONDS, "the members share the partitions")
            before = [member.assigned for member in members]
            revoked = [member.revoked for member in members]
            # kafka-python ends if a broker dies that it still asks where a partition begins.
            produce(cluster, topic, 0, 30)
            cluster.wait_until(lambda: len(processed(members)) == 30, SECONDS, "every member reads")
            cluster.kill(coordinator(cluster, group))
            produce(cluster, topic, 30, 30)
            cluster.wait_until(lambda: len(processed(members)) == 60, SECONDS, "all is processed")
            assert [member.assigned for member in members] == before
            assert [member.revoked for member in members] == revoked, "nobody lost anything"
    finally:
        cluster.restore()


class Console:
    """`highwater console-consumer` in a group, and the lines that it has printed."""

    def __init__(self, cluster: Cluster, topic: str, group: str) -> None:
        where = ("--bootstrap-server", cluster.bootstrap_servers, "--topic", topic, "--group", group)
        command = [sys.executable, "-m", "highwater", "console-consumer", *where, "--from-beginning"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.lines: list[str] = []
        self._reading = threading.Thread(target=self._read)
        self._reading.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        self.lines.extend(line.strip() for line in self._process.stdout)

    def interrupt(self) -> None:
        """Ctrl-C: it commits and leaves."""
        self._process.send_signal(signal.SIGINT)
        self._process.wait(SECONDS)
        self._reading.join()

    def __enter__(self) -> Console:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self._reading.join()
        assert self._process.stdout is not None
        self._process.stdout.close()


@pytest.mark.slow
def test_two_console_consumers_in_one_group_share_the_partitions_and_the_one_that_stays_has_them_all(
    cluster: Cluster, topic: str
) -> None:
    group = f"consoles-{topic}"

    def shares() -> list[int]:
        with cluster.client() as client:
            try:
                return sorted(len(assigned(member)) for member in Groups(client).describe(group).group.members)
            except KafkaError:
                return []  # there is no such group yet

    with Console(cluster, topic, group) as one, Console(cluster, topic, group) as other:
        cluster.wait_until(lambda: shares() == [3, 3], SECONDS, "each has half of the partitions")
        produce(cluster, topic, 0, 60)
        cluster.wait_until(lambda: len(one.lines) + len(other.lines) == 60, SECONDS, "all is printed")
        assert len(one.lines) == len(other.lines) == 30
        one.interrupt()
        cluster.wait_until(lambda: shares() == [6], SECONDS, "the one that stays has all")
        produce(cluster, topic, 60, 60)
        cluster.wait_until(lambda: len(other.lines) >= 90, SECONDS, "all is printed by the one that stays")
        assert sorted(map(int, one.lines + other.lines)) == list(range(120)), "none twice"


@pytest.mark.slow
@pytest.mark.apache
def test_apaches_tool_lists_describes_resets_and_deletes_groups(cluster: Cluster, topic: str, tmp_path: Path) -> None:
    group, bootstrap = f"tool-{topic}", cluster.bootstrap_servers
    produce(cluster, topic, 0, 60)
    with Member("confluent", bootstrap, group, topic, session_ms=LONG_SESSION_MS) as member:
        cluster.wait_until(lambda: len(member.processed) == 60, SECONDS, "all is processed")
        listed, states, offsets, members, refused = apache(
            [
                call("groups", "--bootstrap-server", bootstrap, *arguments)
                for arguments in (
                    ("--list",),
                    ("--describe", "--group", group, "--state"),
                    ("--describe", "--group", group),
                    ("--describe", "--group", group, "--members", "--verbose"),
                    ("--reset-offsets", "--group", group, "--topic", topic, "--to-earliest", "--execute"),
                )
            ]
        )
        assert group in listed.stdout.split()
        assert "Stable" in states.stdout
        rows = [line.split() for line in offsets.stdout.splitlines() if line.startswith(group)]
        assert sorted((row[2], row[3], row[4], row[5]) for row in rows) == [
            (str(index), "10", "10", "0") for index in range(PARTITIONS)
        ]
        assert {row[7] for row in rows} == {"/127.0.0.1"}
        assert f"{topic}:0,1,2,3,4,5" in members.stdout or f"{topic}(0,1,2,3,4,5)" in members.stdout
        assert "inactive" in refused.stdout + refused.stderr
        member.leave()
    common = ("--bootstrap-server", bootstrap, "--group", group)
    for_topic = (*common, "--reset-offsets", "--topic", topic)
    dry, shifted, deleted, after, gone = apache(
        [
            call("groups", *for_topic, "--to-earliest", "--dry-run"),
            call("groups", *for_topic, "--shift-by", "-3", "--execute"),
            call("groups", *common, "--delete-offsets", "--topic", f"{topic}:5"),
            call("groups", *common, "--describe"),
            call("groups", *common, "--delete"),
        ]
    )
    assert sorted(line.split()[3] for line in dry.stdout.splitlines() if line.startswith(group)) == ["0"] * PARTITIONS
    assert sorted(line.split()[3] for line in shifted.stdout.splitlines() if line.startswith(group)) == ["7"] * 6
    assert "Successful" in deleted.stdout
    rows = [line.split() for line in after.stdout.splitlines() if line.startswith(group)]
    assert sorted((row[2], row[3], row[5]) for row in rows) == [(str(index), "7", "3") for index in range(5)]
    assert "successful" in gone.stdout
    assert committed(cluster, group, topic)[0] < 0
