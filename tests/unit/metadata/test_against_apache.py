"""Images and records, side by side with Apache Kafka's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from highwater.metadata import records
from highwater.metadata.cluster import MetadataImage
from highwater.metadata.configs import CLUSTER_DEFAULT, topic_resource
from highwater.metadata.replay import apply
from highwater.metadata.snapshot import snapshot_records
from highwater.model import NodeId
from highwater.wire.codec import Message
from highwater.wire.messages.feature_level_record import FeatureLevelRecord
from highwater.wire.messages.register_broker_record import RegisterBrokerRecord
from highwater.wire.records.batch import iterate
from highwater.wire.records.header import walk
from tests.apache import ApacheKafka, Ran
from tests.unit.metadata.histories import History

HERE = Path(__file__).parent
ELR = FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1)
"""Kafka leaves the ELR out of a snapshot where it is off; we keep what the log says."""


def test_kafka_makes_the_same_image_of_any_history(apache_tool: Callable[..., Ran]) -> None:
    histories: list[list[Message]] = [[ELR, *History(seed).records(20 + seed * 3)] for seed in range(60)]
    lines = (" ".join(records.encode(record).hex() for record in made) for made in histories)
    answer = apache_tool(str(HERE / "Images.java"), input="".join(f"{line}\n" for line in lines))
    assert answer.rc == 0, answer.stderr
    for made, line in zip(histories, answer.stdout.splitlines(), strict=True):
        image, _ = apply(MetadataImage("cluster"), made, len(made) - 1, 1)
        ours = [records.decode(records.encode(record)) for batch in snapshot_records(image) for record in batch]
        theirs = [records.decode(bytes.fromhex(text)) for text in line.split(" ")]
        assert sorted(map(in_one_order, ours)) == sorted(map(in_one_order, theirs))


def in_one_order(record: Message) -> str:
    """Kafka's maps have no order, and it sorts a broker's directories."""
    if isinstance(record, RegisterBrokerRecord):
        record.log_dirs = sorted(record.log_dirs)
    entity = getattr(record, "entity", None)
    if entity:
        entity.sort(key=lambda part: part.entity_type)
    return repr(record)


def metadata_batches(path: Path) -> Iterator[tuple[list[bytes], int, int]]:
    """(values, last offset, epoch) of each batch that is not control."""
    data = memoryview(path.read_bytes())
    for position, size, header in walk(data):
        if not header.is_control:
            values = [bytes(record.value) for record in iterate(data[position : position + size]) if record.value]
            yield values, header.last_offset, header.leader_epoch


@pytest.fixture(scope="module")
def metadata_log(apache_kafka: ApacheKafka) -> Path:
    """What Apache Kafka wrote when it created two topics."""
    admin = AdminClient({"bootstrap.servers": apache_kafka.bootstrap})
    topics = [
        NewTopic("metadata-one", num_partitions=3, config={"retention.ms": "1000", "cleanup.policy": "compact"}),
        NewTopic("metadata.two", num_partitions=1),
    ]
    for created in admin.create_topics(topics).values():
        created.result(timeout=120)
    return apache_kafka.log_dir / "__cluster_metadata-0"


def test_a_metadata_log_that_kafka_wrote_is_understood_and_written_back_byte_for_byte(metadata_log: Path) -> None:
    image = MetadataImage("cluster")
    for values, last_offset, epoch in metadata_batches(metadata_log / "00000000000000000000.log"):
        made = [records.decode(value) for value in values]
        assert [records.encode(record) for record in made] == values
        image, _ = apply(image, made, last_offset, epoch)
    assert image.transaction is None
    assert image.features.metadata_version == 30
    one = image.topics.by_name["metadata-one"]
    broker = image.brokers.by_id[NodeId(1)]
    assert [(p.replicas, p.isr, p.leader, p.directories) for p in one.partitions.values()] == [
        ((1,), (1,), 1, broker.directories)
    ] * 3
    assert len(image.topics.by_name["metadata.two"].partitions) == 1
    assert image.configs.of(topic_resource("metadata-one")) == {"retention.ms": "1000", "cleanup.policy": "compact"}
    assert image.configs.of(CLUSTER_DEFAULT)["min.insync.replicas"] == "1"
    assert broker.active
    assert list(image.controllers.by_id) == [1]
    written = [record for batch in snapshot_records(image) for record in batch]
    assert apply(MetadataImage("cluster"), written, image.offset, image.epoch)[0] == image


def test_the_bootstrap_checkpoint_that_kafka_wrote_is_understood(apache_kafka: ApacheKafka) -> None:
    [(values, _, _)] = metadata_batches(apache_kafka.log_dir / "bootstrap.checkpoint")
    levels = [records.decode(value) for value in values]
    assert levels[0] == FeatureLevelRecord(name="metadata.version", feature_level=30)
    assert all(isinstance(record, FeatureLevelRecord) for record in levels)
