"""Converts the quorum's wire messages from and to plain values. Each message is about the metadata log only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeVar

from highwater.errors import Code
from highwater.model import METADATA_TOPIC, NO_NODE, Endpoint, Epoch, NodeId, Offset
from highwater.quorum.leader import Leader
from highwater.quorum.log_view import LogPosition
from highwater.quorum.ready import EpochStart
from highwater.quorum.voters import Listeners, ReplicaKey, VoterSet
from highwater.wire.messages import (
    begin_quorum_epoch_request,
    begin_quorum_epoch_response,
    end_quorum_epoch_request,
    end_quorum_epoch_response,
    leader_change_message,
    vote_request,
    vote_response,
)
from highwater.wire.messages.begin_quorum_epoch_request import BeginQuorumEpochRequest
from highwater.wire.messages.begin_quorum_epoch_response import BeginQuorumEpochResponse
from highwater.wire.messages.end_quorum_epoch_request import EndQuorumEpochRequest
from highwater.wire.messages.end_quorum_epoch_response import EndQuorumEpochResponse
from highwater.wire.messages.kraft_version_record import KRaftVersionRecord
from highwater.wire.messages.leader_change_message import LeaderChangeMessage
from highwater.wire.messages.vote_request import VoteRequest
from highwater.wire.messages.vote_response import VoteResponse

METADATA_PARTITION = 0
KRAFT_VERSION = 1
"""Voters in the log, directory ids in votes and in `quorum-state` (KIP-853)."""
NEVER_LOGGED = -1
"""The offset of a voter set that is only in the bootstrap checkpoint."""


class Caller(NamedTuple):
    """What the response depends on, besides the request."""

    version: int
    listener: str


class _Partition(Protocol):
    @property
    def partition_index(self) -> int: ...


P_co = TypeVar("P_co", bound=_Partition, covariant=True)


class _Topic(Protocol[P_co]):
    @property
    def topic_name(self) -> str: ...

    @property
    def partitions(self) -> Sequence[P_co]: ...


def metadata_partition(topics: Sequence[_Topic[P_co]]) -> P_co | None:
    """The metadata log's part of a message; None if the message is about anything else, or about more."""
    if len(topics) != 1 or topics[0].topic_name != METADATA_TOPIC or len(topics[0].partitions) != 1:
        return None
    partition = topics[0].partitions[0]
    return partition if partition.partition_index == METADATA_PARTITION else None


def node_or_none(node_id: int) -> NodeId | None:
    return None if node_id < 0 else NodeId(node_id)


class AnswerHead(NamedTuple):
    """Error, leader, epoch and the leader's endpoint: every response of the quorum's APIs has them."""

    error: Code
    leader_id: NodeId | None
    epoch: Epoch
    endpoint: Endpoint | None = None


def vote(
    cluster_id: str, voter: ReplicaKey, candidate: ReplicaKey, epoch: Epoch, end: LogPosition, pre_vote: bool
) -> VoteRequest:
    partition = vote_request.PartitionData(
        partition_index=METADATA_PARTITION,
        replica_epoch=epoch,
        replica_id=candidate.id,
        replica_directory_id=candidate.directory_id,
        voter_directory_id=voter.directory_id,
        last_offset_epoch=end.epoch,
        last_offset=end.offset,
        pre_vote=pre_vote,
    )
    topic = vote_request.TopicData(topic_name=METADATA_TOPIC, partitions=[partition])
    return VoteRequest(cluster_id=cluster_id, voter_id=voter.id, topics=[topic])


def vote_answer(head: AnswerHead, granted: bool) -> VoteResponse:
    partition = vote_response.PartitionData(
        partition_index=METADATA_PARTITION,
        error_code=head.error,
        leader_id=_id(head.leader_id),
        leader_epoch=head.epoch,
        vote_granted=granted,
    )
    nodes = [vote_response.NodeEndpoint(node_id=node, host=host, port=port) for node, host, port in _nodes(head)]
    topic = vote_response.TopicData(topic_name=METADATA_TOPIC, partitions=[partition])
    return VoteResponse(topics=[topic], node_endpoints=nodes)


