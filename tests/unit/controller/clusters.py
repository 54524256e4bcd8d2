"""A small cluster to decide on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from highwater.config import NodeConfig
from highwater.metadata.brokers import FENCE
from highwater.metadata.cluster import MetadataImage
from highwater.metadata.replay import apply
from highwater.model import NodeId, Uuid
from highwater.wire.codec import Message
from highwater.wire.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from highwater.wire.messages.feature_level_record import FeatureLevelRecord
from highwater.wire.messages.partition_record import PartitionRecord
from highwater.wire.messages.register_broker_record import BrokerFeature, RegisterBrokerRecord
from highwater.wire.messages.topic_record import TopicRecord

CLUSTER = "MkU3OEVBNTcwNTJENDM2Qg"
EMPTY = MetadataImage(CLUSTER)
METADATA_VERSION = FeatureLevelRecord(name="metadata.version", feature_level=30)


def directory(broker: int, number: int = 0) -> Uuid:
    return Uuid(bytes([9, broker, number]) + bytes(13))


def incarnation(broker: int, life: int = 1) -> Uuid:
    return Uuid(bytes([7, broker, life]) + bytes(13))


def epoch(broker: int) -> int:
    return 100 + broker


def topic_id(name: str) -> Uuid:
    return Uuid(name.encode().ljust(16, b"\1"))


def node_config(node: int = 1, **settings: str) -> NodeConfig:
    """Settings are written with underscores for periods."""
    properties = {
        "process.roles": "broker,controller",
        "node.id": str(node),
        "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": "127.0.0.1:9093",
        "log.dirs": "/data",
    }
    properties.update({name.replace("_", "."): value for name, value in settings.items()})
    return NodeConfig.parse(properties)


def then(image: MetadataImage, records: Sequence[Message]) -> MetadataImage:
    return apply(image, records, image.offset + len(records), 1)[0]


def registered(
    broker: int, rack: str | None = None, fenced: bool = False, shutting_down: bool = False
) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker,
        broker_epoch=epoch(broker),
        incarnation_id=incarnation(broker),
        features=[BrokerFeature(name="metadata.version", min_supported_version=30, max_supported_version=30)],
        rack=rack,
        fenced=fenced,
        in_controlled_shutdown=shutting_down,
        log_dirs=[directory(broker)],
    )


def cluster(*brokers: int, elr: bool = False) -> MetadataImage:
    """Unfenced brokers of one directory each."""
    levels = [METADATA_VERSION]
    if elr:
        levels.append(FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1))
    return then(EMPTY, [*levels, *(registered(broker) for broker in brokers)])


def fence(image: MetadataImage, *brokers: int) -> MetadataImage:
    return then(
        image,
        [BrokerRegistrationChangeRecord(broker_id=b, broker_epoch=epoch(b), fenced=FENCE) for b in brokers],
    )


def with_topic(
    image: MetadataImage,
    name: str,
    *partitions: Sequence[int],
    isr: Sequence[int] | None = None,
    leader: int | None = None,
    **fields: Any,
) -> MetadataImage:
    """One partition for each list of replicas. By default all are in sync, and the first of the ISR leads."""
    records: list[Message] = [TopicRecord(name=name, topic_id=topic_id(name))]
    for index, replicas in enumerate(partitions):
        members = list(replicas if isr is None else isr)
        records.append(
            PartitionRecord(
                partition_id=index,
                topic_id=topic_id(name),
                replicas=list(replicas),
                isr=members,
                leader=leader if leader is not None else members[0],
                leader_epoch=5,
                partition_epoch=7,
                directories=[directory(replica) for replica in replicas],
                **fields,
            )
        )
    return then(image, records)


def partition(image: MetadataImage, name: str, index: int = 0) -> Mapping[str, object]:
    found = image.topics.partition(name, index)
    assert found is not None
    return found._asdict()


def nodes(*ids: int) -> tuple[NodeId, ...]:
    return tuple(NodeId(i) for i in ids)
