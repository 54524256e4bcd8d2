"""What scenarios about ISR and controller do beside the stage: look at the controller's head, lose a disk, and send
what a client of a certain state would."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import PurePath

from highwater.active_controller.active_controller import ActiveController
from highwater.errors import Code, code_of
from highwater.metadata.brokers import BrokerRegistration
from highwater.metadata.topics import PartitionImage
from highwater.model import TopicPartition, Uuid
from highwater.sim.cluster import CLUSTER_ID
from highwater.storage.format import Format, format_directories
from highwater.wire import records
from highwater.wire.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from highwater.wire.messages.delete_topics_response import DeleteTopicsResponse
from highwater.wire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from highwater.wire.messages.fetch_response import FetchResponse
from highwater.wire.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from highwater.wire.messages.produce_response import ProduceResponse
from highwater.world import Disk, Step
from highwater.world.jobs import finished
from tests.scenarios.stage import Stage
from tests.scenarios.visitor import ORDERS, OffsetAnswer, Visitor

PRODUCE_MS = 10_000


def controller(stage: Stage, name: str = "n1") -> ActiveController:
    found = stage.node(name).controller
    assert found is not None
    return found


def decided(stage: Stage, tp: TopicPartition = ORDERS, by: str = "n1") -> PartitionImage:
    """The partition on the active controller's head: decided, if not committed yet."""
    return controller(stage, by).head.topics.by_name[tp.topic].partitions[tp.partition]


def committed(stage: Stage, tp: TopicPartition = ORDERS, at: str = "n1") -> PartitionImage:
    """The partition as this node knows it to be committed."""
    return stage.node(at).raft.committed.topics.by_name[tp.topic].partitions[tp.partition]


def registration(stage: Stage, broker: int, by: str = "n1") -> BrokerRegistration:
    found = controller(stage, by).head.brokers.get(broker)
    assert found is not None
    return found


def lose_unsynced(stage: Stage, name: str, tp: TopicPartition = ORDERS) -> None:
    """The power goes, and with it everything of the partition that was not synced: a cut that spares nothing."""
    path = stage.log(name, tp).directory / f"{0:020d}.log"
    synced = stage.storage(name).durable_bytes(path) or b""
    stage.cut_power(name)
    left = stage.storage(name).file(path).data
    del left[len(synced) :]


def replace_disk(stage: Stage, name: str) -> None:
    """The node, which is down, gets an empty disk, formatted for the same cluster under the same node id."""
    config = stage.member(name).hosted.config
    directory = PurePath(config.log_dirs[0])
    old = stage.storage(name).directory(directory)
    old.entries.clear()
    old.durable.clear()
    world = stage.sim.restart(name)
    listener = config.controller_listener_names[0]
    wanted = Format(CLUSTER_ID, config.node_id, [directory], PurePath(config.metadata_log_dir), listener)

    def job(disk: Disk) -> Generator[Step, None, None]:
        yield Step()
        format_directories(disk, wanted, now_ms=world.clock.wall_ms(), random=world.random("another disk"))

    stage.sim.run(world.perform(finished(world, job)))
    stage.sim.crash(name, power_loss=False)


async def delete_topic(visitor: Visitor, name: str) -> None:
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=PRODUCE_MS)
    answer = await visitor.client.ask_any(request, DeleteTopicsResponse, PRODUCE_MS / 1000)
    assert not answer.responses[0].error_code, answer.responses[0].error_message


async def fetch_by_id(visitor: Visitor, node: str, topic_id: Uuid) -> Code:
    """The answer to a consumer that knows the first partition by this topic id."""
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topics = [FetchTopic(topic_id=topic_id, partitions=[wanted])]
    request = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, topics=topics, session_epoch=-1)
    answer = await visitor.ask(node, request, FetchResponse)
    return code_of(answer.error_code or answer.responses[0].partitions[0].error_code)


async def produce_as(visitor: Visitor, node: str, topic_id: Uuid, producer: int, sequence: int, value: bytes) -> Code:
    """One record of an idempotent producer, with acks=all."""
    return (await batch_as(visitor, node, topic_id, producer, sequence, value)).code


async def batch_as(
    visitor: Visitor, node: str, topic_id: Uuid, producer: int, sequence: int, *values: bytes, acks: int = -1
) -> OffsetAnswer:
    """One batch of an idempotent producer."""
    batch = records.build(
        [(visitor.world.clock.wall_ms(), None, value, ()) for value in values],
        producer_id=producer,
        producer_epoch=0,
        base_sequence=sequence,
    )
    data = TopicProduceData(
        name=ORDERS.topic,
        topic_id=topic_id,
        partition_data=[PartitionProduceData(index=ORDERS.partition, records=bytes(batch))],
    )
    request = ProduceRequest(acks=acks, timeout_ms=PRODUCE_MS, topic_data=[data])
    row = (await visitor.ask(node, request, ProduceResponse)).responses[0].partition_responses[0]
    return OffsetAnswer(code_of(row.error_code), row.base_offset, -1)
