"""One replica on the bench: built in a state, fed by hand, looked at."""

from __future__ import annotations

from dataclasses import replace

from highwater.errors import Code
from highwater.model import Endpoint, NodeId
from highwater.quorum import (
    Caller,
    ElectionState,
    FetchAnswer,
    FollowerFetch,
    LogPosition,
    Quorum,
    Ready,
    ReplicaKey,
    Role,
    Timing,
    VoterSet,
)
from highwater.quorum import messages as wire
from highwater.quorum.messages import AnswerHead
from highwater.wire.codec import Message
from highwater.wire.messages.vote_request import VoteRequest
from highwater.wire.messages.vote_response import VoteResponse
from tests.unit.quorum.memory_log import Entry, MemoryLog
from tests.unit.quorum.replicas import CLUSTER_ID, CONTROLLER, identity, voter_node, voter_set

NEWEST = Caller(2, CONTROLLER)
ONE, TWO, THREE = (voter_node(node).key for node in (1, 2, 3))
CHANCE = 0.5
"""What every throw of the dice gives here: an election timeout is 1.5 s, a prompt one 25 ms."""


class Loaded:
    def random(self) -> float:
        return CHANCE


class Bench:
    """Replica 1, by default a voter among 1, 2 and 3."""

    def __init__(
        self,
        *,
        stored: ElectionState | None = None,
        log: MemoryLog | None = None,
        voters: VoterSet | None = None,
        node: int = 1,
        voters_offset: int = 0,
        timing: Timing | None = None,
        bootstrap: tuple[Endpoint, ...] = (),
    ) -> None:
        self.now = 100.0
        self.log = log if log is not None else MemoryLog()
        self.quorum = Quorum(
            replace(identity(node), bootstrap=bootstrap),
            voters if voters is not None else voter_set(1, 2, 3),
            self.log,
            Loaded(),
            stored,
            self.now,
            voters_offset=voters_offset,
            timing=timing,
        )
        self.ready = self.quorum.start(self.now)

    def pass_time(self, seconds: float) -> Ready:
        self.now += seconds
        self.ready = self.quorum.tick(self.now)
        return self.ready

    def pass_time_to_deadline(self) -> Ready:
        deadline = self.quorum.next_deadline()
        assert deadline is not None
        return self.pass_time(deadline - self.now)

    def request(self, message: Message | FollowerFetch, caller: Caller = NEWEST) -> Ready:
        self.ready = self.quorum.requested(message, caller, self.now)
        return self.ready

    def answer(self, peer: int, response: Message | FetchAnswer) -> Ready:
        """Answer the last request to `peer`."""
        self.ready = self.quorum.answered(self.correlation(peer), response, self.now)
        return self.ready

    def correlation(self, peer: int) -> int:
        link = self.quorum._core.links._links[NodeId(peer)]
        assert link.correlation is not None
        return link.correlation

    def flush(self) -> Ready:
        self.log.sync()
        self.ready = self.quorum.log_flushed(self.now)
        return self.ready

    def role(self) -> Role:
        return self.quorum.role

    @property
    def receivers(self) -> list[int]:
        return [request.peer.id for request in self.ready.requests]

    # Ways into each role

    def to_prospective(self) -> Bench:
        while self.quorum.role != Role.PROSPECTIVE:
            self.pass_time_to_deadline()
        return self

    def to_candidate(self) -> Bench:
        self.to_prospective()
        self.answer(2, granted(self.quorum.epoch))
        assert self.quorum.role == Role.CANDIDATE
        return self

    def to_leader(self) -> Bench:
        self.to_candidate()
        self.answer(2, granted(self.quorum.epoch))
        assert self.quorum.role == Role.LEADER
        assert self.ready.epoch_start is not None
        self.write("start")
        return self

    def write(self, value: str) -> Ready:
        """Append as the leader. What follows is mostly nothing, so `ready` stays what it was."""
        self.log.append(Entry(self.quorum.epoch, value))
        return self.quorum.wrote(self.now)

    def to_follower(self, leader: int = 2, epoch: int = 1) -> Bench:
        self.request(begin(leader, epoch))
        assert self.quorum.role == Role.FOLLOWER
        return self

    def to_resigned(self) -> Bench:
        self.to_leader()
        self.ready = self.quorum.resign(self.quorum.epoch, self.now)
        assert self.quorum.role == Role.RESIGNED
        return self


def granted(epoch: int) -> VoteResponse:
    return wire.vote_answer(AnswerHead(Code.NONE, None, epoch), granted=True)


def refused(epoch: int, leader: int | None = None) -> VoteResponse:
    return wire.vote_answer(AnswerHead(Code.NONE, None if leader is None else NodeId(leader), epoch), granted=False)


def vote(
    candidate: ReplicaKey, epoch: int, end: tuple[int, int] = (0, 0), *, pre_vote: bool = False, voter: ReplicaKey = ONE
) -> VoteRequest:
    return wire.vote(CLUSTER_ID, voter, candidate, epoch, LogPosition(*end), pre_vote)


def begin(leader: int, epoch: int, voter: ReplicaKey = ONE) -> Message:
    return wire.begin_epoch(CLUSTER_ID, voter, NodeId(leader), epoch, voter_node(leader).listeners)


def end(leader: int, epoch: int, *successors: ReplicaKey) -> Message:
    return wire.end_epoch(CLUSTER_ID, NodeId(leader), epoch, successors, voter_node(leader).listeners)


def fetch(replica: ReplicaKey, epoch: int, offset: int, last_epoch: int = 0, high_watermark: int = -1) -> FollowerFetch:
    return FollowerFetch(replica, epoch, offset, last_epoch, high_watermark, CLUSTER_ID)


def records(leader: int, epoch: int, high_watermark: int = -1, data: bytes = b"") -> FetchAnswer:
    return FetchAnswer(Code.NONE, NodeId(leader), epoch, high_watermark, 0, records=data)


def vote_of(ready: Ready) -> bool:
    assert isinstance(ready.answer, VoteResponse)
    return ready.answer.topics[0].partitions[0].vote_granted


def error_of(ready: Ready) -> int:
    answer = ready.answer
    if isinstance(answer, FetchAnswer):
        return int(answer.error)
    assert answer is not None
    topics = getattr(answer, "topics")  # noqa: B009
    return int(topics[0].partitions[0].error_code) if topics else int(getattr(answer, "error_code"))  # noqa: B009
