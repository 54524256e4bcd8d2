"""DescribeQuorum: the leader's view of every replica (KIP-836, KIP-853)."""

from __future__ import annotations

from highwater.errors import Code
from highwater.model import METADATA_TOPIC, NodeId
from highwater.quorum.core import Core
from highwater.quorum.leader import Leader, ReplicaProgress
from highwater.quorum.messages import METADATA_PARTITION, metadata_partition
from highwater.wire.messages.describe_quorum_request import DescribeQuorumRequest
from highwater.wire.messages.describe_quorum_response import (
    DescribeQuorumResponse,
    Listener,
    Node,
    PartitionData,
    ReplicaState,
    TopicData,
)

_NODES_SINCE = 2


def describe_quorum(
    core: Core, request: DescribeQuorumRequest, version: int, now: float, wall_ms: int
) -> DescribeQuorumResponse:
    """`wall_ms` is the wall clock at `now`: the response holds dates."""
    leader = core.role
    if metadata_partition(request.topics) is None:
        topics = [
            TopicData(
                topic_name=topic.topic_name,
                partitions=[
                    _error(partition.partition_index, Code.UNKNOWN_TOPIC_OR_PARTITION) for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
        return DescribeQuorumResponse(topics=topics)
    if not isinstance(leader, Leader):
        partition = _error(METADATA_PARTITION, Code.NOT_LEADER_OR_FOLLOWER)
        return DescribeQuorumResponse(topics=[TopicData(topic_name=METADATA_TOPIC, partitions=[partition])])
    leader.forget_idle_observers(now)
    clock = _Dates(version, leader.leader_id, now, wall_ms)
    partition = PartitionData(
        partition_index=METADATA_PARTITION,
        leader_id=leader.leader_id,
        leader_epoch=leader.epoch,
        high_watermark=-1 if leader.high_watermark is None else leader.high_watermark,
        current_voters=[clock.state(voter) for voter in leader.voters.values()],
        observers=[clock.state(observer) for observer in leader.observers.values()],
    )
    return DescribeQuorumResponse(
        topics=[TopicData(topic_name=METADATA_TOPIC, partitions=[partition])],
        nodes=_nodes(core) if version >= _NODES_SINCE else [],
    )


def _error(index: int, code: Code) -> PartitionData:
    return PartitionData(partition_index=index, error_code=code)


def _nodes(core: Core) -> list[Node]:
    return [
        Node(
            node_id=node.key.id,
            listeners=[Listener(name=at.name, host=at.host, port=at.port) for at in node.listeners],
        )
        for node in core.voters.nodes
    ]


class _Dates:
    def __init__(self, version: int, leader_id: NodeId, now: float, wall_ms: int) -> None:
        self._version, self._leader_id, self._now, self._wall_ms = version, leader_id, now, wall_ms

    def _date(self, at: float | None) -> int:
        return -1 if at is None else self._wall_ms - round((self._now - at) * 1000)

    def state(self, replica: ReplicaProgress) -> ReplicaState:
        is_leader = replica.key.id == self._leader_id
        state = ReplicaState(
            replica_id=replica.key.id,
            log_end_offset=-1 if replica.end_offset is None else replica.end_offset,
            last_fetch_timestamp=self._wall_ms if is_leader else self._date(replica.last_fetch),
            last_caught_up_timestamp=self._wall_ms if is_leader else self._date(replica.last_caught_up),
        )
        if self._version >= _NODES_SINCE:
            state.replica_directory_id = replica.key.directory_id
        return state
