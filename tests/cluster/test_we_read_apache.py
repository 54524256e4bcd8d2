"""A node starts where Apache Kafka stopped or was killed, and the other way round, on the same directory."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from highwater import model
from highwater.client import Admin, Client, NewTopic
from highwater.client import Producer as OneAfterTheOther
from tests.apache import ApacheKafka
from tests.cluster import clients
from tests.cluster.clients import FIRST_TIME, STEP, Record, binary_records
from tests.cluster.nodes import Node, wait_until
from tests.cluster.tools import call, ours

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("apache")]

COUNT = 20_000
NOT_OURS = ("transaction", "group", "eligible.leader.replicas", "share", "streams")
"""Features that are kept at 0, so that a node of ours takes the directory."""
TIMES = (FIRST_TIME - 1, FIRST_TIME, FIRST_TIME + 77 * STEP, FIRST_TIME + 12_345 * STEP + 1, FIRST_TIME + COUNT * STEP)
SMALL_SEGMENTS = {"segment.bytes": "1048576", "retention.ms": "-1"}


class Answers(NamedTuple):
    """What a broker says of the data, by librdkafka."""

    records: list[Record]
    by_time: list[int]
    transactional: list[bytes | None]
    committed: list[bytes | None]
    ends: tuple[int, int]


def apache_on(directory: Path, properties: Mapping[str, str] | None = None) -> ApacheKafka:
    """Formatted with the two features that we know of, and no others."""
    few = {"transaction.state.log.num.partitions": "2", "offsets.topic.num.partitions": "2", **(properties or {})}
    return ApacheKafka(directory, properties=few, features={f"{name}.version": 0 for name in NOT_OURS})


def fill(bootstrap: str, transactions: bool) -> None:
    with Client(bootstrap) as client:
        Admin(client).create_topics(
            [
                NewTopic("plain", partitions=1, configs=SMALL_SEGMENTS),
                NewTopic("transactional", partitions=1, configs=SMALL_SEGMENTS),
                NewTopic("passing", partitions=3),
            ]
        )
        Admin(client).delete_topics(["passing"])
    clients.confluent_write(bootstrap, "plain", binary_records(COUNT))
    if transactions:
        write_transactions(bootstrap)
    else:
        clients.confluent_write(bootstrap, "transactional", binary_records(100))


def write_transactions(bootstrap: str) -> None:
    """Committed and aborted by turns, over more than one segment."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "tx", "log_level": 0})
    producer.init_transactions(60)
    for number in range(8):
        producer.begin_transaction()
        for record in range(100):
            producer.produce("transactional", b"%d.%d " % (number, record) + bytes(3_000), partition=0)
        assert producer.flush(120) == 0
        if number % 2 == 0:
            producer.commit_transaction(120)
        else:
            producer.abort_transaction(120)


def read_values(bootstrap: str, topic: str, isolation: str) -> list[bytes | None]:
    return [message.value() for message in read_messages(bootstrap, topic, isolation)]


def read_messages(bootstrap: str, topic: str, isolation: str) -> list[Message]:
    """To the end that this isolation level sees."""
    settings = {"group.id": "none", "enable.auto.commit": False, "enable.partition.eof": True, "log_level": 0}
    consumer = Consumer({"bootstrap.servers": bootstrap, "isolation.level": isolation, **settings})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    found: list[Message] = []
    while True:
        message = consumer.poll(120)
        assert message is not None, f"nothing came after {len(found)} records"
        if message.error() is not None:
            assert message.error().name() == "_PARTITION_EOF", message.error()
            consumer.close()
            return found
        found.append(message)


NOT_YET = (
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._TIMED_OUT,
)


def leads_all(consumer: Consumer, count: int) -> bool:
    """A broker that has just started answers before it knows of a topic, or leads it, or does so for all of them."""
    try:
        _, high = consumer.get_watermark_offsets(TopicPartition("plain", 0), timeout=120)
        consumer.get_watermark_offsets(TopicPartition("transactional", 0), timeout=120)
    except KafkaException as failed:
        if failed.args[0].code() not in NOT_YET:
            raise
        return False
    return bool(high >= count)


