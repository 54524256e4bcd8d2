"""The quorum as one object: inputs go in, and each returns what is to be done (`Ready`)."""

from __future__ import annotations

from highwater.errors import Code
from highwater.model import Epoch, NodeId, Offset
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
from highwater.quorum.standing import note_cluster_of, settle
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
    """One replica of the metadata log, voter or observer. Times are seconds of one monotonic clock."""

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
        """`voters`: the last set in snapshot or log; `voters_offset`: where, -1 for the bootstrap checkpoint."""
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
        """Whom it has given its vote of this epoch."""
        return self._core.role.voted

    @property
    def leader_id(self) -> NodeId | None:
        """None as well while this node has resigned."""
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
        """The snapshot that is wanted now. The driver drops any other: since its role or leader changed, the machine
        fetches records again, and a log that moves under such a fetch would take them at the wrong offset."""
        role = self._core.role
        return role.fetching_snapshot if isinstance(role, Follower) else None

    @property
    def may_stop(self) -> bool:
        """Whether nobody depends on this node any more: somebody else leads, or nobody else could."""
        core = self._core
        has_other_leader = core.role.leader_id not in (None, core.local.id)
        return not core.is_voter or core.voters.is_only_voter(core.local) or has_other_leader

    def next_deadline(self) -> float | None:
        """When `tick` is due; to be asked after every input."""
        return next_deadline(self._core)

    def describe(
        self, request: DescribeQuorumRequest, version: int, now: float, wall_ms: int
    ) -> DescribeQuorumResponse:
        return describe_quorum(self._core, request, version, now, wall_ms)

    # Inputs: time

    def start(self, now: float) -> Ready:
        """To be called once, first. The only voter leads at once: there is nobody to wait for."""
        core = self._core
        if core.voters.is_only_voter(core.local) and not isinstance(core.role, Candidate):
            core.become_prospective(now)
        return self._done(now)

    def tick(self, now: float) -> Ready:
        return self._done(now)

    # Inputs: requests of peers

    def requested(self, request: Message | FollowerFetch, caller: Caller, now: float) -> Ready:
        """A request of a peer; the answer is in the Ready, to be sent after what stands before it there."""
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
        """Whether this node may serve a FetchSnapshot; a voter that asks for one follows, so it counts as heard."""
        core = self._core
        error = check_leader(core, leader_epoch)
        if error == Code.NONE and isinstance(core.role, Leader):
            core.role.heard_from(replica, now)
        return error

    # Inputs: outcomes of our requests

    def answered(self, correlation: int, response: Message | FetchAnswer, now: float) -> Ready:
        """An answer to a request. One that is awaited no more is ignored."""
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
        """The request could not be sent, its connection broke, or the answer was unreadable."""
        peer_id = self._core.links.sender_of(correlation)
        if peer_id is not None:
            self._core.links.failed(peer_id, now)
        return self._done(now)

    def leader_is_dead(self, leader_id: NodeId, epoch: Epoch, now: float) -> Ready:
        """Proof that this leader's process is gone (refused twice), not a hint: grant pre-votes, and ask for one."""
        role = self._core.role
        if isinstance(role, Follower) and (role.leader_id, role.epoch) == (leader_id, epoch):
            role.leader_died(self._core.prompt_deadline(now))
        return self._done(now)

    # Inputs: the log

    def log_flushed(self, now: float) -> Ready:
        """The log's durable end has moved, by an append that was synced or by a truncation."""
        core = self._core
        if core.log.written_end == core.log.durable_end:
            core.log_busy = False
        role = core.role
        if isinstance(role, Leader):
            core.effects.wake_fetches = True
            if role.flushed(core.log.durable_end):
                commit(core, role)
        elif isinstance(role, Follower) and not core.log_busy:
            apply_leader_high_watermark(core, role)
        return self._done(now)

    def records_rejected(self, now: float) -> Ready:
        """The records of the last Ready's append failed their checks and were dropped: fetch them again, later."""
        core = self._core
        core.log_busy = core.log.written_end != core.log.durable_end
        role = core.role
        if isinstance(role, Follower):
            role.leader_high_watermark = None
            core.links.pause(role.leader_id, now)
        return self._done(now)

    def epoch_not_begun(self, epoch: Epoch, now: float) -> Ready:
        """The last Ready's epoch start could not be written: this leader decides nothing, and another may lead."""
        self._core.log_busy = self._core.log.written_end != self._core.log.durable_end
        return self.resign(epoch, now)

    def snapshot_answered(
        self, error: Code, leader_id: NodeId | None, leader_epoch: Epoch, listeners: Listeners, now: float
    ) -> Ready:
        """An answer to the driver's own FetchSnapshot: it proves the leader alive, or tells of another one."""
        core = self._core
        settled = settle(core, error, leader_id, leader_epoch, listeners, now)
        if settled is None and isinstance(core.role, Follower):
            core.role.leader_answered(now + core.timing.fetch_timeout)
        return self._done(now)

    def snapshot_done(self, now: float) -> Ready:
        """The snapshot asked for was installed or given up: fetch on.

        Installed is one that is ahead of the log in the order of `LogPosition`, epoch first: the log then is empty and
        begins at its end, even if it was longer before, since those records diverge.
        """
        role = self._core.role
        if isinstance(role, Follower):
            role.fetching_snapshot = None
        return self._done(now)

    def voters_changed(self, voters: VoterSet, offset: Offset, now: float) -> Ready:
        """The log's last voter set is another one, by an append or a truncation."""
        core = self._core
        core.voters, core.voters_offset = voters, offset
        role = core.role
        if isinstance(role, Leader):
            role.set_voters(voters)
            if role.flushed(core.log.durable_end):
                commit(core, role)
        elif isinstance(role, Prospective | Candidate) and not core.is_voter:
            core.become_unattached(role.epoch + 1, now)
        return self._done(now)

    # Inputs: leaving

    def resign(self, epoch: Epoch, now: float) -> Ready:
        """Give up leadership of `epoch`; nothing happens if this node leads it no longer."""
        role = self._core.role
        if isinstance(role, Leader) and role.epoch == epoch:
            self._core.become_resigned(role, now)
        return self._done(now)

    def stop(self, now: float) -> Ready:
        """Begin to leave: resign if leading, and stand for no election; then wait for `may_stop`, for a while."""
        self._core.stopping = True
        return self._done(now)

    def _done(self, now: float) -> Ready:
        take_turn(self._core, now)
        return self._core.take_effects()
