"""A cluster shows its state, and why: `status`, the state-change log and the metrics, against what happened."""

from __future__ import annotations

import re
import time
import urllib.request
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner
from prometheus_client.parser import text_string_to_metric_families

from highwater.cli import main
from highwater.client import Admin, Client, Producer
from highwater.client.descriptions import describe_topics
from highwater.client.groups import Groups
from highwater.model import TopicPartition
from tests.apache import ROOT
from tests.cluster.stage import Stage, staged, wait_until
from tests.cluster.tools import apache, call

pytestmark = pytest.mark.slow

LAG_SECONDS = 5
SETTINGS = {
    "replica.lag.time.max.ms": str(LAG_SECONDS * 1000),
    "auto.leader.rebalance.enable": "false",
    # Nobody is taken for dead but who is killed: a busy machine holds nodes up for seconds.
    "broker.session.timeout.ms": "60000",
    "controller.quorum.fetch.timeout.ms": "15000",
}
NAME = re.compile(r"`((?:kafka|highwater)_[a-z_]+)`")


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Three brokers, as `highwater up` starts them."""
    with staged(tmp_path_factory.mktemp("status") / "data", 3, settings=SETTINGS) as stage:
        yield stage


class Cast(NamedTuple):
    """Nodes by their part; only the leader of the topic may be the controller too."""

    controller: int
    leader: int
    follower: int


def cast(stage: Stage, topic: str) -> Cast:
    """A topic with a replica on each, led by neither the controller nor the one that will be held back."""
    controller = stage.active_controller()
    leader, follower = (node for node in stage.brokers if node != controller)
    stage.create_topic_on(topic, [leader, controller, follower])
    return Cast(controller, leader, follower)


def write(stage: Stage, topic: str, count: int, *, to: int, partition: int = 0, acks: int = -1) -> None:
    with Client(stage.address(to)) as client:
        producer = Producer(client, acks=acks, idempotent=acks == -1)
        now = int(time.time() * 1000)
        for number in range(count):
            producer.send(TopicPartition(topic, partition), [(now, b"key", b"value %d" % number, ())])


def row_of(stage: Stage, node: int, topic: str) -> dict[str, Any]:
    """Of a node that runs: one that is held up may not answer at once."""
    found: list[dict[str, Any]] = []

    def is_shown() -> bool:
        status = stage.status(node)
        found.extend(row for row in (status or {}).get("partitions", ()) if row["topic"] == topic)
        return bool(found)

    wait_until(is_shown, f"node {node} shows {topic}")
    return found[0]


def state_changes(stage: Stage, node: int) -> str:
    return stage.log_dir(node).with_name("state-change.log").read_text()


def command(*arguments: str) -> str:
    """`highwater status`, in this process: what it has to import is imported."""
    done = CliRunner().invoke(main, ["status", *arguments])
    assert done.exit_code == 0, done.output
    return done.output


def test_a_follower_that_is_held_back_is_named_with_both_numbers_within_a_second(stage: Stage) -> None:
    parts = cast(stage, "held")
    write(stage, "held", 5, to=parts.leader)
    http = stage.nodes[parts.leader]["http"]
    command("--http", http)

    looked_at, unseen_for = time.monotonic(), 0.0

    def has_left() -> bool:
        """What passed since the last look, when it had not left, is ours: a busy machine makes us look seldom."""
        nonlocal looked_at, unseen_for
        last, looked_at = looked_at, time.monotonic()
        row = row_of(stage, parts.leader, "held")
        unseen_for = row["changes"][0]["seconds_ago"] - (time.monotonic() - last)
        return len(row["isr"]) == 2

    stage.pause(parts.follower)
    write(stage, "held", 10, to=parts.leader, acks=1)
    wait_until(has_left, "the ISR shrinks")
    wait_until(lambda: row_of(stage, parts.leader, "held")["high_watermark"] == 15, "the others have all of it")
    row = row_of(stage, parts.leader, "held")
    printed = command("--http", http, "--topic", "held")
    left = row["changes"][0]
    stage.resume(parts.follower)

    assert unseen_for < 1.0
    numbers = rf"{parts.follower} last caught up (\d+\.\d) s ago, limit {LAG_SECONDS} s"
    reported = re.fullmatch(rf"ISR [\d,]+ -> [\d,]+: {numbers}", left["what"])
    assert reported is not None and float(reported[1]) >= LAG_SECONDS, left["what"]
    follower = next(each for each in row["followers"] if each["id"] == parts.follower)
    assert (follower["in_isr"], follower["log_end"], follower["lag"]) == (False, 5, 10)
    assert follower["lag_ms"] >= LAG_SECONDS * 1000
    below = f"limit {LAG_SECONDS} s; 10 records below the high watermark"
    why = re.fullmatch(rf"last caught up (\d+\.\d) s ago, {below}", follower["why"])
    assert why is not None and float(why[1]) >= LAG_SECONDS, follower["why"]
    assert (row["leader_epoch"], row["high_watermark"], row["log_end"]) == (0, 15, 15)

    assert "1 partition under-replicated" in printed.splitlines()[0]
    shown = next(line for line in printed.splitlines() if f"{parts.follower} out of sync: 10 records, " in line)
    assert "last caught up" in shown and below in shown
    assert re.search(rf"^held-0 .* {parts.follower}!", printed, re.MULTILINE)
    assert left["what"] in printed

    wait_until(lambda: stage.isr("held") == {1, 2, 3}, "it is back in the ISR")
    assert (
        f"ISR {_ids(row['isr'])} -> {_ids(row['isr'])},{parts.follower}: {parts.follower} has caught up"
        in (row_of(stage, parts.leader, "held")["changes"][0]["what"])
    )


def test_a_node_that_is_silent_is_shown_as_such_beside_the_others(stage: Stage) -> None:
    controller = stage.active_controller()
    silent = next(node for node in stage.brokers if node != controller)

    def others_are_shown() -> bool:
        """One that is held up for long counts as silent, too."""
        printed = command("--data-dir", str(stage.directory))
        assert f"no answer at {stage.nodes[silent]['http']}" in printed
        return len(re.findall(r"│ active +│", printed)) == 2

    stage.pause(silent)
    wait_until(others_are_shown, "the two others answer")
    stage.resume(silent)


def test_the_death_of_a_leader_is_logged_where_it_is_decided_and_where_it_is_felt(stage: Stage) -> None:
    parts = cast(stage, "felt")
    write(stage, "felt", 3, to=parts.leader)
    stage.kill(parts.leader)
    wait_until(lambda: stage.leader("felt") not in (None, parts.leader), "another leads")
    heir = stage.leader("felt")
    assert heir is not None

    decided = state_changes(stage, parts.controller)
    isr = f"ISR {parts.leader},{parts.controller},{parts.follower} -> {parts.controller},{parts.follower}"
    assert f"felt-0 elected {heir} for epoch 1 from the ISR; {isr}: leader {parts.leader} was fenced\n" in decided
    assert f"broker {parts.leader} fenced: it refused two connections\n" in decided
    led = f"felt-0 leads in epoch 1 from offset 3 on, ISR {parts.controller},{parts.follower}"
    assert f"{led}: leader {parts.leader} is fenced\n" in state_changes(stage, heir)
    follows = f"felt-0 follows {heir} in epoch 1, end 3, "
    wait_until(lambda: follows in state_changes(stage, parts.follower), "who follows knows of it, too")
    assert "felt-0" not in stage.log_dir(heir).with_name("node.log").read_text(), "they have a file of their own"
    out = next(each for each in row_of(stage, heir, "felt")["followers"] if each["id"] == parts.leader)
    assert out["why"].startswith(f"broker {parts.leader} is fenced; not caught up in the ")

    stage.start(parts.leader)
    wait_until(lambda: stage.isr("felt") == {1, 2, 3}, "it is back")
    again = (
        rf"broker {parts.leader} registered with epoch \d+ after epoch \d+: it started again, and did not stop cleanly"
    )
    assert re.search(again, state_changes(stage, parts.controller))
    status = stage.status(parts.controller)
    assert status is not None
    assert any(each["what"] == f"broker {parts.leader} unfenced: it has caught up with the metadata"
               for each in status["decisions"])  # fmt: skip


class Scrape:
    """One look at every node that runs."""

    def __init__(self, stage: Stage) -> None:
        self.by_node: dict[int, dict[str, list[tuple[dict[str, str], float]]]] = {}
        for node in stage.nodes:
            if node not in stage.down:
                with urllib.request.urlopen(f"http://{stage.nodes[node]['http']}/metrics", timeout=60) as page:
                    assert page.headers["Content-Type"].startswith("text/plain; version=0.0.4")
                    self.by_node[node] = self._samples(page.read().decode())

    @staticmethod
    def _samples(text: str) -> dict[str, list[tuple[dict[str, str], float]]]:
        found: dict[str, list[tuple[dict[str, str], float]]] = {}
        for family in text_string_to_metric_families(text):
            assert family.type in ("gauge", "counter", "histogram") and family.documentation, family.name
            for sample in family.samples:
                found.setdefault(sample.name, []).append((sample.labels, sample.value))
        return found

    @property
    def names(self) -> set[str]:
        return {name for samples in self.by_node.values() for name in samples}

    def all(self, name: str, **labels: object) -> list[float]:
        """Of all nodes together, those with these labels."""
        wanted = {key: str(value) for key, value in labels.items()}
        return [
            value
            for samples in self.by_node.values()
            for found, value in samples.get(name, ())
            if wanted.items() <= found.items()
        ]

    def one(self, name: str, **labels: object) -> float:
        (value,) = self.all(name, **labels)
        return value

    def at(self, node: int, name: str) -> float:
        ((_, value),) = self.by_node[node][name]
        return value


def test_metrics_are_the_truth_with_a_broker_down(stage: Stage) -> None:
    parts = cast(stage, "truth")
    with stage.client() as client:
        Admin(client).create_partitions({"truth": 3}, {"truth": [[parts.controller, parts.leader, parts.follower]] * 2})
    stage.create_topic_on("alone", [parts.leader], {"min.insync.replicas": "1"})
    stage.create_topic_on("pair", [parts.controller, parts.leader], {"min.insync.replicas": "2"})
    wait_until(lambda: len(stage.led("truth")) == 3, "three leaders")
    for partition in range(3):
        write(stage, "truth", 10 + partition, to=parts.controller, partition=partition)
    wait_until(stage.all_know, "every broker knows of them")
    whole = Scrape(stage)
    assert whole.all("kafka_topic_partition_in_sync_replica", topic="truth") == [3, 3, 3]
    assert sum(whole.all("kafka_server_brokertopicmetrics_messagesin_total", topic="truth")) == 33

    stage.kill(parts.leader)
    wait_until(lambda: stage.isr("pair") == {parts.controller}, "the pair is short")
    written = {partition: 10 + partition for partition in range(3)}
    wait_until(lambda: _committed(stage, "truth") == written, "new leaders know what is committed")
    wait_until(stage.all_know, "every broker knows what was decided")
    assert_shown(stage, parts)
    stage.start(parts.leader)
    wait_until(lambda: stage.is_whole("truth", 3), "it is whole again")


def assert_shown(stage: Stage, parts: Cast) -> None:
    scrape = Scrape(stage)
    live = {parts.controller, parts.follower}
    with stage.client() as client:
        names = sorted(Admin(client).list_topics())
        topics = {topic.name or "": topic for topic in describe_topics(client, names)}
    reported = [(topic.name, each) for topic in topics.values() for each in topic.partitions]

    assert scrape.one("kafka_brokers") == 2
    assert {(labels["id"], labels["address"]) for labels, _ in scrape.by_node[min(live)]["kafka_broker_info"]} == {
        (str(node), stage.address(node)) for node in live
    }
    for name, topic in topics.items():
        assert scrape.one("kafka_topic_partitions", topic=name) == len(topic.partitions)
    for name, each in reported:
        where = {"topic": name, "partition": each.partition_index}
        short = int(len(each.isr_nodes) < len(each.replica_nodes))
        assert scrape.one("kafka_topic_partition_leader", **where) == each.leader_id
        assert scrape.one("kafka_topic_partition_replicas", **where) == len(each.replica_nodes)
        assert scrape.one("kafka_topic_partition_in_sync_replica", **where) == len(each.isr_nodes)
        assert scrape.one("kafka_topic_partition_under_replicated_partition", **where) == short
        preferred = int(each.leader_id == each.replica_nodes[0])
        assert scrape.one("kafka_topic_partition_leader_is_preferred", **where) == preferred
        if each.leader_id >= 0:
            assert scrape.one("kafka_cluster_partition_underreplicated", **where) == short
            assert scrape.one("kafka_cluster_partition_insyncreplicascount", **where) == len(each.isr_nodes)
    assert scrape.one("kafka_topic_partition_leader", topic="alone") == -1
    assert scrape.one("kafka_cluster_partition_underminisr", topic="pair") == 1
    assert scrape.all("kafka_cluster_partition_atminisr", topic="truth") == [0, 0, 0]

    for partition in range(3):
        where = {"topic": "truth", "partition": partition}
        assert scrape.one("kafka_topic_partition_current_offset", **where) == 10 + partition
        assert scrape.one("kafka_topic_partition_oldest_offset", **where) == 0
        assert scrape.all("kafka_log_log_logendoffset", **where) == [10 + partition] * 2
        assert scrape.all("kafka_cluster_partition_replicascount", **where) == [3]
    for node in live:
        led = [each for _, each in reported if each.leader_id == node]
        status = stage.status(node)
        assert status is not None
        assert scrape.at(node, "kafka_server_replicamanager_leadercount") == len(led)
        assert scrape.at(node, "kafka_server_replicamanager_partitioncount") == len(status["partitions"])
        short = sum(len(each.isr_nodes) < len(each.replica_nodes) for each in led)
        assert scrape.at(node, "kafka_server_replicamanager_underreplicatedpartitions") == short
        on_disk = {
            f"{labels['topic']}-{labels['partition']}": size
            for labels, size in scrape.by_node[node]["kafka_log_log_size"]
        }
        for directory, size in on_disk.items():
            assert size == sum(path.stat().st_size for path in (stage.log_dir(node) / directory).glob("*.log"))
        assert scrape.at(node, "kafka_server_raftmetrics_current_leader") == parts.controller
        assert scrape.at(node, "kafka_server_raftmetrics_number_of_voters") == 3
        assert scrape.at(node, "kafka_controller_kafkacontroller_activecontrollercount") == (node == parts.controller)
        assert scrape.at(node, "kafka_controller_kafkacontroller_globalpartitioncount") == len(reported)
        assert scrape.at(node, "kafka_controller_kafkacontroller_globaltopiccount") == len(topics)
        leaderless = sum(each.leader_id < 0 for _, each in reported)
        assert scrape.at(node, "kafka_controller_kafkacontroller_offlinepartitionscount") == leaderless == 1
        assert scrape.at(node, "kafka_controller_kafkacontroller_fencedbrokercount") == 1
        astray = sum(each.leader_id != each.replica_nodes[0] for _, each in reported)
        assert scrape.at(node, "kafka_controller_kafkacontroller_preferredreplicaimbalancecount") == astray
    assert sum(scrape.all("kafka_server_replicamanager_underminisrpartitioncount")) == 1
    lags = scrape.all("highwater_follower_lag_seconds", topic="truth", replica=parts.leader)
    assert len(lags) == 3


@pytest.fixture(scope="module")
def lagging(stage: Stage) -> str:
    """A group with lag on one partition of each broker; its name."""
    for node in stage.brokers:
        stage.create_topic_on(f"lag-{node}", [node], {"min.insync.replicas": "1"})
        write(stage, f"lag-{node}", 10 + node, to=node)
    with stage.client() as client:
        Groups(client).commit("lagging", {TopicPartition(f"lag-{node}", 0): 2 * node for node in stage.brokers})
    return "lagging"


def described(text: str) -> dict[str, list[str]]:
    """Offset, end and lag of each topic, by the lines of a tool."""
    rows = (line.split() for line in text.splitlines() if line.startswith("lagging "))
    return {row[1]: row[3:6] for row in rows}


def test_the_lag_of_a_group_in_the_metrics_is_that_of_groups(stage: Stage, lagging: str) -> None:
    reported = described(
        stage.command("groups", "--bootstrap-server", stage.bootstrap, "--describe", "--group", lagging)
    )
    assert reported == {f"lag-{node}": [str(2 * node), str(10 + node), str(10 - node)] for node in stage.brokers}

    def is_shown() -> bool:
        scrape = Scrape(stage)
        return all(
            scrape.all("kafka_consumergroup_lag", consumergroup=lagging, topic=topic) == [float(lag)]
            and scrape.all("kafka_consumergroup_lag_sum", consumergroup=lagging, topic=topic) == [float(lag)]
            and scrape.all("kafka_consumergroup_current_offset", consumergroup=lagging, topic=topic) == [float(offset)]
            for topic, (offset, _, lag) in reported.items()
        )

    wait_until(is_shown, "the coordinator has asked the leaders again")
    assert Scrape(stage).one("kafka_consumergroup_members", consumergroup=lagging) == 0


@pytest.mark.apache
def test_the_lag_of_a_group_in_the_metrics_is_that_of_apaches_tool(stage: Stage, lagging: str) -> None:
    (ran,) = apache([call("groups", "--bootstrap-server", stage.bootstrap, "--describe", "--group", lagging)])
    reported = described(ran.stdout)
    assert len(reported) == 3

    def is_shown() -> bool:
        scrape = Scrape(stage)
        return all(
            scrape.all("kafka_consumergroup_lag", consumergroup=lagging, topic=topic) == [float(lag)]
            for topic, (_, _, lag) in reported.items()
        )

    wait_until(is_shown, "the coordinator has asked the leaders")


def test_every_metric_is_in_the_document_and_nothing_else(stage: Stage, lagging: str) -> None:
    wait_until(lambda: Scrape(stage).all("kafka_consumergroup_lag", consumergroup=lagging), "groups are reported")
    stage.create_topic_on("compacted", list(stage.brokers), {"cleanup.policy": "compact"})
    wait_until(lambda: stage.is_whole("compacted", 1), "it is there")
    scraped = {name for name in Scrape(stage).names if name.startswith(("kafka_", "highwater_"))}
    text = (ROOT / "docs" / "monitoring.md").read_text()
    own = text.index("### Our own")
    documented, exporters = set(NAME.findall(text)), set(NAME.findall(text[:own]))
    assert scraped == documented
    assert len(exporters) >= 20


def _committed(stage: Stage, topic: str) -> dict[int, int]:
    return {index: led.high_watermark for index, led in stage.led(topic).items()}


def _ids(nodes: list[int]) -> str:
    return ",".join(map(str, nodes))
