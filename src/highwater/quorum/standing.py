"""What every answer of the quorum's APIs tells of leader and epoch, given and taken."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from highwater.errors import Code
from highwater.model import Epoch, NodeId
from highwater.quorum.core import LAST_TOLD, Core
from highwater.quorum.messages import Caller, Standing
from highwater.quorum.ready import FetchAnswer
from highwater.quorum.violation import QuorumViolation
from highwater.quorum.voters import Listener, Listeners, endpoint_of
from highwater.wire.codec import Message

_ENDPOINTS_SINCE = 1
"""The version of Vote, BeginQuorumEpoch and EndQuorumEpoch from which answers tell where the leader is (KIP-853)."""

_VOTER_KEYS_SINCE = 1


class _NodeEndpoint(Protocol):
    @property
    def node_id(self) -> int: ...

    @property
    def host(self) -> str: ...

    @property
    def port(self) -> int: ...


def standing_of(core: Core, error: Code, caller: Caller) -> Standing:
    role = core.role
    knows_endpoints = caller.version >= _ENDPOINTS_SINCE
    endpoint = endpoint_of(role.leader_listeners, caller.listener) if knows_endpoints else None
    return Standing(error, role.leader_id, role.epoch, endpoint)


def stranger(caller: Caller, otherwise: Code) -> Code:
    """What a candidate or leader is told that is no voter. Its epoch is not ours: whoever can send a request could end
    our leader's, or have our vote. The versions before KIP-853 know no code of their own for it."""
    return Code.INVALID_VOTER_KEY if caller.version >= _VOTER_KEYS_SINCE else otherwise


def leader_listeners(core: Core, leader_id: NodeId | None, told: Iterable[_NodeEndpoint]) -> Listeners:
    """Where a leader is by an answer, or by the voter set if the answer does not say."""
    if leader_id is None:
        return ()
    named = next((at for at in told if at.node_id == leader_id), None)
    if named is not None:
        return (Listener(core.identity.listener, named.host, named.port),)
    return core.voters.listeners(leader_id)


def settle(
    core: Core, error: Code, leader_id: NodeId | None, epoch: Epoch, listeners: Listeners, now: float
) -> bool | None:
    """Take in leader and epoch of an answer. None: it is of our epoch and without error, so read on.

    Otherwise the answer is done with: True if the peer may be asked again at once, False if after a pause.
    """
    if error == Code.INCONSISTENT_VOTER_SET:
        raise QuorumViolation(
            f"a voter of {core.voters.ids} has another voter set: their directories were not formatted together, and "
            "would be two quorums of one cluster; format this one anew, for the voters of that quorum"
        )
    before = core.role
    if epoch < before.epoch or error == Code.UNKNOWN_LEADER_EPOCH:
        return False  # it has yet to hear of our epoch
    if epoch > max(before.epoch, LAST_TOLD):
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
    """A request without cluster id is let through, as in Kafka."""
    return cluster_id is None or cluster_id == core.identity.cluster_id


def note_cluster_of(core: Core, peer_id: NodeId, response: Message | FetchAnswer) -> None:
    """One voter of another cluster may be a wrong address. A node that has heard of nothing committed yet, and whose
    own voters are no majority, would wait for a leader for ever: it ends instead, and says why."""
    error = response.error if isinstance(response, FetchAnswer) else getattr(response, "error_code", Code.NONE)
    if error != Code.INCONSISTENT_CLUSTER_ID:
        core.of_other_clusters.discard(peer_id)
        return
    core.of_other_clusters.add(peer_id)
    others = [voter for voter in core.voters.ids if voter in core.of_other_clusters]
    if core.voters.ids:
        is_alone = 2 * len(others) >= len(core.voters.ids)
    else:  # it has heard of no voter yet, and knows but the addresses that it begins with, and perhaps its own
        own = endpoint_of(core.identity.node.listeners, core.identity.listener)
        is_alone = len(core.of_other_clusters) >= len({*core.identity.bootstrap} - {own})
    if core.high_watermark is None and is_alone:
        whose = f"the voters {others}" if others else "those at controller.quorum.bootstrap.servers"
        raise QuorumViolation(
            f"this node's directory belongs to cluster {core.identity.cluster_id}, and {whose} belong to another one; "
            "compare cluster.id in their meta.properties and in this node's, and the addresses of the quorum's voters"
        )


def is_led_by_itself_alone(core: Core) -> bool:
    """The only voter has no peers: whoever calls itself one was formatted apart, with the same cluster id. Following
    it would cut off what is committed. A set that grows names the new voter here before that one can lead."""
    return core.voters.is_only_voter(core.local)
