"""Three nodes on machines of their own, clients on a fourth: links are cut, slowed and lose packets between them.

The settings are those of docs/hosts.md. Each machine is a network namespace.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from highwater.audit import History, Read, judge, verdict_text
from highwater.cli import main
from highwater.client import Admin, Client, NewTopic
from highwater.cluster.reading import stored_records
from highwater.model import TopicPartition, Uuid, uuid_text
from tests.apache import CLUSTER_ID, bound_to_this_process
from tests.cluster.feed import Feed, feeding, next_ack
from tests.cluster.live_reader import LiveReader
from tests.cluster.namespaces import TUN, Lan, LossyLink, Machine, why_not
from tests.cluster.stage import wait_until

pytestmark = pytest.mark.slow

SETTINGS = Path(__file__).parents[2] / "docs" / "hosts"
DIRECTORY = "/var/lib/highwater"
SOON = {
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "2000",
}
"""So that nobody waits for half a minute until a replica is out of sync."""
PARTITIONS = 3
IDS = (1, 2, 3)
CLIENT = "192.168.7.20"
LATE = {"enable.idempotence": True, "acks": "all", "log_level": 0, "socket.timeout.ms": 5000}
"""A request to a machine that is cut off is given up after so long, and sent again."""


class Hosts:
    """The machines with their nodes, by id, and the machine of the clients."""

    def __init__(self, lan: Lan, home: Path) -> None:
        *machines, self.client = lan.machines
        self.lan = lan
        self.machines: dict[int, Machine] = dict(zip(IDS, machines, strict=True))
        self._home = home
        self._nodes: dict[int, subprocess.Popen[str]] = {}

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{machine.address}:9092" for machine in self.machines.values())

    def start(self) -> None:
        """Formats and starts all of them, by the files of the document, and waits until they are ready."""
        directory_ids = {node: uuid_text(Uuid(bytes([node] * 16))) for node in IDS}
        voters = ",".join(f"{node}@{self.machines[node].address}:9093:{directory_ids[node]}" for node in IDS)
        for node, machine in self.machines.items():
            file = self._home / f"server-{node}.properties"
            text = (SETTINGS / file.name).read_text()
            assert machine.address in text
            soon = "".join(f"{key}={value}\n" for key, value in SOON.items())
            file.write_text(text.replace(DIRECTORY, str(self._home / f"data-{node}")) + soon)
            format_it = ["storage", "format", "-c", str(file), "-t", CLUSTER_ID, "--initial-controllers", voters]
            formatted = CliRunner().invoke(main, format_it)
            assert formatted.exit_code == 0, formatted.output
            command = machine.command(sys.executable, "-m", "highwater", "node", "--config", str(file))
            with (self._home / f"node-{node}.log").open("ab") as output:
                self._nodes[node] = subprocess.Popen(
                    bound_to_this_process(command), stdout=subprocess.PIPE, stderr=output, text=True
                )
        for node, process in self._nodes.items():
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith(f"ready node={node} "), (self._home / f"node-{node}.log").read_text()[-3000:]

    def stop(self) -> None:
        for process in self._nodes.values():
            process.kill()
            process.communicate()

    def status(self, node: int, topic: str) -> dict[str, Any] | None:
        """Asked on its own machine: a cut does not hide it."""
        machine = self.machines[node]
        try:
            with (
                machine.inside(),
                urllib.request.urlopen(f"http://{machine.address}:9644/status?topic={topic}", timeout=20) as answer,
            ):
                found: dict[str, Any] = json.load(answer)
                return found
        except (OSError, HTTPException):
            return None

    def isrs(self, topic: str) -> dict[int, set[int]]:
        """Of each partition, as the leader of the latest epoch sees it."""
        found: dict[int, tuple[int, set[int]]] = {}
        for node in IDS:
            for row in (self.status(node, topic) or {}).get("partitions", ()):
                known = found.get(row["partition"], (-1, set()))
                if row["role"] == "leader" and row["leader_epoch"] > known[0]:
                    found[row["partition"]] = (row["leader_epoch"], set(row["isr"]))
        return {partition: isr for partition, (_, isr) in found.items()}

    def is_whole(self, topic: str) -> bool:
        """Every replica in sync, and every node as the metadata has it: none fenced."""
        statuses = [self.status(node, topic) for node in IDS]
        fenced = [each for shown in statuses for each in (shown or {}).get("brokers", ()) if each["fenced"]]
        isrs = self.isrs(topic)
        return (
            None not in statuses
            and not fenced
            and len(isrs) == PARTITIONS
            and all(isr == set(IDS) for isr in isrs.values())
        )

    def doctor(self) -> dict[str, list[str]]:
        """What is wrong by what it says where it is run, by area."""
        done = CliRunner().invoke(
            main, ["doctor", "--bootstrap-server", self.bootstrap, "--timeout", "5", "-o", "json"]
        )
        wrong: dict[str, list[str]] = {}
        for each in json.loads(done.stdout)["findings"]:
            if each["state"] == "wrong":
                wrong.setdefault(each["area"], []).append(each["what"])
        assert done.exit_code == (1 if wrong else 0)
        return wrong

    def doctor_tells(self, *words: str) -> bool:
        """Whether it tells of something wrong that begins with each of these words: replicas, voters and brokers are
        noticed one after the other."""
        found = [each for wrong in self.doctor().values() for each in wrong]
        return all(any(each.startswith(word) for each in found) for word in words)


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    if reason := why_not():
        pytest.skip(reason)
    with Lan([*(f"192.168.7.1{node}" for node in IDS), CLIENT]) as lan:
        hosts = Hosts(lan, tmp_path_factory.mktemp("hosts"))
        try:
            hosts.start()
            yield hosts
        finally:
            hosts.stop()


class Work:
    """Two producers and a reader on the client's machine, and what they lived through."""

    def __init__(self, hosts: Hosts, topic: str, reader: LiveReader) -> None:
        self.topic = topic
        self.feeds = [Feed(hosts.bootstrap, topic, PARTITIONS, name, LATE) for name in ("one", "other")]
        self.reader = reader

    def flows_again(self) -> None:
        """Records that are handed over from now on are acknowledged in each partition."""
        now = time.monotonic()
        places = [TopicPartition(self.topic, index) for index in range(PARTITIONS)]
        wait_until(
            lambda: all(next_ack(self.feeds, place, now) is not None for place in places), "every partition is written"
        )

    def judge(self, bootstrap: str) -> None:
        """Once all producers have ended."""
        places = [TopicPartition(self.topic, index) for index in range(PARTITIONS)]
        stored = stored_records(bootstrap, places, 60)
        reads = [Read(TopicPartition(each.topic, each.partition), each.offset, each.value or b"") for each in stored]
        ends = {place.partition: 1 + max(read.offset for read in reads if read.partition == place) for place in places}
        wait_until(lambda: self.reader.positions == ends, "the reader has come to the end")
        history = History([sent for feed in self.feeds for sent in feed.sends], [*reads, *self.reader.reads])
        verdict = judge(history)
        assert verdict.ok and verdict.acked > 0, verdict_text(verdict)
        read_once = [(read.partition, read.offset) for read in self.reader.reads]
        assert len(read_once) == len(set(read_once)) == len(reads)


