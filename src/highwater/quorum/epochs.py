"""BeginQuorumEpoch, with which a leader announces itself, and EndQuorumEpoch, with which it resigns (KIP-595)."""

from __future__ import annotations

from typing import TypeVar

from highwater.errors import Code, code_of
from highwater.model import Epoch, NodeId, Uuid
from highwater.quorum.answer_head import (
    answer_head,
    is_led_by_itself_alone,
    is_our_cluster,
    leader_listeners,
    settle,
    stranger,
)
from highwater.quorum.core import Core
from highwater.quorum.follower import Follower
from highwater.quorum.leader import Leader
from highwater.quorum.messages import (
    Caller,
    begin_epoch,
    begin_epoch_answer,
    end_epoch,
    end_epoch_answer,
    metadata_partition,
    node_or_none,
)
from highwater.quorum.resigned import Resigned
from highwater.quorum.voters import ReplicaKey, VoterListener
from highwater.wire.messages.begin_quorum_epoch_request import BeginQuorumEpochRequest
from highwater.wire.messages.begin_quorum_epoch_response import BeginQuorumEpochResponse
from highwater.wire.messages.end_quorum_epoch_request import EndQuorumEpochRequest, PartitionData
from highwater.wire.messages.end_quorum_epoch_response import EndQuorumEpochResponse

Response = TypeVar("Response", BeginQuorumEpochResponse, EndQuorumEpochResponse)


def announce(core: Core, leader: Leader, now: float) -> None:
    """Announces this leader to voters that do not fetch. It repeats this, because they may have missed it."""
    if now < leader.begin_epoch_at:
        return
    leader.begin_epoch_at = now + core.timing.begin_epoch_interval
    identity = core.identity
    for voter in leader.silent_voters(now):
        peer = core.peer(voter.id)
        ready_at = core.links.ready_at(peer)
        if ready_at is None:
            request = begin_epoch(identity.cluster_id, voter, core.local.id, leader.epoch, identity.node.listeners)
            core.send(peer, request, now)
        else:
            leader.begin_epoch_at = min(leader.begin_epoch_at, ready_at)


def take_leave(core: Core, resigned: Resigned, now: float) -> None:
    """Sends EndQuorumEpoch to the voters until each of them has confirmed it."""
    identity, successors = core.identity, resigned.preferred_successors
    for voter in core.voters.ids:
        peer = core.peer(voter)
        if voter in resigned.unacknowledged and core.links.is_ready(peer):
            request = end_epoch(identity.cluster_id, core.local.id, resigned.epoch, successors, identity.node.listeners)
            core.send(peer, request, now)


def answer_begin(core: Core, request: BeginQuorumEpochRequest, caller: Caller, now: float) -> BeginQuorumEpochResponse:
    if not is_our_cluster(core, request.cluster_id):
        return BeginQuorumEpochResponse(error_code=Code.INCONSISTENT_CLUSTER_ID)
    partition = metadata_partition(request.topics)
    if partition is None:
        return BeginQuorumEpochResponse(error_code=Code.INVALID_REQUEST)
    leader_id, epoch = NodeId(partition.leader_id), partition.leader_epoch
    error = _learn(core, request, leader_id, epoch, caller, now)
    if error == Code.NONE:
        voter = ReplicaKey(NodeId(request.voter_id), Uuid(bytes(partition.voter_directory_id)))
        if voter.id >= 0 and not voter.names(core.local):
            error = Code.INVALID_VOTER_KEY
    return begin_epoch_answer(answer_head(core, error, caller))


def answer_end(core: Core, request: EndQuorumEpochRequest, caller: Caller, now: float) -> EndQuorumEpochResponse:
    if not is_our_cluster(core, request.cluster_id):
        return EndQuorumEpochResponse(error_code=Code.INCONSISTENT_CLUSTER_ID)
    partition = metadata_partition(request.topics)
    if partition is None:
        return EndQuorumEpochResponse(error_code=Code.INVALID_REQUEST)
    leader_id, epoch = NodeId(partition.leader_id), partition.leader_epoch
    error = _learn(core, request, leader_id, epoch, caller, now)
    if error == Code.NONE and isinstance(core.role, Follower) and core.role.leader_id == leader_id:
        core.role.leader_ended(now + _wait_by_rank(core, partition))
    return end_epoch_answer(answer_head(core, error, caller))


def _learn(
    core: Core,
    request: BeginQuorumEpochRequest | EndQuorumEpochRequest,
    leader_id: NodeId,
    epoch: Epoch,
    caller: Caller,
    now: float,
) -> Code:
    """Learns the leader that a request names, if the request is valid."""
    error = _check(core, leader_id, epoch, caller)
    if error == Code.NONE:
        listeners = tuple(VoterListener(at.name, at.host, at.port) for at in request.leader_endpoints)
        core.learn(leader_id, epoch, listeners or core.voters.listeners(leader_id), now)
    return error


def _check(core: Core, leader_id: NodeId, epoch: Epoch, caller: Caller) -> Code:
    if is_led_by_itself_alone(core):
        return Code.INCONSISTENT_VOTER_SET
    if epoch < core.role.epoch:
        return Code.FENCED_LEADER_EPOCH
    if not core.is_in_reach(epoch):
        return Code.INVALID_REQUEST
    if leader_id < 0 or leader_id == core.local.id or core.contradicts(leader_id, epoch):
        return Code.INVALID_REQUEST  # Kafka stops its node here; but a peer's wrong request should not do that
    if not core.voters.has(ReplicaKey(leader_id)):
        return stranger(caller, Code.INVALID_REQUEST)
    return Code.NONE


def _wait_by_rank(core: Core, partition: PartitionData) -> float:
    """How long this voter waits before it asks for pre-votes. The first successor does not wait, so that the best log
    is elected. Each later one waits twice as long as the one before it, and a voter that is not listed waits
    longest."""
    successors = [
        ReplicaKey(NodeId(replica.candidate_id), Uuid(bytes(replica.candidate_directory_id)))
        for replica in partition.preferred_candidates
    ] or [ReplicaKey(NodeId(replica)) for replica in partition.preferred_successors]
    longest = core.timing.election_backoff_max
    rank = next((rank for rank, key in enumerate(successors) if key.names(core.local)), len(successors))
    if rank == 0:
        return 0.0
    return longest / 2 ** (len(successors) - rank) if rank < len(successors) else longest


def take_begin(core: Core, response: BeginQuorumEpochResponse, now: float) -> bool:
    """The response matters only if the voter knows a later epoch. Its fetches show that it follows us."""
    return _settle(core, response, now) is not False


def take_end(core: Core, voter: NodeId, response: EndQuorumEpochResponse, now: float) -> bool:
    settled = _settle(core, response, now)
    if settled is None and isinstance(core.role, Resigned):
        core.role.unacknowledged.discard(voter)
    return settled is not False


def _settle(core: Core, response: Response, now: float) -> bool | None:
    """As `settle`; False, too, if the response has an error or is not about the metadata log."""
    partition = metadata_partition(response.topics)
    if response.error_code != Code.NONE or partition is None:
        return False
    leader_id = node_or_none(partition.leader_id)
    listeners = leader_listeners(core, leader_id, response.node_endpoints)
    return settle(core, code_of(partition.error_code), leader_id, partition.leader_epoch, listeners, now)
