"""Three nodes are stopped, three of Apache Kafka go on with their directories and files of settings, and back again."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Producer as RdProducer

from highwater.client import Admin, Client, NewTopic, Producer, ResourceType
from highwater.client.admin import ConfigSource
from highwater.client.descriptions import describe_topics
from highwater.client.epochs import EpochEnd, epoch_ends
from highwater.client.groups import Groups
from highwater.client.versions import ask_versions
from highwater.cluster.reading import stored_records
from highwater.errors import KafkaError
from highwater.metadata.features import ELR_VERSION, METADATA_VERSION
from highwater.model import TopicPartition, Uuid, uuid_text
from highwater.wire.codec import Message
from tests.apache import CLUSTER_ID, ApacheKafka, Call, run_tools
from tests.cluster.nodes import Node, run, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("apache")]

IDS = (1, 2, 3)
PARTITIONS = [TopicPartition("orders", index) for index in range(3)]
LONE = TopicPartition("by-one", 0)
GROUP = "readers"
KEPT = {"retention.ms": "-1", "segment.bytes": "1048576", "min.insync.replicas": "2"}
FEW = {"offsets.topic.num.partitions": "4", "transaction.state.log.num.partitions": "2"}
"""No snapshot of the metadata is made meanwhile: either reads the very records that the other has written."""
RECORDS = 3_000
"""In each stage."""


class State(NamedTuple):
    """What a cluster says of what it keeps."""

    topics: dict[str, tuple[Uuid, list[tuple[int, list[int]]]]]
    records: list[tuple[str, int, int, bytes | None]]
    epochs: dict[TopicPartition, list[EpochEnd]]
    committed: dict[TopicPartition, int]
    settings: dict[str, str | None]
    levels: dict[str, int]


class Trio:
    """The same three directories and files, run by either."""

    def __init__(self, home: Path) -> None:
        self.kafka = ApacheKafka(home, nodes=3, properties=FEW)
        self._nodes = [self._formatted(node) for node in IDS]

    @property
    def bootstrap(self) -> str:
        return self.kafka.bootstrap

    def _formatted(self, node: int) -> Node:
        """With voters that are written in the metadata log, as Kafka recommends since 4.0."""
        config = self.kafka.config_of(node)
        config.parent.mkdir(parents=True)
        settings = self.kafka._server_properties(node)
        addresses = re.findall(r"\d+@([\d.:]+)", settings.pop("controller.quorum.voters"))
        settings["controller.quorum.bootstrap.servers"] = ",".join(addresses)
        config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        voters = ",".join(
            f"{id}@{at}:{uuid_text(Uuid(bytes([id] * 16)))}" for id, at in zip(IDS, addresses, strict=True)
        )
        run("storage", "format", "-t", CLUSTER_ID, "-c", str(config), "--initial-controllers", voters)
        return Node(config)

    @contextmanager
    def ours(self) -> Iterator[list[Node]]:
        """Started and stopped together: a quorum needs two of them."""
        with ThreadPoolExecutor(len(IDS)) as pool:
            try:
                yield list(pool.map(Node.start, self._nodes))
                assert list(pool.map(Node.stop, self._nodes)) == [0, 0, 0]
            finally:
                for node in self._nodes:
                    node.kill()

    @contextmanager
    def apaches(self) -> Iterator[ApacheKafka]:
        try:
            yield self.kafka.start()
            self.kafka.stop()
        finally:
            self.kafka.kill()


def write(bootstrap: str, stage: str) -> None:
    """Idempotently, to all partitions of the topic."""
    settings = {"acks": "all", "enable.idempotence": True, "linger.ms": 5, "log_level": 0}
    producer = RdProducer({"bootstrap.servers": bootstrap, **settings})
    for number in range(RECORDS):
        producer.produce("orders", b"%s %d" % (stage.encode(), number), b"key", number % len(PARTITIONS))
    assert producer.flush(120) == 0


def written_alone(writer: Producer, value: bytes) -> int:
    """The offset. It fails unless the broker knows the batch before it as this producer's last."""
    return writer.send(LONE, [(1, None, value, ())])


def is_whole(client: Client) -> bool:
    try:
        topics = describe_topics(client, Admin(client).list_topics(internal=False))
    except KafkaError:
        return False
    parts = [part for topic in topics for part in topic.partitions]
    return all(len(part.isr_nodes) == 3 and part.leader_id > 0 for part in parts)


def state(bootstrap: str) -> State:
    with Client(bootstrap) as client:
        wait_until(lambda: is_whole(client))
        admin = Admin(client)
        names = sorted(admin.list_topics(internal=False))
        topics = {
            topic.name or "": (
                topic.topic_id,
                [(part.partition_index, part.replica_nodes) for part in topic.partitions],
            )
            for topic in describe_topics(client, names)
        }
        latest = {part: topic_epoch(client, part) for part in PARTITIONS}
        committed = {part: each.offset for part, each in Groups(client).committed(GROUP).items()}
        settings = {f"orders {each.name}": each.value for each in overridden(admin, ResourceType.TOPIC, "orders")}
        settings |= {f"broker 2 {each.name}": each.value for each in overridden(admin, ResourceType.BROKER, "2")}
        levels = {
            each.name: each.max_version_level for each in ask_versions(client.any_connection()).finalized_features
        }
        epochs = {part: [epoch_end(client, part, epoch) for epoch in range(latest[part])] for part in PARTITIONS}
    stored = stored_records(bootstrap, [*PARTITIONS, LONE], 120)
    records = [(each.topic, each.partition, each.offset, each.value) for each in stored]
    return State(topics, records, epochs, committed, settings, levels)


