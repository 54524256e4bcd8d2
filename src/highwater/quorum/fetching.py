"""Fetch of the metadata log: it replicates, acknowledges, detects divergence and discovers the leader."""

from __future__ import annotations

from highwater.errors import Code
from highwater.model import Epoch, NodeId, Offset
from highwater.quorum.answer_head import is_our_cluster, settle
from highwater.quorum.core import Core
from highwater.quorum.follower import Follower
from highwater.quorum.leader import Leader
from highwater.quorum.log_view import VALID, judge_fetch, truncation_point
from highwater.quorum.messages import Caller
from highwater.quorum.ready import FetchAnswer, FollowerFetch, Peer
from highwater.quorum.unattached import Unattached
from highwater.quorum.voters import VoterListener, endpoint_of

# The replica's side


def fetch_next(core: Core, role: Follower | Unattached, now: float) -> None:
    """Sends a fetch to the leader, or to any voter while the leader is unknown or does not answer. There is one fetch
    at a time.

    No fetch is sent while the log has unsynced records or waits for a truncation: its offset is an acknowledgement.
    """
    log = core.log
    if core.log_busy or core.effects.touches_log or log.written_end != log.durable_end:
        return
    if core.links.any_in_flight() or (isinstance(role, Follower) and role.fetching_snapshot is not None):
        return
    peer = _whom_to_ask(core, role)
    if peer is not None:
        known = -1 if core.high_watermark is None else core.high_watermark
        cluster_id = core.identity.cluster_id
        core.send(peer, FollowerFetch(core.local, role.epoch, log.durable_end, log.last_epoch, known, cluster_id), now)


def _whom_to_ask(core: Core, role: Follower | Unattached) -> Peer | None:
    if isinstance(role, Follower):
        leader = Peer(role.leader_id, endpoint_of(role.leader_listeners, core.identity.listener))
        if core.links.is_ready(leader):
            return leader
    voters = [core.peer(voter) for voter in core.voters.ids if voter != core.local.id]
    peers = [*voters, *(Peer(NodeId(-2 - index), at) for index, at in enumerate(core.strangers()))]
    ready = [peer for peer in peers if core.links.is_ready(peer)]
    return ready[int(core.random.random() * len(ready))] if ready else None


def take_fetch(core: Core, answer: FetchAnswer, now: float) -> bool:
    listeners = core.voters.listeners(answer.leader_id) if answer.leader_id is not None else ()
    if answer.leader_endpoint is not None:
        listeners = (VoterListener(core.identity.listener, *answer.leader_endpoint),)
    settled = settle(core, answer.error, answer.leader_id, answer.leader_epoch, listeners, now)
    follower = core.role
    if settled is not None or not isinstance(follower, Follower) or follower.leader_id != answer.leader_id:
        return settled is True
    if answer.diverging is not None:
        core.truncate(truncation_point(core.log, answer.diverging))
    elif answer.snapshot is not None:
        core.check_not_committed(answer.snapshot.offset)
        follower.fetching_snapshot = core.effects.fetch_snapshot = answer.snapshot
    else:
        follower.leader_high_watermark = None if answer.high_watermark < 0 else answer.high_watermark
        if len(answer.records) > 0:
            core.effects.append = answer.records
        else:
            apply_leader_high_watermark(core, follower)
    follower.leader_answered(now + core.timing.fetch_timeout)
    return True


def apply_leader_high_watermark(core: Core, follower: Follower) -> None:
    """A follower moves its high watermark to the leader's, but not beyond its own durable end."""
    high_watermark, follower.leader_high_watermark = follower.leader_high_watermark, None
    if high_watermark is not None:
        core.advance_high_watermark(min(high_watermark, core.log.durable_end))


# The leader's side


def answer_fetch(core: Core, fetch: FollowerFetch, caller: Caller, now: float) -> FetchAnswer:
    """INCONSISTENT_CLUSTER_ID belongs to the top level of the response, every other error to the partition."""
    if not is_our_cluster(core, fetch.cluster_id):
        return _refuse(core, Code.INCONSISTENT_CLUSTER_ID, caller)
    if min(fetch.offset, fetch.last_fetched_epoch) < 0 or fetch.last_fetched_epoch > fetch.leader_epoch:
        return _refuse(core, Code.INVALID_REQUEST, caller)
    leader = core.role
    error = check_leader(core, fetch.leader_epoch)
    if error != Code.NONE or not isinstance(leader, Leader):
        return _refuse(core, error, caller)
    if fetch.replica.id == core.local.id:
        return _refuse(core, Code.INVALID_REQUEST, caller)
    verdict = judge_fetch(core.log, fetch.offset, fetch.last_fetched_epoch)
    counts = verdict == VALID and fetch.replica.id >= 0 and not fetch.waited
    if counts and leader.fetched(fetch.replica, fetch.offset, now):
        commit(core, leader)
    known: Offset = -1 if leader.high_watermark is None else leader.high_watermark
    return FetchAnswer(
        Code.NONE,
        core.local.id,
        leader.epoch,
        known,
        core.log.start_offset,
        verdict.diverging,
        verdict.snapshot,
        endpoint_of(core.identity.node.listeners, caller.listener),
        can_wait=verdict == VALID and fetch.offset >= core.log.durable_end and known <= fetch.high_watermark,
    )


def check_leader(core: Core, epoch: Epoch) -> Code:
    """A request of another epoch is refused, and it does not count as an acknowledgement (KIP-320)."""
    if epoch < core.role.epoch:
        return Code.FENCED_LEADER_EPOCH
    if epoch > core.role.epoch:
        return Code.UNKNOWN_LEADER_EPOCH
    if not isinstance(core.role, Leader):
        return Code.NOT_LEADER_OR_FOLLOWER
    return Code.BROKER_NOT_AVAILABLE if core.stopping else Code.NONE


def commit(core: Core, leader: Leader) -> None:
    if leader.high_watermark is not None:
        core.advance_high_watermark(leader.high_watermark)
        core.effects.wake_fetches = True


def _refuse(core: Core, error: Code, caller: Caller) -> FetchAnswer:
    role = core.role
    return FetchAnswer(
        error, role.leader_id, role.epoch, leader_endpoint=endpoint_of(role.leader_listeners, caller.listener)
    )
