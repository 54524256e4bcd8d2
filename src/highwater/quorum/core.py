"""The state of a replica, and its moves from role to role.

`voting`, `epochs` and `fetching` handle the requests and responses of one API each, and `turn` acts on timeouts. All of
them work on this object. `Quorum` is the entrance to them.
"""

from __future__ import annotations

from highwater.model import Endpoint, Epoch, NodeId, Offset
from highwater.quorum.candidate import Candidate
from highwater.quorum.election_state import LAST_EPOCH, ElectionState
from highwater.quorum.follower import Follower
from highwater.quorum.leader import Leader
from highwater.quorum.links import Links
from highwater.quorum.log_view import LogView
from highwater.quorum.messages import epoch_start
from highwater.quorum.prospective import Prospective
from highwater.quorum.ready import FollowerFetch, Leadership, Peer, Ready, Request
from highwater.quorum.resigned import Resigned
from highwater.quorum.role import RoleState
from highwater.quorum.settings import Identity, Randomness, Timing
from highwater.quorum.transitions import check_initial, check_transition
from highwater.quorum.unattached import Unattached
from highwater.quorum.violation import QuorumViolation
from highwater.quorum.voters import Listeners, ReplicaKey, VoterSet, endpoint_of
from highwater.quorum.votes import Tally
from highwater.quorum.whereabouts import Places, Whereabouts
from highwater.wire.codec import Message

LONGEST_LEAP = 128
"""No single request may raise the epoch by more than this fraction of the epochs that are left. In a new cluster that
is 16 million epochs, an election every second for half a year. An epoch is an int32: without this bound a single
request in a voter's name could use up all epochs and end all elections."""
LAST_ACCEPTED = LAST_EPOCH - 2
"""An epoch above this is not accepted from a peer. A voter that led this epoch and has forgotten it needs two more: it
moves to the next epoch, and becomes a candidate in the one after that."""