@contextlib.contextmanager
def work(hosts: Hosts, topic: str) -> Iterator[Work]:
    """On the client's machine: a topic that is written and read all the while, judged in the end."""
    with hosts.client.inside():
        with Client(hosts.bootstrap) as client:
            Admin(client).create_topics([NewTopic(topic, PARTITIONS)])
        wait_until(lambda: hosts.is_whole(topic), f"{topic} is whole")
        with LiveReader(hosts.client, hosts.bootstrap, topic, PARTITIONS) as reader:
            at_work = Work(hosts, topic, reader)
            with feeding(*at_work.feeds):
                yield at_work
                wait_until(lambda: hosts.is_whole(topic), f"{topic} is whole again")
                at_work.flows_again()
            at_work.judge(hosts.bootstrap)


def test_clients_of_another_machine_are_told_addresses_that_they_reach(hosts: Hosts) -> None:

    def told() -> dict[int, str]:
        with Client("192.168.7.12:9092") as client:
            client.refresh([])
            return {int(broker.id): str(broker.endpoint) for broker in client.view.brokers.values()}

    with hosts.client.inside():
        # A broker on a busy machine may be fenced for a moment.
        wait_until(lambda: told() == {node: f"192.168.7.1{node}:9092" for node in IDS}, "each at its own address")
        wait_until(lambda: not hosts.doctor(), "all is well")


def test_a_machine_whose_cable_is_pulled_out_leaves_the_isr_and_comes_back(hosts: Hosts) -> None:
    topic = "unplugged"
    with work(hosts, topic) as at_work:
        hosts.lan.unplug(hosts.machines[3])
        wait_until(lambda: all(3 not in isr for isr in hosts.isrs(topic).values()), "its replicas are out of sync")
        at_work.flows_again()
        told = ("192.168.7.13:9092 (as given): ", "broker 3 is ", f"replicas are out of sync for {topic}-0")
        wait_until(lambda: hosts.doctor_tells(*told), "its address, its broker and its replicas are told")
        hosts.lan.plug(hosts.machines[3])


def test_two_machines_that_do_not_reach_each_other_lose_no_record(hosts: Hosts) -> None:
    """Both still reach the third one, and the clients reach all of them."""
    one, other = hosts.machines[1], hosts.machines[2]
    with work(hosts, "blackhole") as at_work:
        one.blackhole(other)
        other.blackhole(one)
        try:
            wait_until(lambda: hosts.doctor_tells("replicas are out of sync for "), "a replica is behind")
            at_work.flows_again()
            assert not hosts.doctor_tells("192.168.7.1")
            status = hosts.status(3, "blackhole")
            assert status is not None
            if (leads := status["controller"]) != 3:  # the other one has old metadata, and the doctor asked the others
                assert hosts.doctor_tells(f"broker {3 - leads} does not reach the controller that leads")
        finally:
            one.forget(other)
            other.forget(one)


def test_a_machine_behind_a_slow_link_keeps_up_or_comes_back(hosts: Hosts) -> None:
    slow = hosts.machines[2]
    with work(hosts, "slow") as at_work:
        if reason := slow.slow("256kbit"):
            pytest.skip(reason)
        try:
            before = slow.held_back
            wait_until(lambda: slow.held_back > before + 100, "its packets wait for each other")
            at_work.flows_again()
        finally:
            slow.quicken()


@pytest.mark.skipif(not TUN.exists(), reason=f"no {TUN} here")
def test_a_link_that_loses_packets_loses_no_record(hosts: Hosts) -> None:
    with work(hosts, "lossy") as at_work, LossyLink(hosts.machines[1], hosts.machines[2], every=7) as link:
        wait_until(lambda: link.lost > 40, "packets are lost")
        at_work.flows_again()
        assert link.passed > 5 * link.lost
