"""`highwater balance` on a cluster: after a broker has joined, to drain one, and interrupted in between."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from highwater import Cluster
from highwater.cli.balance_view import amount
from highwater.client import Admin, Client, NewTopic, Producer, ResourceType
from highwater.client.balance_plan import plan
from highwater.client.balance_run import carry_out
from highwater.client.balance_sight import Sight, look
from highwater.client.balance_watch import reason_to_wait
from highwater.model import NodeId, TopicPartition
from tests.apache import Ran
from tests.cluster.stage import wait_until
from tests.cluster.tools import call, ours
from tests.heeding import heed_signals

OLD, NEW = (1, 2, 3), 4
PARTITIONS = 12
RECORD = bytes(2_000)
SETTINGS = {"auto.leader.rebalance.enable": "false", "offsets.topic.num.partitions": "4"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Broker 4 has nothing yet: all partitions are on the other three, most of them led by broker 1."""
    with Cluster(brokers=4, config=SETTINGS) as cluster:
        yield cluster


@pytest.fixture
def client(cluster: Cluster) -> Iterator[Client]:
    with Client(cluster.bootstrap_servers) as client:
        yield client


def filled(client: Client, topic: str) -> None:
    """Partition n has n + 1 batches."""
    Admin(client).create_topics([NewTopic(topic, -1, -1, [list(OLD)] * PARTITIONS)])
    producer = Producer(client)
    for index in range(PARTITIONS):
        for _ in range(index + 1):
            producer.send(TopicPartition(topic, index), [(time.time_ns() // 1_000_000, None, RECORD, ())])


def balance(cluster: Cluster, *options: str) -> Ran:
    return ours(call("balance", "--bootstrap-server", cluster.bootstrap_servers, *options))


def bytes_by_broker(sight: Sight) -> dict[int, int]:
    found: Counter[int] = Counter()
    for held in sight.partitions.values():
        for broker in held.replicas:
            found[broker] += held.size
    return {place.id: found[place.id] for place in sight.places}


def throttles(client: Client) -> tuple[dict[str, str], list[str]]:
    """The rates of brokers, and the replicas to which they apply as followers."""
    admin = Admin(client)
    rates = {
        broker: row.value
        for broker in map(str, (*OLD, NEW))
        for row in admin.describe_configs(ResourceType.BROKER, [broker])[broker]
        if row.name == "follower.replication.throttled.rate" and row.value is not None and len(row.value) < 15
    }
    rows = admin.describe_configs(ResourceType.TOPIC, ["spread"])["spread"]
    [listed] = [row.value or "" for row in rows if row.name == "follower.replication.throttled.replicas"]
    return rates, sorted(filter(None, listed.split(",")), key=lambda each: int(each.split(":")[0]))


def is_even(sight: Sight) -> bool:
    sizes = bytes_by_broker(sight)
    mean = sum(sizes.values()) / len(sizes)
    largest = max(held.size for held in sight.partitions.values())
    return all(abs(size - mean) <= max(mean * 0.1, largest) for size in sizes.values())


@pytest.mark.slow
def test_a_new_broker_gets_its_share_a_broker_is_drained_and_an_interrupted_balance_is_taken_up(
    cluster: Cluster, client: Client, tmp_path: Path
) -> None:
    filled(client, "spread")
    shown = balance(cluster, "--plan", str(tmp_path / "plan.json"))
    assert shown.rc == 0, shown.stderr
    assert "Nothing was moved: --execute carries the plan out." in shown.stdout
    written = json.loads((tmp_path / "plan.json").read_text())
    assert written["version"] == 1 and any(NEW in row["replicas"] for row in written["partitions"])
    before = look(client)
    assert bytes_by_broker(before)[NEW] == 0, "it was only shown"
    proposed = plan(before.partitions, before.places)
    assert 0.7 < proposed.moved_bytes / proposed.exact_bytes < 1.2, proposed

    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        carry_out(client, before.partitions, proposed.targets, 1, lambda progress: None, interrupted, rate=10_000)
    rates, listed = throttles(client)
    assert rates == {str(broker): "10000" for broker in (*OLD, NEW)}
    assert listed == [f"{tp.partition}:{NEW}" for tp, now in sorted(proposed.targets.items()) if NEW in now]
    done = balance(cluster, "--execute", "--throttle", "50000000")
    assert done.rc == 0 and "Done." in done.stdout, done.stderr + done.stdout
    assert throttles(client) == ({}, [])
    wait_until(lambda: not Admin(client).list_reassignments(), "nothing moves")
    after = look(client)
    assert is_even(after), bytes_by_broker(after)
    wait_until(lambda: _spread_of_leaders(look(client), (1, 2, 3, 4)) <= 1, "leaders are spread")
    nothing = balance(cluster).stdout
    assert "there is nothing to move" in nothing and "not led" not in nothing

    drained = balance(cluster, "--drain", "1", "--execute", "--at-a-time", "3")
    assert drained.rc == 0, drained.stderr + drained.stdout
    left = look(client)
    assert not any(NodeId(1) in held.replicas for held in left.partitions.values())
    assert bytes_by_broker(left)[1] == 0
    wait_until(lambda: _spread_of_leaders(look(client), (2, 3, 4)) <= 1, "leaders are spread over those that stay")
    records = cluster.records("spread")
    assert len(records) == sum(range(1, PARTITIONS + 1)) and all(record.value == RECORD for record in records)


@pytest.mark.slow
def test_a_watch_waits_while_a_broker_is_down_and_acts_when_it_is_back(tmp_path: Path) -> None:
    with Cluster(brokers=3, config=SETTINGS) as cluster, Client(cluster.bootstrap_servers) as client:
        Admin(client).create_topics([NewTopic("skewed", -1, -1, [[1, 2]] * 6)])
        cluster.kill(2)
        wait_until(lambda: len(Admin(client).describe_cluster().brokers) == 2, "the kill is noticed")
        printed = tmp_path / "printed"
        command = [sys.executable, "-m", "highwater", "balance", "--bootstrap-server", cluster.bootstrap_servers]
        with printed.open("w") as out:
            watch = subprocess.Popen(
                [*command, "--auto", "--every", "0.2"], stdout=out, stderr=subprocess.STDOUT, preexec_fn=heed_signals
            )
        try:
            wait_until(lambda: "It waits: broker 2 is down." in printed.read_text(), "it waits")
            assert reason_to_wait(look(client)) == "broker 2 is down"
            cluster.start(2)
            wait_until(lambda: "Done." in printed.read_text(), "it acted")
            wait_until(lambda: "\nEven." in printed.read_text(), "it is content")
            assert _spread_of_leaders(look(client), (1, 2, 3), "skewed") <= 1
        finally:
            watch.send_signal(signal.SIGINT)
            assert watch.wait(30) == 130, printed.read_text()


def test_a_watch_is_not_combined_with_one_plan(cluster: Cluster) -> None:
    refused = balance(cluster, "--auto", "--drain", "2")
    assert (refused.rc, refused.stderr) == (1, "--auto cannot be combined with --execute, --drain or --plan\n")


def _spread_of_leaders(sight: Sight, brokers: tuple[int, ...], topic: str = "spread") -> int:
    led = Counter(leader for tp, leader in sight.leaders.items() if tp.topic == topic)
    counts = [led[NodeId(broker)] for broker in brokers]
    return max(counts) - min(counts)


def test_a_broker_that_is_not_there_or_cannot_be_spared_is_not_drained(cluster: Cluster, client: Client) -> None:
    unknown = balance(cluster, "--drain", "77")
    assert (unknown.rc, unknown.stderr) == (1, "there is no broker 77, or it is down; there are 1, 2, 3, 4\n")
    Admin(client).create_topics([NewTopic("everywhere", -1, -1, [[1, 2, 3, 4]])])
    refused = balance(cluster, "--drain", "2")
    assert refused.rc == 1 and "everywhere-0 has no broker to go to from broker 2" in refused.stderr
    Admin(client).delete_topics(["everywhere"])


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (2_000_000, "2.0 MB"), (5e15, "5000.0 TB")]
)
def test_bytes_are_shown_as_people_read_them(size: float, text: str) -> None:
    assert amount(size) == text