def topic_epoch(client: Client, partition: TopicPartition) -> int:
    client.metadata([partition.topic])
    return client.view.topics[partition.topic].partitions[partition.partition].leader_epoch


def epoch_end(client: Client, partition: TopicPartition, epoch: int) -> EpochEnd:
    """Of an epoch that is over."""
    found = epoch_ends(client, {partition: epoch})[partition]
    assert isinstance(found, EpochEnd), found
    return found


def overridden(admin: Admin, kind: ResourceType, name: str) -> list[Message]:
    dynamic = (
        ConfigSource.DYNAMIC_TOPIC_CONFIG,
        ConfigSource.DYNAMIC_BROKER_CONFIG,
        ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG,
    )
    return [each for each in admin.describe_configs(kind, [name])[name] if each.config_source in dynamic]


def assert_kept(found: State, before: State) -> None:
    """All that was there before the hand-over is there now."""
    assert found.topics == before.topics
    same = found.records == before.records
    assert same, f"{len(found.records)} records, {len(before.records)} before"
    for part, ends in before.epochs.items():
        assert found.epochs[part][: len(ends)] == ends, part
        assert len(found.epochs[part]) > len(ends), "another leader has another epoch"
    assert found.committed == before.committed
    assert found.settings == before.settings
    assert found.levels == before.levels


def changed(bootstrap: str, stage: str, bound: Mapping[TopicPartition, int], retention: str) -> None:
    """What a stage leaves behind: records, commits and settings."""
    write(bootstrap, stage)
    with Client(bootstrap) as client:
        Groups(client).commit(GROUP, bound)
        admin = Admin(client)
        admin.alter_configs(ResourceType.TOPIC, "orders", put={"delete.retention.ms": retention})
        admin.alter_configs(ResourceType.BROKER, "2", put={"log.cleaner.backoff.ms": retention})
        admin.alter_configs(ResourceType.BROKER, "", put={"message.max.bytes": f"2{retention}"})


def test_apache_kafka_takes_a_cluster_over_and_hands_it_back(tmp_path: Path) -> None:
    trio = Trio(tmp_path)
    with Client(trio.bootstrap, timeout=120) as staying:
        writer = None
        with trio.ours() as nodes:
            with Client(trio.bootstrap) as client:
                Admin(client).create_topics(
                    [
                        NewTopic("orders", -1, -1, [[1, 2, 3], [2, 3, 1], [3, 1, 2]], KEPT),
                        NewTopic(LONE.topic, -1, -1, [[2, 3, 1]], KEPT),
                        NewTopic("passing", 2, 3),
                    ]
                )
                Admin(client).delete_topics(["passing"])
                wait_until(lambda: is_whole(client))
            writer = Producer(staying)
            assert [written_alone(writer, b"ours %d" % number) for number in range(3)] == [0, 1, 2]
            changed(trio.bootstrap, "before", {PARTITIONS[0]: 500, PARTITIONS[1]: 600}, "70001")
            nodes[1].restart()  # killed: what it led has another epoch now
            write(trio.bootstrap, "ours")
            before = state(trio.bootstrap)
        assert before.levels[ELR_VERSION] == 1 and before.levels[METADATA_VERSION] == 30
        assert before.committed == {PARTITIONS[0]: 500, PARTITIONS[1]: 600}
        assert len(before.records) == 2 * RECORDS + 3 and len(before.settings) >= 6

        with trio.apaches():
            assert_kept(state(trio.bootstrap), before)
            assert written_alone(writer, b"apache") == 3
            changed(trio.bootstrap, "apache", {PARTITIONS[1]: 1600, PARTITIONS[2]: 1700}, "70002")
            with Client(trio.bootstrap) as client:
                Admin(client).create_topics([NewTopic("made-by-apache", 2, 3, configs=KEPT)])
            feature = ["disable", "--feature", ELR_VERSION]
            (done,) = run_tools(
                [Call("org.apache.kafka.tools.FeatureCommand", ["--bootstrap-server", trio.bootstrap, *feature])]
            )
            assert done.rc == 0, done.stdout + done.stderr
            wait_until(lambda: ELR_VERSION not in state(trio.bootstrap).levels)
            between = state(trio.bootstrap)
        assert between.committed == {PARTITIONS[0]: 500, PARTITIONS[1]: 1600, PARTITIONS[2]: 1700}
        assert "made-by-apache" in between.topics and len(between.records) == 3 * RECORDS + 4

        with trio.ours():
            assert_kept(state(trio.bootstrap), between)
            assert written_alone(writer, b"ours again") == 4
            changed(trio.bootstrap, "again", {PARTITIONS[0]: 2500}, "70003")
            after = state(trio.bootstrap)
        assert ELR_VERSION not in after.levels and len(after.records) == 4 * RECORDS + 5
        assert after.committed[PARTITIONS[0]] == 2500
        assert after.settings["orders delete.retention.ms"] == "70003"
