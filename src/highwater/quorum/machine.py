"""The quorum as one object: each input returns a `Ready`, which says what the driver has to do."""

from __future__ import annotations

from highwater.errors import Code
from highwater.model import Epoch, NodeId, Offset
from highwater.quorum.answer_head import note_cluster_of, settle
from highwater.quorum.candidate import Candidate
from highwater.quorum.core import Core
from highwater.quorum.description import describe_quorum
from highwater.quorum.election_state import ElectionState
from highwater.quorum.epochs import answer_begin, answer_end, take_begin, take_end
from highwater.quorum.fetching import answer_fetch, apply_leader_high_watermark, check_leader, commit, take_fetch
from highwater.quorum.follower import Follower
from highwater.quorum.leader import Leader
from highwater.quorum.log_view import LogPosition, LogView
from highwater.quorum.messages import Caller
from highwater.quorum.prospective import Prospective
from highwater.quorum.ready import FetchAnswer, FollowerFetch, Ready
from highwater.quorum.settings import Identity, Randomness, Timing
from highwater.quorum.transitions import Role
from highwater.quorum.turn import next_deadline, take_turn
from highwater.quorum.voters import Listeners, ReplicaKey, VoterSet
from highwater.quorum.voting import answer_vote, take_vote
from highwater.wire.codec import Message
from highwater.wire.messages.begin_quorum_epoch_request import BeginQuorumEpochRequest
from highwater.wire.messages.begin_quorum_epoch_response import BeginQuorumEpochResponse
from highwater.wire.messages.describe_quorum_request import DescribeQuorumRequest
from highwater.wire.messages.describe_quorum_response import DescribeQuorumResponse
from highwater.wire.messages.end_quorum_epoch_request import EndQuorumEpochRequest
from highwater.wire.messages.end_quorum_epoch_response import EndQuorumEpochResponse
from highwater.wire.messages.vote_request import VoteRequest
from highwater.wire.messages.vote_response import VoteResponse


