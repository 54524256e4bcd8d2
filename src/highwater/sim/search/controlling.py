"""The controller of a search. It makes its real decisions on the head image, and each is committed at once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from highwater.broker.isr_changes import UNKNOWN_EPOCH
from highwater.config import NodeConfig
from highwater.controller.alter_partition import alter_partition
from highwater.controller.brokers import fence_broker, unfence_broker
from highwater.controller.death import Liveness
from highwater.controller.directories import assign_replicas_to_dirs
from highwater.controller.registration import register_broker
from highwater.errors import code_of
from highwater.metadata.cluster import MetadataImage
from highwater.metadata.partitions import Recovery
from highwater.metadata.replay import apply
from highwater.model import NodeId, Uuid
from highwater.replication.alter_partition import Answer, Proposal
from highwater.sim.search.node import Node
from highwater.sim.search.replica_log import Batch
from highwater.sim.search.scope import Scope
from highwater.sim.search.state import State
from highwater.wire.codec import Message
from highwater.wire.messages.alter_partition_request import AlterPartitionRequest, BrokerState, PartitionData, TopicData
from highwater.wire.messages.assign_replicas_to_dirs_request import (
    AssignReplicasToDirsRequest,
    DirectoryData,
)
from highwater.wire.messages.assign_replicas_to_dirs_request import PartitionData as PlacedPartition
from highwater.wire.messages.assign_replicas_to_dirs_request import TopicData as PlacedTopic
from highwater.wire.messages.broker_registration_request import BrokerRegistrationRequest, Feature
from highwater.wire.messages.feature_level_record import FeatureLevelRecord
from highwater.wire.messages.partition_record import PartitionRecord
from highwater.wire.messages.topic_record import TopicRecord

CLUSTER = "search-cluster-0000000"
TOPIC = Uuid(b"the topic itself")
METADATA_LEVEL, ELR_LEVEL = 30, 1
ASKED_VERSION, REGISTERED_VERSION = 3, 4


def directory_of(node: int) -> Uuid:
    return Uuid(bytes([9, node]) + bytes(14))


class Controller:
    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._config = NodeConfig.parse(
            {
                "process.roles": "broker,controller",
                "node.id": "1",
                "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
                "controller.listener.names": "CONTROLLER",
                "controller.quorum.bootstrap.servers": "127.0.0.1:9093",
                "log.dirs": "/data",
                "min.insync.replicas": str(scope.min_isr),
                "unclean.leader.election.enable": str(scope.unclean).lower(),
            }
        )

    def first(self) -> State:
        """All brokers are registered and serve, and the topic exists."""
        ids = [NodeId(each) for each in range(1, self._scope.replicas + 1)]
        levels: list[Message] = [FeatureLevelRecord(name="metadata.version", feature_level=METADATA_LEVEL)]
        if self._scope.elr:
            levels.append(FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=ELR_LEVEL))
        nodes = {each: Node(each) for each in ids}
        state = State(nodes, (MetadataImage(CLUSTER),), self._scope.budget)
        self._commit(state, levels)
        for node in nodes.values():
            node.broker_epoch = self.register(state, node)
            self.unfence(state, node.id, node.broker_epoch)
        isr = list(self._scope.isr or ids)
        part = PartitionRecord(
            topic_id=TOPIC,
            partition_id=0,
            replicas=[*ids],
            isr=isr,
            leader=ids[0],
            leader_epoch=1 + max((each.epoch for log in self._scope.begin for each in log), default=-1),
            partition_epoch=0,
            directories=[directory_of(each) for each in ids],
        )
        self._commit(state, [TopicRecord(name="orders", topic_id=TOPIC), part])
        state.images = state.images[-1:]
        for node, written in zip(nodes.values(), self._scope.begin, strict=False):
            for each in written:
                end = node.log.end
                node.log.append(Batch(end, end + each.records - 1, each.epoch, each.name))
        state.written = len({each.name for log in self._scope.begin for each in log})
        if self._scope.begin:
            together = zip(*(node.log.batches for node in nodes.values()), strict=False)
            state.acked = tuple(batches[0] for batches in takewhile(lambda each: len(set(each)) == 1, together))
        return state

    def _commit(self, state: State, records: Sequence[Message]) -> None:
        if not records:
            return
        head = state.head
        image = apply(head, records, head.offset + len(records), 1)[0]
        state.images = (*state.images, image)
        if TOPIC in image.topics.by_id and TOPIC in head.topics.by_id:
            self._forgive(state)

    def _forgive(self, state: State) -> None:
        """An unclean election loses the records that the new leader does not have."""
        part = state.part()
        if part.recovery is Recovery.RECOVERING and part.leader >= 0:
            has = {batch.name for batch in state.nodes[part.leader].log.batches}
            state.forgiven |= {batch.name for batch in state.acked if batch.name not in has}

    def register(self, state: State, node: Node) -> int:
        request = BrokerRegistrationRequest(
            broker_id=node.id,
            cluster_id=CLUSTER,
            incarnation_id=Uuid(bytes([7, node.id, node.life]) + bytes(13)),
            features=[
                Feature(name="metadata.version", min_supported_version=1, max_supported_version=METADATA_LEVEL),
                Feature(name="kraft.version", min_supported_version=0, max_supported_version=1),
                Feature(name="eligible.leader.replicas.version", min_supported_version=0, max_supported_version=1),
            ],
            log_dirs=[directory_of(node.id)],
            previous_broker_epoch=-1,
        )
        head = state.head
        decision = register_broker(
            head, request, REGISTERED_VERSION, self._config, Liveness(0.0), 1.0, head.offset + 1, 1, lambda _: True
        )
        assert decision.refusal is None, decision.refusal
        self._commit(state, decision.records)
        return decision.response.broker_epoch

    def unfence(self, state: State, node: NodeId, epoch: int) -> None:
        self._commit(state, unfence_broker(state.head, self._config, node, epoch))

    def fence(self, state: State, node: NodeId) -> None:
        known = state.head.brokers.get(node)
        assert known is not None
        self._commit(state, fence_broker(state.head, self._config, node, known.epoch))

    def assign(self, state: State, node: Node, directory: Uuid) -> None:
        topic = PlacedTopic(topic_id=TOPIC, partitions=[PlacedPartition(partition_index=0)])
        request = AssignReplicasToDirsRequest(
            broker_id=node.id, broker_epoch=node.broker_epoch, directories=[DirectoryData(id=directory, topics=[topic])]
        )
        self._commit(state, assign_replicas_to_dirs(state.head, request, self._config).records)

    def alter_partition(
        self, state: State, leader: NodeId, broker_epoch: int, epoch: int, proposal: Proposal
    ) -> Answer:
        isr = [
            BrokerState(
                broker_id=member,
                broker_epoch=broker_epoch if member == leader else UNKNOWN_EPOCH if known is None else known,
            )
            for member, known in zip(proposal.isr, proposal.epochs, strict=True)
        ]
        asked = PartitionData(
            partition_index=0,
            leader_epoch=epoch,
            new_isr_with_epochs=isr,
            partition_epoch=proposal.partition_epoch,
        )
        request = AlterPartitionRequest(
            broker_id=leader,
            broker_epoch=broker_epoch,
            topics=[TopicData(topic_id=TOPIC, partitions=[asked])],
        )
        decision = alter_partition(state.head, request, ASKED_VERSION, self._config)
        self._commit(state, decision.records)
        if decision.response.error_code:
            return Answer(code_of(decision.response.error_code))
        row = decision.response.topics[0].partitions[0]
        return Answer(code_of(row.error_code), row.partition_epoch)
