"""How a leader makes itself known and how it leaves."""

from __future__ import annotations

from dataclasses import replace

import pytest

from highwater.errors import Code
from highwater.model import NodeId
from highwater.quorum import Caller, ElectionState, QuorumViolation, Role, Timing
from highwater.quorum import messages as wire
from highwater.quorum.messages import AnswerHead
from highwater.wire.codec import Message
from highwater.wire.messages.begin_quorum_epoch_request import BeginQuorumEpochRequest
from highwater.wire.messages.begin_quorum_epoch_response import BeginQuorumEpochResponse
from highwater.wire.messages.end_quorum_epoch_request import EndQuorumEpochRequest
from highwater.wire.messages.end_quorum_epoch_response import EndQuorumEpochResponse
from tests.unit.quorum.bench import ONE, THREE, TWO, Bench, begin, end, error_of, fetch, records, vote, vote_of
from tests.unit.quorum.memory_log import MemoryLog
from tests.unit.quorum.replicas import CONTROLLER, voter_node, voter_set


def test_a_voter_follows_the_leader_that_begins_an_epoch() -> None:
    bench = Bench()
    ready = bench.request(begin(2, 3))
    assert (bench.role(), bench.quorum.leader_id, bench.quorum.epoch) == (Role.FOLLOWER, 2, 3)
    assert ready.election == ElectionState(3, NodeId(2))
    assert ready.leadership is not None and ready.leadership.leader_id == 2
    assert bench.receivers == [2]


def test_following_keeps_the_vote_of_the_epoch() -> None:
    bench = Bench()
    bench.request(vote(THREE, 3))
    assert bench.request(begin(2, 3)).election == ElectionState(3, NodeId(2), THREE)


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (begin(2, 2), Code.FENCED_LEADER_EPOCH),
        (begin(-1, 3), Code.INVALID_REQUEST),
        (begin(1, 9), Code.INVALID_REQUEST),
        (begin(3, 3), Code.INVALID_REQUEST),
        (begin(2, 3, voter=voter_node(1, disk=9).key), Code.INVALID_VOTER_KEY),
        (begin(2, 3), Code.NONE),
        (end(2, 2), Code.FENCED_LEADER_EPOCH),
        (end(3, 3), Code.INVALID_REQUEST),
        (end(2, 3), Code.NONE),
    ],
)
def test_a_wrong_epoch_request_gets_its_error(request_: BeginQuorumEpochRequest, code: Code) -> None:
    bench = Bench().to_follower(2, 3)
    assert error_of(bench.request(request_)) == code
    assert bench.quorum.leader_id == 2


def test_requests_of_another_cluster_are_refused() -> None:
    bench = Bench()
    for request in (BeginQuorumEpochRequest(cluster_id="another"), EndQuorumEpochRequest(cluster_id="another")):
        assert error_of(bench.request(request)) == Code.INCONSISTENT_CLUSTER_ID
    for request in (BeginQuorumEpochRequest(), EndQuorumEpochRequest()):
        assert error_of(bench.request(request)) == Code.INVALID_REQUEST


@pytest.mark.parametrize("request_", [begin(2, 9), end(2, 9, THREE), vote(TWO, 9), vote(TWO, 9, pre_vote=True)])
def test_the_only_voter_follows_and_elects_no_other(request_: Message) -> None:
    """A node that takes itself for a peer was formatted apart: following it would cut off committed records."""
    bench = Bench(voters=voter_set(1), log=MemoryLog.of_epochs(1, 1))
    epoch = bench.quorum.epoch
    assert error_of(bench.request(request_)) == Code.INCONSISTENT_VOTER_SET
    assert (bench.quorum.leader_id, bench.quorum.epoch) == (1, epoch)


def test_a_voter_that_was_formatted_apart_stops_as_soon_as_it_hears_so() -> None:
    answer = wire.vote_answer(AnswerHead(Code.INCONSISTENT_VOTER_SET, NodeId(2), 5), granted=False)
    with pytest.raises(QuorumViolation, match="not formatted together"):
        Bench().to_prospective().answer(2, answer)