class Core:
    def __init__(
        self,
        identity: Identity,
        voters: VoterSet,
        voters_offset: Offset,
        log: LogView,
        timing: Timing,
        random: Randomness,
        stored: ElectionState | None,
        now: float,
    ) -> None:
        self.identity = identity
        self.local = identity.node.key
        self.voters = voters
        self.voters_offset = voters_offset
        self.log = log
        self.timing = timing
        self.random = random
        self.links = Links(timing)
        self.whereabouts = Whereabouts()
        self.high_watermark: Offset | None = None
        """The highest high watermark that this node has known since it started, in any role."""
        self.log_busy = False
        """A change of the log that this machine asked for is not durable yet."""
        self.stopping = False
        self.of_other_clusters: set[NodeId] = set()
        """Peers that refused our last request because they belong to another cluster."""
        self.effects = Ready()
        self._persisted = stored
        self._announced: tuple[NodeId | None, Epoch] | None = None
        self.role: RoleState = self._initial_role(stored or ElectionState(), now)
        check_initial(self.role.role)

    def _initial_role(self, stored: ElectionState, now: float) -> RoleState:
        """The role in which the replica stopped; a leader becomes Resigned: see `INITIAL_ROLES`."""
        timeout = self.election_deadline(now)
        if stored.epoch < self.log.last_epoch:  # the file was lost or is older than the log: its vote is void
            return Unattached(self.log.last_epoch, timeout)
        if stored.leader_id == self.local.id:
            others = {voter for voter in self.voters.ids if voter != self.local.id}
            return Resigned(stored.epoch, self.local.id, self.identity.node.listeners, timeout, others)
        if stored.leader_id is not None:
            listeners = self.voters.listeners(stored.leader_id)
            if not listeners:
                return Unattached(stored.epoch, timeout, stored.leader_id, stored.voted)
            fetch_deadline = now + self.timing.fetch_timeout
            return Follower(stored.epoch, stored.leader_id, listeners, fetch_deadline, stored.voted)
        if stored.voted is not None and stored.voted.names(self.local) and self.is_voter:
            return Candidate(stored.epoch, timeout, Tally(self.voters, self.local.id), self.local)
        return Unattached(stored.epoch, self.prompt_deadline(now), voted=stored.voted)

    @property
    def is_voter(self) -> bool:
        return self.voters.is_voter(self.local)

    def election_deadline(self, now: float) -> float:
        """Uniform in [T, 2T), so that voters seldom become candidates at the same time."""
        return now + self.timing.election_timeout * (1 + self.random.random())

    def prompt_deadline(self, now: float) -> float:
        """A short random wait, so that voters do not act at the same time."""
        return now + self.timing.prompt_election * self.random.random()

    # Transitions

    def _become(self, role: RoleState) -> None:
        check_transition(self.role.role, self.role.epoch, role.role, role.epoch, voter=self.is_voter)
        if role.epoch > LAST_EPOCH:
            raise QuorumViolation(f"epoch {self.role.epoch} was the last one: an epoch is an int32")
        if isinstance(self.role, Leader):
            self.effects.wake_fetches = True  # replicas with waiting fetches must look for another leader
        self.role = role
        self.links.reset()

    def become_unattached(self, epoch: Epoch, now: float, leader_id: NodeId | None = None) -> None:
        """A running election timeout is kept, so that a stream of new epochs cannot keep this voter from an
        election."""
        before = self.role
        keeps_timer = isinstance(before, Unattached | Candidate | Resigned) or (
            isinstance(before, Prospective) and not before.tally.is_rejected
        )
        deadline = before.deadline() if keeps_timer else self.election_deadline(now)
        voted = before.voted if epoch == before.epoch else None
        self._become(Unattached(epoch, deadline, leader_id, voted))

    def vote_for(self, candidate: ReplicaKey, now: float) -> None:
        """Gives a binding vote. The candidate may win, so our own election timeout starts anew."""
        deadline = self.election_deadline(now)
        before = self.role
        if before.voted is not None:
            raise QuorumViolation(f"voted for {before.voted} in epoch {before.epoch}, and now for {candidate}")
        if isinstance(before, Prospective):
            self._become(
                Prospective(before.epoch, deadline, before.tally, before.leader_id, before.leader_listeners, candidate)
            )
        else:
            self._become(Unattached(before.epoch, deadline, before.leader_id, candidate))

    def become_prospective(self, now: float) -> None:
        before, tally = self.role, Tally(self.voters, self.local.id)
        deadline = self.election_deadline(now)
        self._become(
            Prospective(before.epoch, deadline, tally, before.leader_id, before.leader_listeners, before.voted)
        )

    def become_candidate(self, now: float) -> None:
        deadline = self.election_deadline(now)
        self._become(Candidate(self.role.epoch + 1, deadline, Tally(self.voters, self.local.id), self.local))

    def become_leader(self, tally: Tally, now: float) -> None:
        if not tally.is_granted:
            raise QuorumViolation("a leader needs the votes of a majority")
        leader = Leader(self.identity.node, self.role.epoch, self.log.written_end, self.voters, self.timing, now)
        self._become(leader)
        leader.flushed(self.log.durable_end, now)
        self.effects.epoch_start = epoch_start(leader, self.voters, self.voters_offset, tally.granting)

    def become_follower(self, epoch: Epoch, leader_id: NodeId, listeners: Listeners, now: float) -> None:
        voted = self.role.voted if epoch == self.role.epoch else None
        self._become(Follower(epoch, leader_id, listeners, now + self.timing.fetch_timeout, voted))

    def become_resigned(self, leader: Leader, now: float) -> None:
        successors, others = leader.successors(), {voter for voter in leader.voters if voter != self.local.id}
        listeners, deadline = self.identity.node.listeners, self.election_deadline(now)
        self._become(Resigned(leader.epoch, self.local.id, listeners, deadline, others, successors))

    # Leader and epoch, as peers report them

    def is_in_reach(self, epoch: Epoch) -> bool:
        """Whether a request with this epoch is accepted. The response of a voter that we asked is accepted with any
        epoch: so two voters with very different epochs can find together again."""
        ours = self.role.epoch
        return epoch <= max(ours, min(ours + max((LAST_EPOCH - ours) // LONGEST_LEAP, 1), LAST_ACCEPTED))

    def contradicts(self, leader_id: NodeId | None, epoch: Epoch) -> bool:
        """Whether a peer names another leader for our epoch, or names this node for an epoch that it does not lead."""
        if leader_id == self.local.id:
            return not (epoch == self.role.epoch and isinstance(self.role, Leader | Resigned))
        return (
            epoch == self.role.epoch
            and None not in (leader_id, self.role.leader_id)
            and leader_id != self.role.leader_id
        )

    def check_consistent(self, leader_id: NodeId | None, epoch: Epoch) -> None:
        """Raises QuorumViolation if a peer's response names a second leader for our epoch."""
        if self.contradicts(leader_id, epoch):
            raise QuorumViolation(
                f"a peer names {leader_id} as leader of epoch {epoch}, but this node knows {self.role.leader_id}"
            )

    def learn(self, leader_id: NodeId | None, epoch: Epoch, listeners: Listeners, now: float) -> None:
        """Moves to a later epoch, or follows the leader of this one. An earlier epoch is ignored."""
        if epoch < self.role.epoch:
            return
        if leader_id == self.local.id and self.contradicts(leader_id, epoch):
            # This node led that epoch and lost its disk since. It must not vote in that epoch, and cannot follow
            # itself.
            self.become_unattached(epoch + 1, now)
            return
        self.check_consistent(leader_id, epoch)
        if leader_id is None or leader_id == self.local.id:
            if epoch > self.role.epoch:
                self.become_unattached(epoch, now)
        elif not listeners:
            if epoch > self.role.epoch:
                self.become_unattached(epoch, now, leader_id)
        elif epoch > self.role.epoch or self.role.leader_id is None or len(listeners) > len(self.role.leader_listeners):
            self.become_follower(epoch, leader_id, listeners, now)
        elif isinstance(self.role, Follower) and not self.role.has_fetched:
            # The address that this node knows may be older than the epoch: the leader writes its new one into the voter
            # set when it is elected. Until the leader has answered, the last address that a peer names counts.
            self.role.leader_listeners = listeners

    # Effects

    def send(self, peer: Peer, message: Message | FollowerFetch, now: float) -> None:
        self.effects.requests.append(Request(peer, self.links.send(peer, now), message))

    def peer(self, voter: NodeId) -> Peer:
        return Peer(voter, endpoint_of(self.voters.listeners(voter), self.identity.listener))

    def strangers(self) -> list[Endpoint]:
        """The bootstrap servers that are neither the address of another voter, as far as is known, nor this node's."""
        known = {self.peer(voter).endpoint for voter in self.voters.ids if voter != self.local.id}
        known.add(endpoint_of(self.identity.node.listeners, self.identity.listener))
        return [at for at in self.identity.bootstrap if at not in known]

    def places_of(self, voter: NodeId) -> Places:
        return [self.peer(voter).endpoint, *self.strangers()]

    def advance_high_watermark(self, offset: Offset) -> None:
        if self.high_watermark is not None and offset < self.high_watermark:
            raise QuorumViolation(f"the high watermark would go back from {self.high_watermark} to {offset}")
        if offset != self.high_watermark:
            self.high_watermark = self.effects.high_watermark = offset

    def check_not_committed(self, offset: Offset) -> None:
        """Raises QuorumViolation if a leader makes us drop committed records (KAFKA-12460). Those are the records below
        the high watermark. After a start it is unknown at first; then those of the snapshot are known to be
        committed."""
        if self.high_watermark is not None and offset < self.high_watermark:
            raise QuorumViolation(
                f"a leader wants this log cut at {offset}, below the high watermark {self.high_watermark}"
            )
        snapshot = self.log.latest_snapshot
        if snapshot is not None and offset < snapshot.offset:
            raise QuorumViolation(
                f"a leader wants this log cut at {offset}, below {snapshot.offset}, the end of a snapshot"
            )

    def truncate(self, offset: Offset) -> None:
        self.check_not_committed(offset)
        self.effects.truncate_to = offset

    def take_effects(self) -> Ready:
        """The collected effects, together with those that follow from the state. So no step can forget to store a
        vote."""
        ready, self.effects = self.effects, Ready()
        role = self.role
        election = ElectionState(role.epoch, role.leader_id, role.voted)
        if election != self._persisted:
            self._persisted = ready.election = election
        leader_id = None if isinstance(role, Resigned) else role.leader_id
        if (leader_id, role.epoch) != self._announced:
            self._announced = (leader_id, role.epoch)
            start = role.epoch_start if isinstance(role, Leader) else None
            ready.leadership = Leadership(leader_id, role.epoch, start, role.leader_listeners)
        self.log_busy = self.log_busy or ready.touches_log
        return ready
