"""Administration through confluent-kafka and Apache's own tools, and every advertised version of every API."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from highwater.apis import APIS
from highwater.client import Client, Connection, describe_topics
from highwater.errors import Code
from highwater.model import Endpoint, Uuid
from highwater.net.registry import Role
from highwater.wire.messages.find_coordinator_request import FindCoordinatorRequest
from highwater.wire.messages.find_coordinator_response import FindCoordinatorResponse
from tests.apache import run_tool
from tests.cluster.nodes import Node, wait_until
from tests.cluster.tools import apache as apache_tools
from tests.cluster.tools import call

OLD_LIBRDKAFKA = {0: (3, 7), 1: (4, 10), 2: (1,), 8: (2,), 9: (1,), 10: (0,), 11: (0,), 12: (0,), 13: (0,), 14: (0,),
                  18: (0,), 22: (0,)}  # fmt: skip
"""What librdkafka 1.x and 2.0 want to see in the advertised ranges, of the APIs that are there so far."""


SECONDS = 60
"""For an answer: long enough for a busy machine."""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    node = Node.fresh(tmp_path_factory.mktemp("admin"))
    try:
        yield node.start()
    finally:
        node.kill()


@pytest.fixture
def admin(node: Node) -> AdminClient:
    return AdminClient({"bootstrap.servers": node.bootstrap, "log_level": 0})


def settled(futures: dict[object, object]) -> None:
    for future in futures.values():
        future.result(SECONDS)  # type: ignore[attr-defined]


def refusal(futures: dict[object, object]) -> int:
    """The code with which the only one of them failed."""
    (future,) = futures.values()
    with pytest.raises(KafkaException) as raised:
        future.result(SECONDS)  # type: ignore[attr-defined]
    return int(raised.value.args[0].code())


def create(admin: AdminClient, topic: NewTopic) -> None:
    settled(admin.create_topics([topic]))
    wait_until(lambda: topic.topic in admin.list_topics(timeout=SECONDS).topics)


def delete(admin: AdminClient, topic: str) -> None:
    settled(admin.delete_topics([topic]))
    wait_until(lambda: topic not in admin.list_topics(timeout=SECONDS).topics)


def topic_id(node: Node, topic: str) -> Uuid:
    with Client(node.bootstrap) as client:
        return client.topic(topic).id


def test_topics_come_grow_and_go_by_confluent_kafka(node: Node, admin: AdminClient) -> None:
    create(admin, NewTopic("grows", 2, 1, config={"retention.ms": "1234"}))
    assert len(admin.list_topics(timeout=SECONDS).topics["grows"].partitions) == 2

    settled(admin.create_partitions([NewPartitions("grows", 5)]))
    with Client(node.bootstrap) as client:
        wait_until(lambda: len(describe_topics(client, ["grows"])[0].partitions) == 5)

    delete(admin, "grows")


def test_a_topic_made_again_is_another_topic(node: Node, admin: AdminClient) -> None:
    create(admin, NewTopic("again", 1, 1))
    before = topic_id(node, "again")
    producer = Producer({"bootstrap.servers": node.bootstrap, "log_level": 0})
    producer.produce("again", b"old", partition=0)
    assert producer.flush(SECONDS) == 0

    delete(admin, "again")
    create(admin, NewTopic("again", 1, 1))

    assert topic_id(node, "again") != before
    consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": "none", "log_level": 0})
    assert consumer.get_watermark_offsets(TopicPartition("again", 0), timeout=SECONDS) == (0, 0)
    consumer.close()


def test_configs_are_altered_and_described_by_confluent_kafka(admin: AdminClient) -> None:
    create(admin, NewTopic("configured", 1, 1))
    change = ConfigEntry("max.message.bytes", "5000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, "configured", incremental_configs=[change])
    settled(admin.incremental_alter_configs([resource]))

    def topic_entries() -> dict[str, ConfigEntry]:
        (described,) = admin.describe_configs([ConfigResource(ResourceType.TOPIC, "configured")]).values()
        entries: dict[str, ConfigEntry] = described.result(SECONDS)
        return entries

    wait_until(lambda: topic_entries()["max.message.bytes"].value == "5000")
    entries = topic_entries()
    assert (entries["max.message.bytes"].value, entries["max.message.bytes"].is_default) == ("5000", False)
    assert (entries["retention.ms"].value, entries["retention.ms"].is_default) == ("604800000", True)
    (described,) = admin.describe_configs([ConfigResource(ResourceType.BROKER, "1")]).values()
    entries = described.result(SECONDS)
    assert entries["node.id"].value == "1"
    assert entries["node.id"].is_read_only
    assert entries["message.max.bytes"].value == "1048588"


def test_records_are_deleted_by_confluent_kafka(node: Node, admin: AdminClient) -> None:
    producer = Producer({"bootstrap.servers": node.bootstrap, "log_level": 0})
    create(admin, NewTopic("shortened", 1, 1))
    for _ in range(10):
        producer.produce("shortened", b"v", partition=0)
    assert producer.flush(SECONDS) == 0

    (deleted,) = admin.delete_records([TopicPartition("shortened", 0, 4)]).values()
    assert deleted.result(SECONDS).low_watermark == 4
    assert refusal(admin.delete_records([TopicPartition("shortened", 0, 11)])) == KafkaError.OFFSET_OUT_OF_RANGE


def test_a_wrong_request_gets_kafkas_code(admin: AdminClient) -> None:
    create(admin, NewTopic("there", 2, 1))
    for wrong, code in (
        (NewTopic("there", 1, 1), KafkaError.TOPIC_ALREADY_EXISTS),
        (NewTopic("not/a/name", 1, 1), KafkaError.TOPIC_EXCEPTION),
        (NewTopic("wide", 1, 3), KafkaError.INVALID_REPLICATION_FACTOR),
        (NewTopic("odd", 1, 1, config={"retention.ms": "soon"}), KafkaError.INVALID_CONFIG),
        (NewTopic("unknown", 1, 1, config={"no.such.setting": "1"}), KafkaError.INVALID_CONFIG),
    ):
        assert refusal(admin.create_topics([wrong])) == code, wrong
    assert refusal(admin.delete_topics(["nowhere"])) == KafkaError.UNKNOWN_TOPIC_OR_PART
    assert refusal(admin.create_partitions([NewPartitions("there", 2)])) == KafkaError.INVALID_PARTITIONS
    assert refusal(admin.describe_configs([ConfigResource(ResourceType.TOPIC, "nowhere")])) == (
        KafkaError.UNKNOWN_TOPIC_OR_PART
    )


def test_a_topic_is_made_when_a_producer_asks_for_it(node: Node) -> None:
    producer = Producer({"bootstrap.servers": node.bootstrap, "log_level": 0})
    producer.produce("out-of-nothing", b"v")
    assert producer.flush(SECONDS) == 0


@pytest.mark.slow
@pytest.mark.usefixtures("apache")
def test_apaches_tools_administrate(node: Node, tmp_path: Path) -> None:
    where = ["--bootstrap-server", node.bootstrap]
    topic = ["--entity-type", "topics", "--entity-name", "java"]
    offsets = tmp_path / "offsets.json"
    offsets.write_text(json.dumps({"partitions": [{"topic": "java", "partition": 0, "offset": 2}], "version": 1}))
    steps = [
        call("topics", *where, "--create", "--topic", "java", "--partitions", "2", "--replication-factor", "1"),
        call("topics", *where, "--alter", "--topic", "java", "--partitions", "3"),
        call("configs", *where, "--alter", *topic, "--add-config", "segment.bytes=2097152"),
        call("console-producer", *where, "--topic", "java", "--reader-property=parse.key=true", input="a\tb\n" * 8),
        call("get-offsets", *where, "--topic", "java"),
        call("configs", *where, "--describe", *topic),
        call("topics", *where, "--describe", "--topic", "java"),
        call("delete-records", *where, "--offset-json-file", str(offsets)),
        call("topics", *where, "--create", "--topic", "java", "--partitions", "1"),
        call("topics", *where, "--delete", "--topic", "java"),
        call("topics", *where, "--list"),
    ]
    done = apache_tools(steps)
    again = done.pop(8)
    for step, ran in zip(steps[:8] + steps[9:], done, strict=True):
        assert ran.rc == 0, (step, ran)
    assert again.rc == 1
    assert "Topic 'java' already exists" in again.stdout + again.stderr
    assert sum(int(line.rpartition(":")[2]) for line in done[4].stdout.splitlines()) == 8
    assert "segment.bytes=2097152" in done[5].stdout
    assert "PartitionCount: 3" in done[6].stdout
    assert "java" not in done[-1].stdout.splitlines()


@pytest.mark.slow
@pytest.mark.usefixtures("apache")
def test_apaches_tool_lists_what_is_advertised(node: Node) -> None:
    done = run_tool("org.apache.kafka.tools.BrokerApiVersionsCommand", "--bootstrap-server", node.bootstrap)
    assert done.rc == 0, done.stderr
    for line in ("Produce(0): 0 to 13", "Fetch(1): 4 to 18", "Metadata(3): 0 to 13", "ApiVersions(18): 0 to 4"):
        assert line in done.stdout, line
    for api in APIS[Role.BROKER]:
        assert f"({api.key}): " in done.stdout
    assert "AddPartitionsToTxn(24): UNSUPPORTED" in done.stdout


def test_old_librdkafka_finds_the_versions_it_looks_for() -> None:
    offered = {
        api.key: (api.versions[0] if api.advertised_min is None else api.advertised_min, api.versions[1])
        for api in APIS[Role.BROKER]
    }
    for key, versions in OLD_LIBRDKAFKA.items():
        assert all(offered[key][0] <= version <= offered[key][1] for version in versions), key


def test_a_coordinator_is_found_in_the_oldest_version_and_in_the_newest(node: Node) -> None:
    connection = Connection(Endpoint("127.0.0.1", node.port))
    old = connection.receive(connection.send(FindCoordinatorRequest(key="g"), 0), FindCoordinatorResponse)
    new = connection.receive(
        connection.send(FindCoordinatorRequest(coordinator_keys=["g"]), 6), FindCoordinatorResponse
    )
    connection.close()
    (found,) = new.coordinators
    assert (old.error_code, old.node_id, old.host, old.port) == (Code.NONE, 1, "127.0.0.1", node.port)
    assert (found.error_code, found.node_id, found.host, found.port) == (Code.NONE, 1, "127.0.0.1", node.port)