@pytest.mark.parametrize("version", [0, 1])
def test_every_version_goes_over_the_wire(version: int) -> None:
    bench, caller = Bench(), Caller(version, CONTROLLER)
    first = BeginQuorumEpochRequest.decode(begin(2, 3).encode(version), version)
    answer = bench.request(first, caller).answer
    assert isinstance(answer, BeginQuorumEpochResponse)
    assert BeginQuorumEpochResponse.decode(answer.encode(version), version) == answer
    assert bench.quorum.leader_listeners == voter_node(2).listeners
    last = EndQuorumEpochRequest.decode(end(2, 3, TWO, ONE).encode(version), version)
    goodbye = bench.request(last, caller).answer
    assert isinstance(goodbye, EndQuorumEpochResponse)
    assert EndQuorumEpochResponse.decode(goodbye.encode(version), version) == goodbye
    assert bench.quorum.next_deadline() == pytest.approx(100.5)


def test_a_new_leader_announces_itself_again_to_those_that_do_not_fetch() -> None:
    bench = Bench().to_leader()
    assert bench.receivers == [2, 3]
    for peer in (2, 3):
        bench.answer(peer, wire.begin_epoch_answer(AnswerHead(Code.NONE, NodeId(1), 1)))
    bench.pass_time(0.5)
    bench.request(fetch(TWO, 1, 0))
    bench.pass_time(0.6)
    assert bench.receivers == [3]
    assert isinstance(bench.ready.requests[0].message, BeginQuorumEpochRequest)


def test_an_announcement_that_was_lost_is_repeated_as_soon_as_its_request_times_out() -> None:
    bench = Bench(timing=Timing(request_timeout=1.2)).to_leader()
    bench.pass_time(1.1)
    assert bench.ready.requests == []
    bench.pass_time_to_deadline()
    bench.pass_time_to_deadline()
    assert bench.receivers == [2, 3]


def test_a_leader_that_hears_of_a_later_epoch_steps_down() -> None:
    bench = Bench().to_leader()
    ready = bench.answer(2, wire.begin_epoch_answer(AnswerHead(Code.FENCED_LEADER_EPOCH, NodeId(3), 7)))
    assert (bench.role(), bench.quorum.leader_id, bench.quorum.epoch) == (Role.FOLLOWER, 3, 7)
    assert ready.wake_fetches


def test_two_leaders_of_one_epoch_end_the_node() -> None:
    bench = Bench().to_follower(2, 3)
    with pytest.raises(QuorumViolation, match="names 3 as leader of epoch 3, but this node knows 2"):
        bench.answer(2, records(3, 3))


def test_a_leader_that_lost_its_disk_neither_votes_nor_follows_itself_in_its_old_epoch() -> None:
    bench = Bench().to_prospective()
    bench.answer(2, wire.vote_answer(AnswerHead(Code.FENCED_LEADER_EPOCH, NodeId(1), 6), granted=False))
    assert (bench.role(), bench.quorum.epoch) == (Role.UNATTACHED, 7)


@pytest.mark.parametrize("error", [Code.FENCED_LEADER_EPOCH, Code.NOT_LEADER_OR_FOLLOWER, Code.NONE])
def test_a_prospective_node_named_as_leader_of_a_known_epoch_goes_to_the_next_epoch(error: Code) -> None:
    """A peer may know of the epoch and not who led it. Two leaders of one epoch these are not: we lead none."""
    bench = Bench().to_prospective()
    bench.answer(3, wire.vote_answer(AnswerHead(Code.FENCED_LEADER_EPOCH, None, 6), granted=False))
    assert (bench.role(), bench.quorum.epoch) == (Role.UNATTACHED, 6)
    while bench.role() != Role.PROSPECTIVE:
        bench.pass_time_to_deadline()
    bench.answer(2, wire.vote_answer(AnswerHead(error, NodeId(1), 6), granted=False))
    assert (bench.role(), bench.quorum.epoch) == (Role.UNATTACHED, 7)


# Resigning


def test_a_leader_that_resigns_names_its_successors_by_the_length_of_their_logs() -> None:
    bench = Bench().to_leader()
    bench.flush()
    bench.request(fetch(THREE, 1, 1, 1))
    bench.ready = bench.quorum.resign(1, bench.now)
    assert bench.role() == Role.RESIGNED
    assert bench.quorum.leader_id is None
    assert bench.ready.election is None
    assert bench.ready.leadership is not None and bench.ready.leadership.leader_id is None
    assert bench.ready.wake_fetches
    assert bench.receivers == [2, 3]
    message = bench.ready.requests[0].message
    assert isinstance(message, EndQuorumEpochRequest)
    assert [replica.candidate_id for replica in message.topics[0].partitions[0].preferred_candidates] == [3, 2]


