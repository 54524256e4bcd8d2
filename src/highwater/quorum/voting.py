"""Vote requests, for binding votes and for pre-votes: how they are sent, answered and counted (KIP-595, KIP-996)."""

from __future__ import annotations

from highwater.errors import Code, code_of
from highwater.model import NodeId, Uuid
from highwater.quorum.answer_head import (
    answer_head,
    is_led_by_itself_alone,
    is_our_cluster,
    leader_listeners,
    settle,
    stranger,
)
from highwater.quorum.candidate import Candidate
from highwater.quorum.core import Core
from highwater.quorum.log_view import LogPosition, durable_position
from highwater.quorum.messages import Caller, metadata_partition, node_or_none, vote, vote_answer
from highwater.quorum.prospective import Prospective
from highwater.quorum.ready import Peer
from highwater.quorum.voters import ReplicaKey
from highwater.wire.messages.vote_request import PartitionData, VoteRequest
from highwater.wire.messages.vote_response import VoteResponse


def ask_votes(core: Core, nominee: Prospective | Candidate, now: float) -> None:
    """Asks the voters that have not answered, as long as the election can be won."""
    if nominee.tally.is_rejected:
        return
    end, pre_vote = durable_position(core.log), isinstance(nominee, Prospective)
    for voter in nominee.tally.unrecorded:
        if core.links.is_ready(core.peer(voter.id)):
            peer = Peer(voter.id, core.whereabouts.ask(voter.id, core.places_of(voter.id)))
            request = vote(core.identity.cluster_id, voter, core.local, nominee.epoch, end, pre_vote)
            core.send(peer, request, now)


def answer_vote(core: Core, request: VoteRequest, caller: Caller, now: float) -> VoteResponse:
    if not is_our_cluster(core, request.cluster_id):
        return VoteResponse(error_code=Code.INCONSISTENT_CLUSTER_ID)
    partition = metadata_partition(request.topics)
    if partition is None:
        return VoteResponse(error_code=Code.INVALID_REQUEST)
    error = _check(core, partition)
    if error != Code.NONE:
        return vote_answer(answer_head(core, error, caller), granted=False)
    candidate = ReplicaKey(NodeId(partition.replica_id), Uuid(bytes(partition.replica_directory_id)))
    if not core.voters.has(candidate):
        return vote_answer(answer_head(core, stranger(caller, Code.NONE), caller), granted=False)
    if partition.replica_epoch > core.role.epoch:
        core.become_unattached(partition.replica_epoch, now)
    voter = ReplicaKey(NodeId(request.voter_id), Uuid(bytes(partition.voter_directory_id)))
    if voter.id >= 0 and not voter.names(core.local):
        # The request is for another disk of this node. A voter that came back with an empty disk must not vote:
        # committed records could get lost (KIP-853).
        return vote_answer(answer_head(core, Code.INVALID_VOTER_KEY, caller), granted=False)
    granted = _grant(core, candidate, partition, now)
    return vote_answer(answer_head(core, Code.NONE, caller), granted)


def _check(core: Core, partition: PartitionData) -> Code:
    """A candidate's epoch is above every epoch in its log. A replica that asks for a pre-vote has not raised it yet."""
    if is_led_by_itself_alone(core):
        return Code.INCONSISTENT_VOTER_SET
    highest_log_epoch = partition.replica_epoch if partition.pre_vote else partition.replica_epoch - 1
    if min(partition.last_offset, partition.last_offset_epoch) < 0 or partition.last_offset_epoch > highest_log_epoch:
        return Code.INVALID_REQUEST
    if partition.replica_epoch < core.role.epoch:
        return Code.FENCED_LEADER_EPOCH
    if not core.is_in_reach(partition.replica_epoch):
        return Code.INVALID_REQUEST
    if partition.replica_id < 0 or partition.replica_id == core.local.id:
        return Code.INVALID_REQUEST
    return Code.NONE


def _grant(core: Core, candidate: ReplicaKey, partition: PartitionData, now: float) -> bool:
    mine, theirs = durable_position(core.log), LogPosition(partition.last_offset_epoch, partition.last_offset)
    role = core.role
    granted = role.can_grant(candidate, log_is_current=theirs >= mine, pre_vote=partition.pre_vote)
    if not granted:
        return False
    if partition.pre_vote:
        if isinstance(role, Prospective) and role.yields_until is None and (theirs, candidate) > (mine, core.local):
            role.yields_until = now + core.timing.prompt_election
    elif role.voted is None:
        core.vote_for(candidate, now)
    return True


def take_vote(core: Core, voter: NodeId, response: VoteResponse, now: float) -> bool:
    error = code_of(response.error_code)
    if error == Code.UNSUPPORTED_VERSION and isinstance(core.role, Prospective):
        core.become_candidate(now)  # that voter does not support pre-votes, so do without them
        return True
    partition = metadata_partition(response.topics)
    if error != Code.NONE or partition is None:
        return False
    leader_id = node_or_none(partition.leader_id)
    listeners = leader_listeners(core, leader_id, response.node_endpoints)
    settled = settle(core, code_of(partition.error_code), leader_id, partition.leader_epoch, listeners, now)
    if settled is not None:
        return settled
    core.whereabouts.answered(voter)
    if isinstance(core.role, Prospective | Candidate):
        core.role.tally.record(voter, partition.vote_granted)
    return True
