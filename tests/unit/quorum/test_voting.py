"""Which candidate gets a vote, what is persisted for it, and what it leads to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater.errors import Code
from highwater.model import NodeId
from highwater.quorum import Caller, ElectionState, Role
from highwater.wire.messages.vote_request import VoteRequest
from highwater.wire.messages.vote_response import VoteResponse
from tests.unit.quorum.bench import (
    ONE,
    THREE,
    TWO,
    Bench,
    begin,
    error_of,
    granted,
    records,
    refused,
    vote,
    vote_of,
)
from tests.unit.quorum.memory_log import MemoryLog
from tests.unit.quorum.replicas import CONTROLLER, voter_node, voter_set


def test_a_vote_is_persisted_with_the_answer_that_gives_it() -> None:
    ready = Bench().request(vote(TWO, 3))
    assert vote_of(ready)
    assert ready.election == ElectionState(3, None, TWO)


def test_a_vote_is_given_once_in_an_epoch_and_again_to_the_same_candidate() -> None:
    bench = Bench()
    assert vote_of(bench.request(vote(TWO, 3)))
    assert not vote_of(bench.request(vote(THREE, 3)))
    assert vote_of(bench.request(vote(TWO, 3)))
    assert not vote_of(bench.request(vote(voter_node(2, disk=9).key, 3)))
    assert vote_of(bench.request(vote(THREE, 4)))


@pytest.mark.parametrize(
    ("end", "is_granted"),
    [((2, 3), True), ((2, 4), True), ((3, 1), True), ((2, 2), False), ((1, 9), False)],
)
@pytest.mark.parametrize("pre_vote", [False, True])
def test_a_candidate_needs_a_log_as_good_as_the_voters(end: tuple[int, int], is_granted: bool, pre_vote: bool) -> None:
    bench = Bench(log=MemoryLog.of_epochs(1, 2, 2))
    assert vote_of(bench.request(vote(TWO, 5, end, pre_vote=pre_vote))) == is_granted


def test_a_pre_vote_is_not_persisted_and_binds_no_voter() -> None:
    bench = Bench(stored=ElectionState(3))
    ready = bench.request(vote(TWO, 3, pre_vote=True))
    assert vote_of(ready) and ready.election is None
    assert vote_of(bench.request(vote(THREE, 3, pre_vote=True)))
    assert vote_of(bench.request(vote(THREE, 3, (2, 0))))


def test_a_higher_epoch_is_adopted_even_if_the_vote_is_refused() -> None:
    ready = Bench(log=MemoryLog.of_epochs(2)).request(vote(TWO, 9, (1, 5)))
    assert not vote_of(ready)
    assert ready.election == ElectionState(9)


def test_a_follower_refuses_pre_votes_once_its_leader_has_answered() -> None:
    bench = Bench().to_follower(2, 1)
    assert vote_of(bench.request(vote(THREE, 1, pre_vote=True)))
    bench.answer(2, records(2, 1))
    assert not vote_of(bench.request(vote(THREE, 1, pre_vote=True)))
    assert bench.role() == Role.FOLLOWER


def test_a_follower_gives_no_vote_in_its_leaders_epoch() -> None:
    assert not vote_of(Bench().to_follower(2, 1).request(vote(THREE, 1)))


@pytest.mark.parametrize("way", ["to_leader", "to_candidate", "to_resigned"])
def test_a_present_or_former_candidate_gives_no_vote_in_its_own_epoch(way: str) -> None:
    bench = getattr(Bench(), way)()
    assert not vote_of(bench.request(vote(THREE, bench.quorum.epoch, (0, 99))))


@pytest.mark.parametrize(("way", "is_granted"), [("to_leader", False), ("to_candidate", True), ("to_resigned", True)])
def test_only_a_leader_refuses_pre_votes_of_its_epoch(way: str, is_granted: bool) -> None:
    bench = getattr(Bench(), way)()
    assert vote_of(bench.request(vote(THREE, bench.quorum.epoch, (1, 99), pre_vote=True))) == is_granted


def test_a_prospective_may_vote_and_stays_one() -> None:
    bench = Bench(stored=ElectionState(3)).to_prospective()
    ready = bench.request(vote(TWO, 3))
    assert vote_of(ready) and bench.role() == Role.PROSPECTIVE
    assert ready.election == ElectionState(3, None, TWO)


def test_a_prospective_that_voted_and_gives_up_keeps_its_vote() -> None:
    bench = Bench(stored=ElectionState(3)).to_prospective()
    bench.request(vote(TWO, 3))
    for peer in (2, 3):
        bench.answer(peer, refused(3))
    assert bench.role() == Role.UNATTACHED
    assert bench.ready.election is None
    assert not vote_of(bench.request(vote(THREE, 3)))


def test_a_prospective_that_knows_a_leader_does_not_vote_against_it() -> None:
    bench = Bench().to_follower(2, 1).to_prospective()
    assert not vote_of(bench.request(vote(THREE, 1)))


def test_of_two_prospective_voters_the_one_with_the_lower_rank_waits() -> None:
    bench = Bench().to_prospective()
    assert vote_of(bench.request(vote(TWO, 0, pre_vote=True)))
    bench.answer(3, granted(0))
    assert bench.role() == Role.PROSPECTIVE
    bench.pass_time_to_deadline()
    assert bench.role() == Role.CANDIDATE


def test_of_two_prospective_voters_the_one_with_the_higher_rank_is_a_candidate_at_once() -> None:
    bench = Bench(log=MemoryLog.of_epochs(1), stored=ElectionState(1)).to_prospective()
    assert not vote_of(bench.request(vote(TWO, 1, pre_vote=True)))
    bench.answer(3, granted(1))
    assert bench.role() == Role.CANDIDATE


def test_a_voter_waits_for_a_higher_rank_once_so_that_none_is_held_back_for_ever() -> None:
    bench = Bench().to_prospective()
    bench.request(vote(TWO, 0, pre_vote=True))
    bench.answer(3, granted(0))
    bench.pass_time(0.04)
    bench.request(vote(TWO, 0, pre_vote=True))
    bench.pass_time(0.01)
    assert bench.role() == Role.CANDIDATE


# Errors


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (vote(TWO, 2), Code.FENCED_LEADER_EPOCH),
        (vote(TWO, 3, (3, 0)), Code.INVALID_REQUEST),
        (vote(TWO, 3, (4, 0), pre_vote=True), Code.INVALID_REQUEST),
        (vote(TWO, 4, (-1, 0)), Code.INVALID_REQUEST),
        (vote(TWO, 4, (0, -1)), Code.INVALID_REQUEST),
        (vote(ONE, 4), Code.INVALID_REQUEST),
        (vote(TWO._replace(id=NodeId(-1)), 4), Code.INVALID_REQUEST),
        (vote(TWO, 4, voter=voter_node(1, disk=9).key), Code.INVALID_VOTER_KEY),
        (vote(TWO, 4, voter=THREE), Code.INVALID_VOTER_KEY),
        (vote(TWO, 3, (3, 0), pre_vote=True), Code.NONE),
    ],
)
def test_a_wrong_vote_request_gets_its_error(request_: VoteRequest, code: Code) -> None:
    ready = Bench(stored=ElectionState(3)).request(request_)
    assert error_of(ready) == code
    if code != Code.NONE:
        assert not vote_of(ready)


def test_a_vote_of_another_cluster_or_about_another_topic_is_refused_as_a_whole() -> None:
    bench = Bench()
    strange = vote(TWO, 1)
    strange.cluster_id = "another"
    assert bench.request(strange).answer == VoteResponse(error_code=Code.INCONSISTENT_CLUSTER_ID)
    for topics in ([], vote(TWO, 1).topics * 2):
        assert bench.request(VoteRequest(topics=topics)).answer == VoteResponse(error_code=Code.INVALID_REQUEST)
    other = vote(TWO, 1)
    other.topics[0].topic_name = "another"
    assert bench.request(other).answer == VoteResponse(error_code=Code.INVALID_REQUEST)
    assert bench.quorum.epoch == 0


def test_a_request_without_cluster_id_or_voter_key_is_let_through_as_old_versions_send_it() -> None:
    bench = Bench()
    old = VoteRequest.decode(vote(TWO, 1).encode(0), 0)
    ready = bench.request(old, Caller(0, CONTROLLER))
    assert vote_of(ready)
    assert ready.election is not None and ready.election.voted == (2, bytes(16))
    assert isinstance(ready.answer, VoteResponse)
    assert VoteResponse.decode(ready.answer.encode(0), 0) == ready.answer


def test_answers_name_the_leaders_address_from_version_1_on() -> None:
    bench = Bench().to_follower(2, 4)
    for version, count in ((0, 0), (1, 1), (2, 1)):
        answer = bench.request(vote(THREE, 4), Caller(version, CONTROLLER)).answer
        assert isinstance(answer, VoteResponse)
        assert len(answer.node_endpoints) == count
        assert VoteResponse.decode(answer.encode(version), version) == answer
        assert answer.topics[0].partitions[0].leader_id == 2


# The asker's side


def test_a_majority_of_pre_votes_makes_a_candidate_in_the_next_epoch() -> None:
    bench = Bench(stored=ElectionState(3)).to_prospective()
    assert bench.ready.election is None
    ready = bench.answer(3, granted(3))
    assert (bench.role(), bench.quorum.epoch) == (Role.CANDIDATE, 4)
    assert ready.election == ElectionState(4, None, ONE)
    assert [
        r.message.topics[0].partitions[0].pre_vote for r in ready.requests if isinstance(r.message, VoteRequest)
    ] == [
        False,
        False,
    ]


def test_a_majority_of_votes_makes_a_leader() -> None:
    bench = Bench(log=MemoryLog.of_epochs(1, 1), stored=ElectionState(3)).to_candidate()
    ready = bench.answer(3, granted(4))
    assert bench.role() == Role.LEADER
    assert ready.election == ElectionState(4, NodeId(1))
    assert ready.epoch_start is not None
    assert (ready.epoch_start.epoch, ready.epoch_start.offset) == (4, 2)
    assert [voter.voter_id for voter in ready.epoch_start.leader_change.granting_voters] == [1, 3]
    assert [voter.voter_id for voter in ready.epoch_start.leader_change.voters] == [1, 2, 3]
    assert bench.receivers == [2, 3]


def test_a_prospective_refused_by_a_majority_goes_back_to_its_leader() -> None:
    bench = Bench().to_follower(2, 1).to_prospective()
    bench.answer(2, refused(1, 2))
    ready = bench.answer(3, refused(1, 2))
    assert (bench.role(), bench.quorum.leader_id, bench.quorum.epoch) == (Role.FOLLOWER, 2, 1)
    assert ready.election is None


def test_a_prospective_refused_by_a_majority_without_leader_waits_for_an_election_timeout() -> None:
    bench = Bench().to_prospective()
    bench.answer(2, refused(0))
    bench.answer(3, refused(0))
    assert bench.role() == Role.UNATTACHED
    bench.pass_time(1.4)
    assert bench.role() == Role.UNATTACHED
    bench.pass_time(0.2)
    assert bench.role() == Role.PROSPECTIVE


def test_a_candidate_that_lost_waits_for_its_timeout_and_asks_for_a_pre_vote_again() -> None:
    bench = Bench().to_candidate()
    bench.answer(2, refused(1))
    bench.answer(3, refused(1))
    assert bench.role() == Role.CANDIDATE
    assert bench.ready.requests == []
    bench.pass_time(1.6)
    assert (bench.role(), bench.quorum.epoch) == (Role.PROSPECTIVE, 1)


def test_a_candidate_that_meets_the_elected_leader_follows_it() -> None:
    bench = Bench().to_candidate()
    bench.answer(3, refused(1, leader=2))
    assert (bench.role(), bench.quorum.leader_id) == (Role.FOLLOWER, 2)


@pytest.mark.parametrize("way", ["to_prospective", "to_candidate"])
def test_an_answer_from_a_later_epoch_ends_the_election(way: str) -> None:
    bench = getattr(Bench(), way)()
    bench.answer(2, refused(9))
    assert (bench.role(), bench.quorum.epoch) == (Role.UNATTACHED, 9)


def test_a_pre_vote_is_asked_again_soon_after_a_connection_failed() -> None:
    bench = Bench().to_prospective()
    bench.ready = bench.quorum.failed(bench.correlation(2), bench.now)
    assert bench.ready.requests == []
    assert bench.pass_time(0.02).requests != []
    assert bench.receivers == [2]


def test_an_answer_to_an_outdated_request_changes_nothing() -> None:
    bench = Bench().to_prospective()
    late = bench.correlation(2)
    bench.to_candidate()
    ready = bench.quorum.answered(late, granted(1), bench.now)
    assert bench.role() == Role.CANDIDATE
    assert ready.election is None and ready.requests == []


def test_a_voter_that_knows_no_pre_vote_is_asked_for_its_vote() -> None:
    bench = Bench().to_prospective()
    bench.answer(2, VoteResponse(error_code=Code.UNSUPPORTED_VERSION))
    assert (bench.role(), bench.quorum.epoch) == (Role.CANDIDATE, 1)


@pytest.mark.parametrize("code", [Code.INCONSISTENT_CLUSTER_ID, Code.INVALID_REQUEST, 31_000])
def test_an_answer_with_an_error_is_asked_again_after_a_pause(code: int) -> None:
    bench = Bench().to_prospective()
    bench.answer(2, VoteResponse(error_code=code))
    assert bench.role() == Role.PROSPECTIVE
    assert bench.ready.requests == []
    bench.pass_time(0.02)
    assert bench.receivers == [2]


@given(st.floats(0, 0.999999))
def test_an_election_timeout_is_between_once_and_twice_the_setting(chance: float) -> None:
    bench = Bench()
    bench.quorum._core.random = type("Dice", (), {"random": lambda self: chance})()
    assert 1.0 <= bench.quorum._core.election_deadline(0.0) < 2.0


def test_a_stream_of_new_epochs_does_not_hold_back_a_voter() -> None:
    bench = Bench(log=MemoryLog.of_epochs(1)).to_prospective()
    bench.answer(2, refused(1))
    bench.answer(3, refused(1))
    for epoch in range(2, 30):
        bench.pass_time(0.1)
        if bench.role() == Role.PROSPECTIVE:
            return
        bench.request(vote(TWO, epoch))
    raise AssertionError("never stood")


def test_beginning_an_epoch_ends_an_election() -> None:
    bench = Bench().to_candidate()
    bench.request(begin(3, 1))
    assert (bench.role(), bench.quorum.leader_id) == (Role.FOLLOWER, 3)
    assert bench.ready.election == ElectionState(1, NodeId(3), ONE)


def test_two_voters_need_each_other() -> None:
    bench = Bench(voters=voter_set(1, 2)).to_prospective()
    bench.answer(2, refused(0))
    assert bench.role() == Role.UNATTACHED