def asked(bootstrap: str, count: int = COUNT) -> Answers:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False, "log_level": 0}
    )
    wait_until(lambda: leads_all(consumer, count))
    times = [consumer.offsets_for_times([TopicPartition("plain", 0, when)], timeout=120)[0].offset for when in TIMES]
    ends = consumer.get_watermark_offsets(TopicPartition("transactional", 0), timeout=120)
    consumer.close()
    return Answers(
        list(clients.confluent_read(bootstrap, "plain", count)),
        times,
        read_values(bootstrap, "transactional", "read_uncommitted"),
        read_values(bootstrap, "transactional", "read_committed"),
        ends,
    )


def write_more(bootstrap: str) -> list[Record]:
    """Idempotently, behind what is there."""
    more: Sequence[Record] = binary_records(1_000)
    clients.confluent_write(bootstrap, "plain", more)
    return list(more)


def write_one(writer: OneAfterTheOther) -> None:
    """It fails unless the broker knows the batch before it as this producer's last."""
    writer.send(model.TopicPartition("transactional", 0), [(FIRST_TIME, None, b"by one that goes on", ())])


def assert_same(found: Answers, expected: Answers) -> None:
    for name, one, other in zip(Answers._fields, found, expected, strict=True):
        same = one == other
        assert same, name if name != "by_time" else f"{name}: {one}, {other}"


def assert_our_tool_reads(partition: Path) -> None:
    """Line by line it is compared with Apache's in test_tools_dump_log."""
    logs = ",".join(str(path) for path in sorted(partition.glob("*.log")))
    printed = ours(call("dump-log", "--files", logs, "--deep-iteration", "--print-data-log"))
    assert (printed.rc, printed.stderr) == (0, "")
    assert "isvalid: false" not in printed.stdout
    assert len(re.findall(r"^\| offset: ", printed.stdout, re.MULTILINE)) == COUNT


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_node_goes_on_where_apache_kafka_ended(tmp_path: Path, how: str) -> None:
    kafka = apache_on(tmp_path)
    node = None
    try:
        kafka.start()
        fill(kafka.bootstrap, transactions=True)
        expected = asked(kafka.bootstrap)
        assert len(expected.records) == COUNT and expected.by_time[3] == 12_346
        assert len(expected.transactional) == 800 and len(expected.committed) == 400
        getattr(kafka, how)()

        assert_our_tool_reads(kafka.log_dir / "plain-0")
        node = Node(kafka.config_of(1)).start()
        assert_same(asked(node.bootstrap), expected)
        more = write_more(node.bootstrap)
        node.restart()
        assert_same(asked(node.bootstrap, COUNT), expected)
        everything = list(clients.confluent_read(node.bootstrap, "plain", COUNT + len(more)))
        same = everything == expected.records + more
        assert same
    finally:
        kafka.kill()
        if node is not None:
            node.kill()


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_apache_kafka_goes_on_where_a_node_ended(tmp_path: Path, how: str) -> None:
    node = Node.fresh(tmp_path, {"metadata.log.max.record.bytes.between.snapshots": "2000"}).start()
    kafka = ApacheKafka(tmp_path)
    kafka.ports = [node.port]
    staying = Client(node.bootstrap)
    writer = OneAfterTheOther(staying)
    try:
        fill(node.bootstrap, transactions=False)
        for _ in range(7):
            write_one(writer)
        expected = asked(node.bootstrap)
        getattr(node, how)()

        kafka.start()
        assert_same(asked(kafka.bootstrap), expected)
        write_one(writer)
        more = write_more(kafka.bootstrap)
        with Client(kafka.bootstrap) as client:
            Admin(client).create_topics([NewTopic("new", partitions=1)])
        kafka.stop()

        # And back again.
        node.start()
        everything = list(clients.confluent_read(node.bootstrap, "plain", COUNT + len(more)))
        same = everything == expected.records + more
        assert same
        clients.confluent_write(node.bootstrap, "new", more)
        write_one(writer)
    finally:
        staying.close()
        kafka.kill()
        node.kill()