def begin_epoch(
    cluster_id: str, voter: ReplicaKey, leader_id: NodeId, epoch: Epoch, listeners: Listeners
) -> BeginQuorumEpochRequest:
    partition = begin_quorum_epoch_request.PartitionData(
        partition_index=METADATA_PARTITION,
        voter_directory_id=voter.directory_id,
        leader_id=leader_id,
        leader_epoch=epoch,
    )
    return BeginQuorumEpochRequest(
        cluster_id=cluster_id,
        voter_id=voter.id,
        topics=[begin_quorum_epoch_request.TopicData(topic_name=METADATA_TOPIC, partitions=[partition])],
        leader_endpoints=[
            begin_quorum_epoch_request.LeaderEndpoint(name=at.name, host=at.host, port=at.port) for at in listeners
        ],
    )


def begin_epoch_answer(head: AnswerHead) -> BeginQuorumEpochResponse:
    module = begin_quorum_epoch_response
    partition = module.PartitionData(
        partition_index=METADATA_PARTITION,
        error_code=head.error,
        leader_id=_id(head.leader_id),
        leader_epoch=head.epoch,
    )
    nodes = [module.NodeEndpoint(node_id=node, host=host, port=port) for node, host, port in _nodes(head)]
    topic = module.TopicData(topic_name=METADATA_TOPIC, partitions=[partition])
    return BeginQuorumEpochResponse(topics=[topic], node_endpoints=nodes)


def end_epoch(
    cluster_id: str, leader_id: NodeId, epoch: Epoch, successors: Sequence[ReplicaKey], listeners: Listeners
) -> EndQuorumEpochRequest:
    module = end_quorum_epoch_request
    partition = module.PartitionData(
        partition_index=METADATA_PARTITION,
        leader_id=leader_id,
        leader_epoch=epoch,
        preferred_successors=[key.id for key in successors],
        preferred_candidates=[
            module.ReplicaInfo(candidate_id=key.id, candidate_directory_id=key.directory_id) for key in successors
        ],
    )
    return EndQuorumEpochRequest(
        cluster_id=cluster_id,
        topics=[module.TopicData(topic_name=METADATA_TOPIC, partitions=[partition])],
        leader_endpoints=[module.LeaderEndpoint(name=at.name, host=at.host, port=at.port) for at in listeners],
    )


def end_epoch_answer(head: AnswerHead) -> EndQuorumEpochResponse:
    module = end_quorum_epoch_response
    partition = module.PartitionData(
        partition_index=METADATA_PARTITION,
        error_code=head.error,
        leader_id=_id(head.leader_id),
        leader_epoch=head.epoch,
    )
    nodes = [module.NodeEndpoint(node_id=node, host=host, port=port) for node, host, port in _nodes(head)]
    topic = module.TopicData(topic_name=METADATA_TOPIC, partitions=[partition])
    return EndQuorumEpochResponse(topics=[topic], node_endpoints=nodes)


def epoch_start(leader: Leader, voters: VoterSet, voters_offset: Offset, granting: Sequence[ReplicaKey]) -> EpochStart:
    change = LeaderChangeMessage(
        version=0,
        leader_id=leader.leader_id,
        voters=[leader_change_message.Voter(voter_id=voter) for voter in voters.ids],
        granting_voters=[leader_change_message.Voter(voter_id=key.id) for key in granting],
    )
    if voters_offset != NEVER_LOGGED and not voters.needs_update(leader.local):
        return EpochStart(leader.epoch, leader.epoch_start, change)
    version = KRaftVersionRecord(version=0, kraft_version=KRAFT_VERSION)
    return EpochStart(leader.epoch, leader.epoch_start, change, version, voters.with_voter(leader.local).to_record())


def _id(node_id: NodeId | None) -> int:
    return NO_NODE if node_id is None else node_id


def _nodes(head: AnswerHead) -> list[tuple[NodeId, str, int]]:
    if head.leader_id is None or head.endpoint is None:
        return []
    return [(head.leader_id, head.endpoint.host, head.endpoint.port)]
