"""The role in which a replica starts, from what it had stored."""

from __future__ import annotations

import pytest

from highwater.model import NodeId
from highwater.quorum import NEVER_LOGGED, ElectionState, Role, VoterNode
from highwater.wire.messages.vote_request import VoteRequest
from tests.unit.quorum.bench import ONE, THREE, TWO, Bench, vote, vote_of
from tests.unit.quorum.memory_log import Entry, MemoryLog
from tests.unit.quorum.replicas import voter_node, voter_set


def test_a_new_replica_is_unattached_in_epoch_0_and_writes_that_down() -> None:
    bench = Bench()
    assert (bench.role(), bench.quorum.epoch) == (Role.UNATTACHED, 0)
    assert bench.ready.election == ElectionState(0)


def test_a_voter_that_knows_no_leader_asks_for_a_pre_vote_almost_at_once() -> None:
    bench = Bench()
    assert bench.quorum.next_deadline() == pytest.approx(100.025)
    ready = bench.pass_time(0.026)
    assert bench.role() == Role.PROSPECTIVE
    assert bench.receivers == [2, 3]
    assert all(
        isinstance(r.message, VoteRequest) and r.message.topics[0].partitions[0].pre_vote for r in ready.requests
    )


def test_a_leader_comes_back_resigned_from_its_epoch() -> None:
    bench = Bench(stored=ElectionState(5, NodeId(1)), log=MemoryLog.of_epochs(5))
    assert (bench.role(), bench.quorum.epoch) == (Role.RESIGNED, 5)
    assert bench.quorum.leader_id is None
    assert not vote_of(bench.request(vote(TWO, 5, (4, 9))))


def test_a_candidate_comes_back_as_candidate_of_the_same_epoch() -> None:
    bench = Bench(stored=ElectionState(5, None, ONE))
    assert (bench.role(), bench.quorum.epoch) == (Role.CANDIDATE, 5)
    assert bench.receivers == [2, 3]
    assert bench.ready.election is None


def test_a_follower_comes_back_as_follower() -> None:
    bench = Bench(stored=ElectionState(5, NodeId(2), THREE))
    assert (bench.role(), bench.quorum.leader_id) == (Role.FOLLOWER, 2)
    assert bench.receivers == [2]
    assert bench.quorum.next_deadline() == pytest.approx(102.0)


def test_a_follower_of_a_leader_without_address_asks_around() -> None:
    bench = Bench(stored=ElectionState(5, NodeId(7)))
    assert (bench.role(), bench.quorum.leader_id) == (Role.UNATTACHED, 7)
    assert bench.receivers in ([2], [3])


def test_a_voter_remembers_its_vote() -> None:
    bench = Bench(stored=ElectionState(5, None, TWO))
    assert bench.role() == Role.UNATTACHED
    assert not vote_of(bench.request(vote(THREE, 5, (4, 9))))
    assert vote_of(bench.request(vote(TWO, 5, (4, 9))))


def test_an_election_state_older_than_the_log_counts_for_nothing_but_its_epoch_is_left_behind() -> None:
    bench = Bench(stored=ElectionState(2, None, ONE), log=MemoryLog.of_epochs(1, 4))
    assert (bench.role(), bench.quorum.epoch) == (Role.UNATTACHED, 4)
    assert bench.ready.election == ElectionState(4)


@pytest.mark.parametrize(
    "stored",
    [None, ElectionState(5, NodeId(1)), ElectionState(5, None, ONE), ElectionState(5, NodeId(2)), ElectionState(5)],
)
def test_the_only_voter_leads_at_once_in_a_new_epoch(stored: ElectionState | None) -> None:
    bench = Bench(stored=stored, voters=voter_set(1), log=MemoryLog.of_epochs(3, 3))
    epoch = bench.quorum.epoch
    assert bench.role() == Role.LEADER
    assert epoch == (stored.epoch if stored and stored.voted == ONE else (stored.epoch if stored else 3) + 1)
    assert bench.ready.election == ElectionState(epoch, NodeId(1))
    assert bench.ready.epoch_start is not None
    assert bench.ready.epoch_start.offset == 2
    assert bench.ready.leadership is not None
    assert (bench.ready.leadership.leader_id, bench.ready.leadership.epoch_start) == (1, 2)
    assert bench.quorum.high_watermark is None
    bench.log.append(Entry(epoch, "start"))
    assert bench.flush().high_watermark == 3
    assert bench.quorum.next_deadline() is not None
    assert bench.pass_time(1000).requests == []
    assert bench.role() == Role.LEADER


def test_a_leader_opens_its_epoch_with_the_voters_if_the_log_has_none_yet() -> None:
    start = Bench(voters=voter_set(1), voters_offset=NEVER_LOGGED).ready.epoch_start
    assert start is not None and start.voters is not None and start.kraft_version is not None
    assert start.kraft_version.kraft_version == 1
    assert [voter.voter_id for voter in start.voters.voters] == [1]
    assert [voter.voter_id for voter in start.leader_change.granting_voters] == [1]
    again = Bench(voters=voter_set(1), voters_offset=3).ready.epoch_start
    assert again is not None and again.voters is None and again.kraft_version is None


def test_a_leader_that_moved_writes_its_new_address() -> None:
    moved = VoterNode(voter_node(1).key)
    start = Bench(voters=voter_set(2, 3).with_voter(moved), voters_offset=3).to_leader().ready.epoch_start
    assert start is not None and start.voters is not None
    assert [len(voter.endpoints) for voter in start.voters.voters] == [1, 1, 1]