class Quorum:
    """One replica of the metadata log, a voter or an observer. Times are seconds of one monotonic clock."""

    def __init__(
        self,
        identity: Identity,
        voters: VoterSet,
        log: LogView,
        random: Randomness,
        stored: ElectionState | None,
        now: float,
        *,
        voters_offset: Offset,
        timing: Timing | None = None,
    ) -> None:
        """`voters` is the last set in the snapshot or the log, and `voters_offset` is its offset; -1 for the bootstrap
        checkpoint."""
        self._core = Core(identity, voters, voters_offset, log, timing or Timing(), random, stored, now)

    # What it knows

    @property
    def role(self) -> Role:
        return self._core.role.role

    @property
    def epoch(self) -> Epoch:
        return self._core.role.epoch

    @property
    def voted(self) -> ReplicaKey | None:
        """The candidate that got this replica's vote in this epoch."""
        return self._core.role.voted

    @property
    def leader_id(self) -> NodeId | None:
        """The leader of this epoch; None if it is unknown, or if this node led the epoch and has resigned."""
        return None if self.role == Role.RESIGNED else self._core.role.leader_id

    @property
    def leader_listeners(self) -> Listeners:
        return self._core.role.leader_listeners

    @property
    def high_watermark(self) -> Offset | None:
        return self._core.high_watermark

    @property
    def voters(self) -> VoterSet:
        return self._core.voters

    @property
    def fetching_snapshot(self) -> LogPosition | None:
        """The snapshot that is wanted now. The driver drops any other one: after a change of role or leader the machine
        fetches records again, and a snapshot that replaced the log then would put them at the wrong offset."""
        role = self._core.role
        return role.fetching_snapshot if isinstance(role, Follower) else None

    @property
    def may_stop(self) -> bool:
        """Whether this node may stop: it is not a voter, or another node leads, or no other node could lead."""
        core = self._core
        has_other_leader = core.role.leader_id not in (None, core.local.id)
        return not core.is_voter or core.voters.is_only_voter(core.local) or has_other_leader

    def next_deadline(self) -> float | None:
        """When `tick` is due. Ask again after every input."""
        return next_deadline(self._core)

    def describe(
        self, request: DescribeQuorumRequest, version: int, now: float, wall_ms: int
    ) -> DescribeQuorumResponse:
        return describe_quorum(self._core, request, version, now, wall_ms)

    # Inputs: time

    def start(self, now: float) -> Ready:
        """The first input; call it once. The only voter becomes leader at once, because it need not wait for others."""
        core = self._core
        if core.voters.is_only_voter(core.local) and not isinstance(core.role, Candidate):
            core.become_prospective(now)
        return self._done(now)

    def tick(self, now: float) -> Ready:
        return self._done(now)

    # Inputs: requests of peers

    def requested(self, request: Message | FollowerFetch, caller: Caller, now: float) -> Ready:
        """A request of a peer. The response is in the `Ready`, and is sent after the steps that come before it
        there."""
        core = self._core
        answer: Message | FetchAnswer
        match request:
            case FollowerFetch():
                answer = answer_fetch(core, request, caller, now)
            case VoteRequest():
                answer = answer_vote(core, request, caller, now)
            case BeginQuorumEpochRequest():
                answer = answer_begin(core, request, caller, now)
            case EndQuorumEpochRequest():
                answer = answer_end(core, request, caller, now)
            case _:
                raise TypeError(f"not a request of the quorum: {type(request).__name__}")
        core.effects.answer = answer
        return self._done(now)

    def snapshot_requested(self, replica: ReplicaKey, leader_epoch: Epoch, now: float) -> Code:
        """Whether this node may serve a FetchSnapshot. A voter that asks for one follows us, so it counts for
        check-quorum."""
        core = self._core
        error = check_leader(core, leader_epoch)
        if error == Code.NONE and isinstance(core.role, Leader):
            core.role.heard_from(replica, now)
        return error

    # Inputs: outcomes of our requests

    def answered(self, correlation: int, response: Message | FetchAnswer, now: float) -> Ready:
        """A response to one of our requests. A response that is no longer expected is ignored."""
        core = self._core
        peer_id = core.links.sender_of(correlation)
        if peer_id is not None:
            note_cluster_of(core, peer_id, response)
            if self._take(peer_id, response, now):
                core.links.succeeded(peer_id)
            else:
                core.links.failed(peer_id, now)
        return self._done(now)

    def _take(self, peer_id: NodeId, response: Message | FetchAnswer, now: float) -> bool:
        core = self._core
        match response:
            case FetchAnswer():
                return take_fetch(core, response, now)
            case VoteResponse():
                return take_vote(core, peer_id, response, now)
            case BeginQuorumEpochResponse():
                return take_begin(core, response, now)
            case EndQuorumEpochResponse():
                return take_end(core, peer_id, response, now)
            case _:
                raise TypeError(f"not a response of the quorum: {type(response).__name__}")

    def failed(self, correlation: int, now: float) -> Ready:
        """The request could not be sent, its connection broke, or the response was unreadable."""
        peer_id = self._core.links.sender_of(correlation)
        if peer_id is not None:
            self._core.links.failed(peer_id, now)
        return self._done(now)

    def leader_is_dead(self, leader_id: NodeId, epoch: Epoch, now: float) -> Ready:
        """The leader's process is proven to be dead (two refused connections). Grant pre-votes, and ask for one."""
        role = self._core.role
        if isinstance(role, Follower) and (role.leader_id, role.epoch) == (leader_id, epoch):
            role.leader_died(self._core.prompt_deadline(now))
        return self._done(now)

    # Inputs: the log

    def wrote(self, now: float) -> Ready:
        """This node has appended to the log as a leader. It counts when it is synced: see `log_flushed`."""
        core = self._core
        if isinstance(core.role, Leader):
            core.role.wrote(core.log.written_end, now)
        return self._done(now)

    def log_flushed(self, now: float) -> Ready:
        """The durable end of the log has moved, because an append was synced or the log was cut."""
        core = self._core
        if core.log.written_end == core.log.durable_end:
            core.log_busy = False
        role = core.role
        if isinstance(role, Leader):
            core.effects.wake_fetches = True
            if role.flushed(core.log.durable_end, now):
                commit(core, role)
        elif isinstance(role, Follower) and not core.log_busy:
            apply_leader_high_watermark(core, role)
        return self._done(now)

    def records_rejected(self, now: float) -> Ready:
        """The records of the last `Ready.append` failed their checks and were dropped. Fetch them again later."""
        core = self._core
        core.log_busy = core.log.written_end != core.log.durable_end
        role = core.role
        if isinstance(role, Follower):
            role.leader_high_watermark = None
            core.links.pause(role.leader_id, now)
        return self._done(now)

    def epoch_not_begun(self, epoch: Epoch, now: float) -> Ready:
        """The last `Ready.epoch_start` could not be written. This leader resigns, so that another one can lead."""
        self._core.log_busy = self._core.log.written_end != self._core.log.durable_end
        return self.resign(epoch, now)

    def snapshot_answered(
        self, error: Code, leader_id: NodeId | None, leader_epoch: Epoch, listeners: Listeners, now: float
    ) -> Ready:
        """A response to the driver's own FetchSnapshot. It proves that the leader is alive, or names another one."""
        core = self._core
        settled = settle(core, error, leader_id, leader_epoch, listeners, now)
        if settled is None and isinstance(core.role, Follower):
            core.role.leader_answered(now + core.timing.fetch_timeout)
        return self._done(now)

    def snapshot_failed(self, now: float) -> Ready:
        """The snapshot was not installed: it could not be fetched or written, or it is not ahead of the log. Continue
        with fetches, after a pause."""
        role = self._core.role
        if isinstance(role, Follower):
            self._core.links.pause(role.leader_id, now)
        return self.snapshot_done(now)

    def snapshot_done(self, now: float) -> Ready:
        """The snapshot was installed: continue with fetches.

        A snapshot is installed only if it is ahead of the log in the order of `LogPosition`, epoch first. The log is
        then empty and begins at the snapshot's end, even if it was longer before: its records diverged.
        """
        role = self._core.role
        if isinstance(role, Follower):
            role.fetching_snapshot = None
        return self._done(now)

    def voters_changed(self, voters: VoterSet, offset: Offset, now: float) -> Ready:
        """An append or a truncation has changed the last voter set in the log."""
        core = self._core
        core.voters, core.voters_offset = voters, offset
        role = core.role
        if isinstance(role, Leader):
            role.set_voters(voters)
            if role.flushed(core.log.durable_end, now):
                commit(core, role)
        elif isinstance(role, Prospective | Candidate) and not core.is_voter:
            core.become_unattached(role.epoch + 1, now)
        return self._done(now)

    # Inputs: leaving

    def resign(self, epoch: Epoch, now: float) -> Ready:
        """Resigns as leader of `epoch`. Nothing happens if this node does not lead that epoch."""
        role = self._core.role
        if isinstance(role, Leader) and role.epoch == epoch:
            self._core.become_resigned(role, now)
        return self._done(now)

    def stop(self, now: float) -> Ready:
        """Begins to stop: resigns if this node leads, and takes part in no further election. The driver then waits for
        `may_stop`, for a while."""
        self._core.stopping = True
        return self._done(now)

    def _done(self, now: float) -> Ready:
        take_turn(self._core, now)
        return self._core.take_effects()