def test_resigning_from_an_epoch_that_is_over_does_nothing() -> None:
    bench = Bench().to_leader()
    bench.quorum.resign(0, bench.now)
    assert bench.role() == Role.LEADER
    bench.request(begin(2, 5))
    bench.quorum.resign(5, bench.now)
    assert bench.role() == Role.FOLLOWER


def test_the_end_of_an_epoch_is_announced_until_it_is_confirmed() -> None:
    bench = Bench().to_resigned()
    assert bench.answer(2, wire.end_epoch_answer(AnswerHead(Code.NONE, NodeId(1), 1))).requests == []
    bench.quorum.failed(bench.correlation(3), bench.now)
    bench.pass_time(0.02)
    assert bench.receivers == [3]
    bench.answer(3, wire.end_epoch_answer(AnswerHead(Code.NONE, NodeId(1), 1)))
    bench.pass_time(0.5)
    assert bench.ready.requests == []


def test_a_resigned_leader_is_unattached_in_the_next_epoch_after_an_election_timeout() -> None:
    bench = Bench().to_resigned()
    bench.pass_time(1.51)
    assert (bench.role(), bench.quorum.epoch) == (Role.PROSPECTIVE, 2)


@pytest.mark.parametrize(
    ("successors", "wait"),
    [
        ((ONE, TWO), 0.0),
        ((TWO, ONE), 0.5),
        ((TWO, THREE, ONE), 0.5),
        ((TWO, ONE, THREE), 0.25),
        ((TWO, THREE), 1.0),
        ((), 0.0),
        ((voter_node(1, disk=9).key,), 1.0),
    ],
)
def test_a_successor_waits_by_its_rank_before_it_asks_for_votes(successors: tuple[object, ...], wait: float) -> None:
    bench = Bench().to_follower(2, 1)
    bench.answer(2, records(2, 1))
    bench.request(end(2, 1, *successors))  # type: ignore[arg-type]
    if wait:
        bench.pass_time(wait - 0.01)
        assert bench.role() == Role.FOLLOWER
        bench.pass_time(0.02)
    assert bench.role() == Role.PROSPECTIVE


def test_a_follower_whose_leader_resigned_grants_pre_votes() -> None:
    bench = Bench().to_follower(2, 1)
    bench.answer(2, records(2, 1))
    bench.request(end(2, 1, THREE, ONE))
    assert vote_of(bench.request(vote(THREE, 1, pre_vote=True)))


def test_stopping_a_leader_resigns_it_and_it_may_stop_once_another_leads() -> None:
    bench = Bench().to_leader()
    bench.ready = bench.quorum.stop(bench.now)
    assert bench.role() == Role.RESIGNED
    assert not bench.quorum.may_stop
    bench.pass_time(10)
    assert bench.role() == Role.RESIGNED
    bench.request(begin(2, 2))
    assert bench.quorum.may_stop
    bench.pass_time(10)
    assert bench.role() == Role.FOLLOWER


def test_a_candidate_that_is_stopping_and_wins_resigns_at_once() -> None:
    bench = Bench().to_candidate()
    bench.quorum.stop(bench.now)
    ready = bench.answer(2, wire.vote_answer(AnswerHead(Code.NONE, None, 1), granted=True))
    assert bench.role() == Role.RESIGNED
    assert ready.election == ElectionState(1, NodeId(1))


# Check-quorum


def test_a_leader_without_its_majority_resigns() -> None:
    bench = Bench().to_leader()
    bench.pass_time(2.9)
    assert bench.role() == Role.LEADER
    bench.pass_time(0.2)
    assert bench.role() == Role.RESIGNED


def test_a_leader_stays_while_a_majority_fetches() -> None:
    bench = Bench().to_leader()
    bench.flush()
    for _ in range(10):
        bench.pass_time(2.0)
        bench.request(fetch(THREE, 1, 0))
        assert bench.role() == Role.LEADER


