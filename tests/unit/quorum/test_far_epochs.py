"""No epoch that a peer sends can be the last: it is refused while it is out of reach, and what is kept can be read."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from highwater.errors import Code
from highwater.model import NodeId
from highwater.quorum import Caller, ElectionState, FetchAnswer, QuorumViolation, ReplicaKey, Role, VoterSet
from highwater.quorum import messages as wire
from highwater.quorum.election_state import LAST_EPOCH
from highwater.quorum.messages import AnswerHead
from highwater.wire.codec import Message
from highwater.wire.messages.vote_response import VoteResponse
from tests.unit.quorum.bench import TWO, Bench, begin, end, error_of, granted, vote, vote_of
from tests.unit.quorum.replicas import CONTROLLER, voter_node, voter_set

STRANGER = voter_node(77).key
A_LIFETIME_OF_ELECTIONS = 2**24 - 1
FAR = [LAST_EPOCH, LAST_EPOCH - 1, 2**30, 2**25]


def requests(epoch: int) -> list[Message]:
    return [
        vote(TWO, epoch),
        vote(TWO, epoch, pre_vote=True),
        begin(2, epoch),
        end(2, epoch),
    ]


def strange_requests(epoch: int) -> list[Message]:
    return [
        vote(STRANGER, epoch),
        vote(STRANGER, epoch, pre_vote=True),
        vote(voter_node(2, disk=9).key, epoch),
        begin(77, epoch),
        end(77, epoch),
    ]


@pytest.mark.parametrize("epoch", FAR)
@pytest.mark.parametrize("index", range(4))
def test_a_request_of_an_epoch_out_of_reach_is_refused_and_changes_nothing(epoch: int, index: int) -> None:
    bench = Bench().to_follower(2, 3)
    ready = bench.request(requests(epoch)[index])
    assert error_of(ready) == Code.INVALID_REQUEST
    assert ready.election is None
    assert (bench.quorum.leader_id, bench.quorum.epoch) == (2, 3)


@pytest.mark.parametrize("index", range(4))
def test_a_voter_that_was_away_for_a_very_long_time_learns_of_the_epoch(index: int) -> None:
    bench = Bench().to_follower(2, 0)
    bench.request(requests(A_LIFETIME_OF_ELECTIONS)[index])
    assert bench.quorum.epoch == A_LIFETIME_OF_ELECTIONS


@pytest.mark.parametrize("voters", [voter_set(1, 2, 3), voter_set(2, 3), voter_set()])
@pytest.mark.parametrize("epoch", [3, 4, A_LIFETIME_OF_ELECTIONS])
@pytest.mark.parametrize("index", range(5))
def test_a_node_that_is_no_voter_moves_no_epoch_and_gets_no_vote(index: int, epoch: int, voters: VoterSet) -> None:
    """Neither of a voter, nor of an observer, nor of one that has not heard yet who votes."""
    bench = Bench(voters=voters, stored=ElectionState(3))
    for version in (0, 2):
        ready = bench.request(strange_requests(epoch)[index], Caller(version, CONTROLLER))
        unknown = error_of(ready)
        assert unknown == Code.INVALID_VOTER_KEY if version else unknown in (Code.NONE, Code.INVALID_REQUEST)
        assert not isinstance(ready.answer, VoteResponse) or not vote_of(ready)
        assert ready.election is None
        assert (bench.quorum.leader_id, bench.quorum.epoch, bench.quorum.voted) == (None, 3, None)


def test_a_voter_that_sends_no_directory_id_is_known_by_its_node_id() -> None:
    bench = Bench()
    assert vote_of(bench.request(vote(ReplicaKey(TWO.id), 3), Caller(0, CONTROLLER)))
    assert bench.quorum.epoch == 3


@pytest.mark.parametrize("epoch", [2**25, 2**30, LAST_EPOCH - 2])
def test_a_voter_believes_the_answer_of_another_however_far_its_epoch_is(epoch: int) -> None:
    """Or two voters could be out of each other's reach for ever. No stranger can answer: we chose whom to ask."""
    far = AnswerHead(Code.FENCED_LEADER_EPOCH, None, epoch)
    bench = Bench().to_prospective()
    bench.answer(2, wire.vote_answer(far, granted=False))
    assert bench.quorum.epoch == epoch


@pytest.mark.parametrize("epoch", [LAST_EPOCH - 1, LAST_EPOCH])
def test_an_answer_of_the_last_epochs_is_passed_over(epoch: int) -> None:
    far = AnswerHead(Code.FENCED_LEADER_EPOCH, NodeId(3), epoch)
    cases: list[tuple[Bench, Message | FetchAnswer]] = [
        (Bench().to_candidate(), granted(epoch)),
        (Bench().to_candidate(), wire.vote_answer(far, granted=False)),
        (Bench().to_leader(), wire.begin_epoch_answer(far)),
        (Bench().to_resigned(), wire.end_epoch_answer(far)),
        (Bench().to_follower(2, 1), FetchAnswer(Code.FENCED_LEADER_EPOCH, NodeId(3), epoch)),
        (Bench().to_follower(2, 1), FetchAnswer(Code.FENCED_LEADER_EPOCH, NodeId(1), epoch)),
    ]
    for bench, answer in cases:
        ready = bench.answer(2, answer)
        assert (bench.quorum.epoch, ready.election) == (1, None)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, LAST_EPOCH)), max_size=30))
@example([(3, 0), (1, 0)])  # a prospective that grants a pre-vote to a higher rank lets that one stand first
def test_any_epochs_of_peers_leave_a_readable_state_and_a_next_epoch(
    asked: list[tuple[int, int]],
) -> None:
    bench = Bench()
    for index, epoch in asked:
        ready = bench.request(requests(epoch)[index])
        if ready.election is not None:
            assert ElectionState.from_json(ready.election.to_json()) == ready.election
    assert bench.quorum.epoch < LAST_EPOCH / 2
    bench.to_prospective().answer(2, granted(bench.quorum.epoch))
    if bench.quorum.role == Role.PROSPECTIVE:
        bench.pass_time_to_deadline()
    assert bench.quorum.role == Role.CANDIDATE


def test_near_the_last_epoch_elections_go_on_until_it() -> None:
    bench = Bench(stored=ElectionState(LAST_EPOCH - 3))
    assert bench.request(vote(TWO, LAST_EPOCH - 2)).election == ElectionState(LAST_EPOCH - 2, None, TWO)
    assert error_of(bench.request(begin(2, LAST_EPOCH - 2))) == Code.NONE
    assert error_of(bench.request(begin(3, LAST_EPOCH - 1))) == Code.INVALID_REQUEST
    for epoch in (LAST_EPOCH - 1, LAST_EPOCH):
        bench.pass_time_to_deadline()
        assert bench.to_candidate().quorum.epoch == epoch
    bench.pass_time_to_deadline()
    assert bench.role() == Role.PROSPECTIVE
    with pytest.raises(QuorumViolation, match="last"):
        bench.answer(2, granted(LAST_EPOCH))
