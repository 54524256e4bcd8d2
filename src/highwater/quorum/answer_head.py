"""Leader and epoch: every response of the quorum's APIs has them. How they are filled in, and how they are taken in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from highwater.errors import Code
from highwater.model import Epoch, NodeId
from highwater.quorum.core import LAST_ACCEPTED, Core
from highwater.quorum.messages import AnswerHead, Caller
from highwater.quorum.ready import FetchAnswer
from highwater.quorum.violation import QuorumViolation
from highwater.quorum.voters import Listeners, VoterListener, endpoint_of
from highwater.wire.codec import Message
from highwater.wire.messages.vote_response import VoteResponse

_ENDPOINTS_SINCE = 1
"""Responses of Vote, BeginQuorumEpoch and EndQuorumEpoch hold the leader's endpoint from this version on (KIP-853)."""

_VOTER_KEYS_SINCE = 1


class _NodeEndpoint(Protocol):
    @property
    def node_id(self) -> int: ...

    @property
    def host(self) -> str: ...

    @property
    def port(self) -> int: ...


def answer_head(core: Core, error: Code, caller: Caller) -> AnswerHead:
    role = core.role
    knows_endpoints = caller.version >= _ENDPOINTS_SINCE
    endpoint = endpoint_of(role.leader_listeners, caller.listener) if knows_endpoints else None
    return AnswerHead(error, role.leader_id, role.epoch, endpoint)


def stranger(caller: Caller, otherwise: Code) -> Code:
    """The error for a candidate or leader that is not a voter. Its epoch is not adopted: otherwise every node that can
    send a request could depose our leader or get our vote. Versions before KIP-853 have no own code for this."""
    return Code.INVALID_VOTER_KEY if caller.version >= _VOTER_KEYS_SINCE else otherwise


def leader_listeners(core: Core, leader_id: NodeId | None, endpoints: Iterable[_NodeEndpoint]) -> Listeners:
    """The leader's listeners: from the `endpoints` of a response, or else from the voter set."""
    if leader_id is None:
        return ()
    named = next((at for at in endpoints if at.node_id == leader_id), None)
    if named is not None:
        return (VoterListener(core.identity.listener, named.host, named.port),)
    return core.voters.listeners(leader_id)


def settle(
    core: Core, error: Code, leader_id: NodeId | None, epoch: Epoch, listeners: Listeners, now: float
) -> bool | None:
    """Takes in leader and epoch of a response. None: the response is of our epoch and without error, so read on.

    Otherwise the response needs no further reading: True if the peer may be asked again at once, False if after a
    pause.
    """
    if error == Code.INCONSISTENT_VOTER_SET:
        raise QuorumViolation(
            f"a voter of {core.voters.ids} has another voter set: their directories were not formatted together, and "
            "would be two quorums of one cluster; format this one anew, for the voters of that quorum"
        )
    before = core.role
    if epoch < before.epoch or error == Code.UNKNOWN_LEADER_EPOCH:
        return False  # the peer does not know our epoch yet
    if epoch > max(before.epoch, LAST_ACCEPTED):
        return False
    stale = error in (Code.FENCED_LEADER_EPOCH, Code.NOT_LEADER_OR_FOLLOWER)
    forgotten = leader_id == core.local.id and core.contradicts(leader_id, epoch)
    if epoch > before.epoch or stale or forgotten:
        core.learn(leader_id, epoch, listeners, now)
        return core.role is not before
    core.check_consistent(leader_id, epoch)
    if leader_id is not None and before.leader_id is None:
        core.learn(leader_id, epoch, listeners, now)
    return None if error == Code.NONE else False


def is_our_cluster(core: Core, cluster_id: str | None) -> bool:
    """A request without a cluster id is accepted, as in Kafka."""
    return cluster_id is None or cluster_id == core.identity.cluster_id


def note_cluster_of(core: Core, peer_id: NodeId, response: Message | FetchAnswer) -> None:
    """A single voter of another cluster may be a wrong address. But a node that knows no high watermark yet, and for
    which half of the voters or more belong to another cluster, would wait for a leader for ever. It ends and says
    why."""
    error = response.error if isinstance(response, FetchAnswer) else getattr(response, "error_code", Code.NONE)
    if error != Code.INCONSISTENT_CLUSTER_ID:
        core.of_other_clusters.discard(peer_id)
        return
    if isinstance(response, VoteResponse) and core.whereabouts.is_sought(peer_id, core.places_of(peer_id)):
        return
    core.of_other_clusters.add(peer_id)
    others = [voter for voter in core.voters.ids if voter in core.of_other_clusters]
    if core.voters.ids:
        is_alone = 2 * len(others) >= len(core.voters.ids)
    else:  # it knows no voter yet, only the bootstrap addresses, and perhaps its own is among them
        own = endpoint_of(core.identity.node.listeners, core.identity.listener)
        is_alone = len(core.of_other_clusters) >= len({*core.identity.bootstrap} - {own})
    if core.high_watermark is None and is_alone:
        whose = f"the voters {others}" if others else "those at controller.quorum.bootstrap.servers"
        raise QuorumViolation(
            f"this node's directory belongs to cluster {core.identity.cluster_id}, and {whose} belong to another one; "
            "compare cluster.id in their meta.properties and in this node's, and the addresses of the quorum's voters"
        )


def is_led_by_itself_alone(core: Core) -> bool:
    """The only voter has no peers. A node that claims to be one was formatted separately, with the same cluster id, and
    following it would cut off committed records. If the voter set grows, this node knows the new voter before it can
    lead."""
    return core.voters.is_only_voter(core.local)