def followed(bench: Bench, seconds: float) -> None:
    """Lets time go by while a follower fetches, until the replica no longer leads."""
    end = bench.now + seconds
    while bench.now < end and bench.role() == Role.LEADER:
        bench.request(fetch(THREE, 1, 0))
        bench.pass_time(min(0.25, end - bench.now))


def test_a_leader_whose_disk_syncs_nothing_that_it_appended_resigns_after_a_while() -> None:
    bench = Bench().to_leader()
    bench.flush()
    followed(bench, 100.0)
    begun = bench.now
    bench.write("x")
    followed(bench, 5.0)
    bench.write("y")
    assert bench.role() == Role.LEADER
    followed(bench, 100.0)
    assert bench.role() == Role.RESIGNED
    assert bench.now == begun + Timing().sync_timeout


def test_a_leader_resigns_at_the_end_of_its_patience_without_any_input() -> None:
    bench = Bench(timing=Timing(request_timeout=100.0)).to_leader()
    due = bench.now + Timing().sync_timeout
    followed(bench, 5.5)
    while bench.role() == Role.LEADER:
        bench.pass_time_to_deadline()
    assert bench.now == due


def test_a_leader_with_a_slow_disk_stays_while_each_sync_ends_in_time() -> None:
    bench = Bench().to_leader()
    for value in range(5):
        bench.write(f"before {value}")
        synced = bench.log.written_end
        bench.write(f"after {value}")
        followed(bench, 5.0)
        bench.log.sync(bench.log.written[:synced])
        bench.quorum.log_flushed(bench.now)
        assert bench.role() == Role.LEADER


def test_the_only_voter_stays_leader_though_its_disk_hangs() -> None:
    bench = Bench(voters=voter_set(1))
    bench.write("x")
    bench.pass_time(1000.0)
    assert bench.role() == Role.LEADER


def test_a_fetch_that_was_held_and_is_asked_again_is_no_sign_of_life() -> None:
    bench = Bench().to_leader()
    bench.request(fetch(TWO, 1, 0))
    bench.pass_time(0.5)
    bench.request(replace(fetch(TWO, 1, 0), waited=True))
    bench.pass_time(2.6)
    assert bench.role() == Role.RESIGNED


def test_a_leader_needs_fetches_of_a_majority_in_each_interval() -> None:
    bench = Bench(voters=voter_set(1, 2, 3, 4, 5)).to_prospective()
    for epoch in (0, 1):
        for peer in (2, 3):
            bench.answer(peer, wire.vote_answer(AnswerHead(Code.NONE, None, epoch), granted=True))
    assert bench.role() == Role.LEADER
    bench.request(fetch(TWO, 1, 0))
    bench.request(fetch(THREE, 1, 0))
    for _ in range(29):
        bench.pass_time(0.1)
        bench.request(fetch(TWO, 1, 0))
    assert bench.role() == Role.LEADER
    bench.pass_time(0.2)
    assert bench.role() == Role.RESIGNED


def test_a_voter_that_fetches_a_snapshot_counts_and_an_observer_does_not() -> None:
    bench = Bench(log=MemoryLog.of_epochs(1, 1), stored=ElectionState(1)).to_leader()
    bench.pass_time(2.0)
    assert bench.quorum.snapshot_requested(TWO, 2, bench.now) == Code.NONE
    bench.pass_time(2.0)
    assert bench.role() == Role.LEADER
    assert bench.quorum.snapshot_requested(voter_node(9).key, 2, bench.now) == Code.NONE
    assert bench.quorum.snapshot_requested(TWO, 1, bench.now) == Code.FENCED_LEADER_EPOCH
    bench.pass_time(1.1)
    assert bench.role() == Role.RESIGNED


def test_a_leader_that_resigns_by_itself_says_why() -> None:
    bench = Bench().to_leader()
    followed(bench, 5.9)
    assert bench.pass_time(0.1).resigns_because == "its disk has synced nothing of the metadata log for 6.0 s"
    bench = Bench().to_leader()
    bench.flush()
    assert bench.pass_time(2.9).resigns_because == ""
    assert bench.pass_time(0.1).resigns_because == "no majority of the voters has fetched for 3 s"
    bench = Bench().to_leader()
    bench.quorum.resign(1, bench.now)
    assert bench.quorum.tick(bench.now).resigns_because == ""
