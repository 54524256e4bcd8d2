"""Replication through fetches: what a follower does with answers, what a leader learns from requests."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater.errors import Code
from highwater.model import Endpoint, NodeId
from highwater.quorum import (
    Caller,
    ElectionState,
    FetchAnswer,
    FollowerFetch,
    LogPosition,
    QuorumViolation,
    Ready,
    Role,
    Timing,
)
from highwater.quorum.leader import Leader
from tests.unit.quorum.bench import ONE, THREE, TWO, Bench, begin, error_of, fetch, records, vote, vote_of
from tests.unit.quorum.memory_log import Entry, MemoryLog
from tests.unit.quorum.replicas import CONTROLLER, voter_node, voter_set


def only_fetch(ready: Ready) -> FollowerFetch:
    [request] = ready.requests
    assert isinstance(request.message, FollowerFetch)
    return request.message


def fetch_answer(ready: Ready) -> FetchAnswer:
    assert isinstance(ready.answer, FetchAnswer)
    return ready.answer


def follow(bench: Bench) -> FollowerFetch:
    bench.to_follower(2, bench.quorum.epoch + 1)
    return only_fetch(bench.ready)


# Followers


def test_a_follower_asks_from_its_durable_end_with_its_last_epoch() -> None:
    bench = Bench(log=MemoryLog.of_epochs(1, 3, 3), stored=ElectionState(3))
    assert follow(bench) == FollowerFetch(ONE, 4, 3, 3, -1, "a-cluster")


def test_the_next_fetch_waits_until_the_records_are_synced() -> None:
    bench = Bench()
    follow(bench)
    ready = bench.answer(2, records(2, 1, high_watermark=1, data=b"two records"))
    assert ready.append == b"two records"
    assert ready.requests == [] and ready.high_watermark is None
    bench.log.append(Entry(1, "a"), Entry(1, "b"))
    assert bench.pass_time(0.1).requests == []
    ready = bench.flush()
    assert ready.high_watermark == 1
    assert (only_fetch(ready).offset, only_fetch(ready).high_watermark) == (2, 1)


def test_a_high_watermark_sent_with_records_waits_for_all_of_them() -> None:
    bench = Bench()
    follow(bench)
    bench.answer(2, records(2, 1, high_watermark=2, data=b"two records"))
    bench.log.append(Entry(1, "a"), Entry(1, "b"))
    bench.log.sync([Entry(1, "a")])
    assert bench.quorum.log_flushed(bench.now).high_watermark is None
    assert bench.flush().high_watermark == 2


def test_a_follower_knows_as_committed_no_more_than_it_has() -> None:
    bench = Bench(log=MemoryLog.of_epochs(1))
    follow(bench)
    assert bench.answer(2, records(2, 2, high_watermark=50)).high_watermark == 1


def test_an_answer_without_records_is_followed_by_the_next_fetch() -> None:
    bench = Bench()
    follow(bench)
    assert only_fetch(bench.answer(2, records(2, 1))).offset == 0


def test_a_deposed_leader_with_an_unsynced_tail_asks_only_when_it_is_synced() -> None:
    bench = Bench().to_leader()
    bench.flush()
    bench.log.append(Entry(1, "unsynced"))
    bench.request(begin(2, 2))
    assert bench.ready.requests == []
    assert only_fetch(bench.flush()) == FollowerFetch(ONE, 2, 2, 1, -1, "a-cluster")


def test_a_follower_cuts_its_log_where_the_leader_says_and_asks_again_after_that() -> None:
    bench = Bench(log=MemoryLog.of_epochs(1, 1, 2, 2), stored=ElectionState(2))
    follow(bench)
    ready = bench.answer(2, replace(records(2, 3), diverging=LogPosition(1, 2)))
    assert ready.truncate_to == 2
    assert ready.requests == []
    bench.log.truncate(2)
    assert only_fetch(bench.flush()).offset == 2


def test_a_cut_below_the_high_watermark_ends_the_node() -> None:
    bench = Bench(log=MemoryLog.of_epochs(1, 1, 2, 2), stored=ElectionState(2))
    follow(bench)
    bench.answer(2, records(2, 3, high_watermark=3))
    with pytest.raises(QuorumViolation, match="below the high watermark"):
        bench.answer(2, replace(records(2, 3), diverging=LogPosition(1, 2)))


def test_a_snapshot_below_the_high_watermark_ends_the_node() -> None:
    bench = Bench(log=MemoryLog.of_epochs(1, 1, 2, 2), stored=ElectionState(2))
    follow(bench)
    bench.answer(2, records(2, 3, high_watermark=3))
    with pytest.raises(QuorumViolation, match="below the high watermark"):
        bench.answer(2, replace(records(2, 3), snapshot=LogPosition(2, 2)))


def test_a_node_that_got_no_high_watermark_yet_knows_that_its_snapshot_is_committed() -> None:
    for answer in (
        replace(records(2, 3), diverging=LogPosition(0, 2)),
        replace(records(2, 3), snapshot=LogPosition(1, 2)),
    ):
        log = MemoryLog.of_epochs(1, 1, 2, 2)
        log.take_snapshot(3)
        bench = Bench(log=log, stored=ElectionState(2))
        follow(bench)
        assert bench.quorum.high_watermark is None
        with pytest.raises(QuorumViolation, match="below 3"):
            bench.answer(2, answer)


def test_a_high_watermark_that_goes_back_ends_the_node() -> None:
    bench = Bench(log=MemoryLog.of_epochs(1, 1))
    follow(bench)
    bench.answer(2, records(2, 2, high_watermark=2))
    with pytest.raises(QuorumViolation, match="go back"):
        bench.answer(2, records(2, 2, high_watermark=1))


def test_a_new_leader_that_does_not_know_its_high_watermark_yet_changes_nothing() -> None:
    bench = Bench(log=MemoryLog.of_epochs(1, 1))
    follow(bench)
    bench.answer(2, records(2, 2, high_watermark=2))
    bench.request(begin(3, 3))
    assert bench.answer(3, records(3, 3, high_watermark=-1)).high_watermark is None
    assert bench.quorum.high_watermark == 2


def test_records_that_fail_their_checks_are_fetched_again_after_a_pause() -> None:
    bench = Bench(voters=voter_set(1, 2))
    follow(bench)
    bench.answer(2, records(2, 1, data=b"damaged"))
    bench.ready = bench.quorum.records_rejected(bench.now)
    assert bench.ready.requests == []
    assert only_fetch(bench.pass_time(0.02)).offset == 0


def test_a_follower_that_hears_nothing_asks_for_a_pre_vote() -> None:
    bench = Bench()
    follow(bench)
    bench.pass_time(1.9)
    bench.answer(2, records(2, 1))
    bench.pass_time(1.9)
    assert bench.role() == Role.FOLLOWER
    bench.pass_time(0.2)
    assert (bench.role(), bench.quorum.epoch) == (Role.PROSPECTIVE, 1)
    assert bench.ready.election is None


def test_a_refused_fetch_is_no_sign_of_life() -> None:
    bench = Bench()
    follow(bench)
    for _ in range(3):
        bench.pass_time(0.6)
        if bench.receivers == [2]:
            bench.answer(2, FetchAnswer(Code.NOT_LEADER_OR_FOLLOWER, NodeId(2), 1))
    bench.pass_time(0.3)
    assert bench.role() == Role.PROSPECTIVE


def test_a_follower_asks_others_while_its_leader_does_not_answer() -> None:
    bench = Bench()
    follow(bench)
    bench.ready = bench.quorum.failed(bench.correlation(2), bench.now)
    assert bench.receivers == [3]
    bench.answer(3, FetchAnswer(Code.FENCED_LEADER_EPOCH, NodeId(3), 5))
    assert (bench.role(), bench.quorum.leader_id, bench.quorum.epoch) == (Role.FOLLOWER, 3, 5)


def test_a_replica_without_leader_learns_of_one_and_takes_its_records_in_one_answer() -> None:
    bench = Bench(stored=ElectionState(4))
    [peer] = bench.receivers
    answer = replace(records(3, 4, data=b"x"), leader_endpoint=Endpoint("elsewhere", 99))
    ready = bench.answer(peer, answer)
    assert (bench.role(), bench.quorum.leader_id) == (Role.FOLLOWER, 3)
    assert bench.quorum.leader_listeners == ((CONTROLLER, "elsewhere", 99),)
    assert ready.append == b"x"
    assert ready.election == ElectionState(4, NodeId(3))


def test_asking_around_in_vain_is_done_at_a_moderate_pace() -> None:
    bench = Bench(stored=ElectionState(4, NodeId(7)), voters=voter_set(1, 2))
    bench.answer(2, FetchAnswer(Code.NOT_LEADER_OR_FOLLOWER, None, 4))
    assert bench.ready.requests == []
    assert bench.pass_time(0.02).requests != []


def test_a_snapshot_stops_fetching_until_it_is_installed() -> None:
    bench = Bench()
    follow(bench)
    ready = bench.answer(2, replace(records(2, 1), snapshot=LogPosition(1, 3)))
    assert ready.fetch_snapshot == bench.quorum.fetching_snapshot == LogPosition(1, 3)
    assert ready.requests == []
    bench.pass_time(1.9)
    bench.quorum.snapshot_answered(Code.NONE, NodeId(2), 1, (), bench.now)
    bench.pass_time(1.9)
    assert bench.role() == Role.FOLLOWER
    bench.log.install([Entry(1, "a")] * 3)
    ready = bench.quorum.snapshot_done(bench.now)
    assert (only_fetch(ready).offset, only_fetch(ready).last_fetched_epoch) == (3, 1)


def test_a_snapshot_that_could_not_be_installed_is_asked_for_again_after_a_pause() -> None:
    bench = Bench(voters=voter_set(1, 2))
    follow(bench)
    bench.answer(2, replace(records(2, 1), snapshot=LogPosition(1, 3)))
    ready = bench.quorum.snapshot_failed(bench.now)
    assert bench.quorum.fetching_snapshot is None
    assert ready.requests == []
    assert only_fetch(bench.pass_time(0.02)).offset == 0


def test_a_change_of_the_leader_ends_the_fetch_of_a_snapshot() -> None:
    bench = Bench()
    follow(bench)
    bench.answer(2, replace(records(2, 1), snapshot=LogPosition(1, 3)))
    bench.quorum.snapshot_answered(Code.FENCED_LEADER_EPOCH, NodeId(3), 2, voter_node(3).listeners, bench.now)
    assert bench.quorum.leader_id == 3
    assert bench.quorum.fetching_snapshot is None


# Proof of death


def test_proof_of_the_leaders_death_lets_pre_votes_through_and_asks_for_one_soon() -> None:
    bench = Bench()
    follow(bench)
    bench.answer(2, records(2, 1))
    assert not vote_of(bench.request(vote(THREE, 1, pre_vote=True)))
    bench.ready = bench.quorum.leader_is_dead(NodeId(2), 1, bench.now)
    assert vote_of(bench.request(vote(THREE, 1, pre_vote=True)))
    assert not vote_of(bench.request(vote(THREE, 1)))
    bench.pass_time(0.024)
    assert bench.role() == Role.FOLLOWER
    bench.pass_time(0.002)
    assert (bench.role(), bench.quorum.epoch) == (Role.PROSPECTIVE, 1)


def test_proof_of_the_death_of_another_leader_means_nothing() -> None:
    bench = Bench()
    follow(bench)
    bench.answer(2, records(2, 1))
    for leader, epoch in ((2, 0), (3, 1)):
        bench.quorum.leader_is_dead(NodeId(leader), epoch, bench.now)
    assert not vote_of(bench.request(vote(THREE, 1, pre_vote=True)))


def test_a_leader_that_answers_after_all_is_followed_again() -> None:
    bench = Bench()
    follow(bench)
    bench.quorum.leader_is_dead(NodeId(2), 1, bench.now)
    bench.answer(2, records(2, 1))
    bench.pass_time(1.9)
    assert bench.role() == Role.FOLLOWER


# Leaders


def led(*epochs: int) -> Bench:
    """A leader of the epoch after these, its first record synced."""
    bench = Bench(log=MemoryLog.of_epochs(*epochs), stored=ElectionState(max(epochs, default=0))).to_leader()
    bench.flush()
    return bench


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (fetch(TWO, 1, 0), Code.FENCED_LEADER_EPOCH),
        (fetch(TWO, 3, 0), Code.UNKNOWN_LEADER_EPOCH),
        (fetch(TWO, 2, -1), Code.INVALID_REQUEST),
        (fetch(TWO, 2, 0, -1), Code.INVALID_REQUEST),
        (fetch(TWO, 2, 0, 3), Code.INVALID_REQUEST),
        (fetch(ONE, 2, 0), Code.INVALID_REQUEST),
        (replace(fetch(TWO, 2, 0), cluster_id="another"), Code.INCONSISTENT_CLUSTER_ID),
        (fetch(TWO, 2, 0), Code.NONE),
    ],
)
def test_a_wrong_fetch_gets_its_error_and_is_no_acknowledgement(request_: FollowerFetch, code: Code) -> None:
    bench = led(1)
    ready = bench.request(request_)
    assert error_of(ready) == code
    if code != Code.NONE:
        assert ready.high_watermark is None
        assert isinstance(bench.quorum._core.role, Leader)
        assert bench.quorum._core.role.voters[NodeId(2)].end_offset is None


@pytest.mark.parametrize("way", ["to_follower", "to_candidate", "to_resigned"])
def test_a_node_that_does_not_lead_says_so_and_names_the_leader(way: str) -> None:
    bench = getattr(Bench(), way)()
    answer = bench.request(fetch(TWO, bench.quorum.epoch, 0)).answer
    assert isinstance(answer, FetchAnswer)
    assert answer.error == Code.NOT_LEADER_OR_FOLLOWER
    assert answer.leader_id == bench.quorum._core.role.leader_id


def test_a_leader_that_is_leaving_serves_no_fetch() -> None:
    bench = led(1)
    bench.quorum._core.stopping = True
    assert error_of(bench.request(fetch(TWO, 2, 0))) == Code.BROKER_NOT_AVAILABLE


def test_records_on_the_disks_of_a_majority_are_committed_with_an_entry_of_the_leaders_epoch() -> None:
    bench = led(1, 1)
    assert bench.quorum.high_watermark is None
    ready = bench.request(fetch(TWO, 2, 2, 1))
    assert ready.high_watermark is None
    ready = bench.request(fetch(TWO, 2, 3, 2))
    assert ready.high_watermark == 3
    assert ready.wake_fetches
    assert isinstance(ready.answer, FetchAnswer) and ready.answer.high_watermark == 3


def test_the_leader_counts_itself_only_as_far_as_its_disk() -> None:
    bench = led()
    bench.log.append(Entry(1, "unsynced"))
    bench.request(fetch(TWO, 1, 1, 1))
    assert bench.quorum.high_watermark == 1
    assert bench.flush().high_watermark is None
    bench.log.append(Entry(1, "more"))
    bench.log.sync()
    bench.request(fetch(TWO, 1, 2, 1))
    bench.request(fetch(THREE, 1, 2, 1))
    assert bench.quorum.high_watermark == 2


def test_a_diverging_follower_gets_the_divergence_and_does_not_count() -> None:
    bench = led(1, 1)
    ready = bench.request(fetch(TWO, 2, 5, 1))
    assert isinstance(ready.answer, FetchAnswer)
    assert ready.answer.diverging == LogPosition(1, 2)
    assert not ready.answer.can_wait and not ready.answer.serves_records
    assert ready.high_watermark is None


def test_an_observer_is_served_and_never_counted() -> None:
    bench = led(1)
    stranger, anonymous = voter_node(9).key, TWO._replace(id=NodeId(-1))
    for replica in (stranger, voter_node(2, disk=9).key, anonymous):
        ready = bench.request(fetch(replica, 2, 2, 2))
        assert isinstance(ready.answer, FetchAnswer) and ready.answer.serves_records
    assert bench.quorum.high_watermark is None
    assert isinstance(bench.quorum._core.role, Leader)
    assert list(bench.quorum._core.role.observers) == [stranger, voter_node(2, disk=9).key]


def test_a_fetch_waits_where_there_is_nothing_to_answer() -> None:
    bench = led()
    answer = fetch_answer(bench.request(fetch(TWO, 1, 0)))
    assert not answer.can_wait
    answer = fetch_answer(bench.request(fetch(TWO, 1, 1, 1)))
    assert answer.high_watermark == 1 and not answer.can_wait
    answer = fetch_answer(bench.request(fetch(TWO, 1, 1, 1, high_watermark=1)))
    assert answer.can_wait
    bench.log.append(Entry(1, "more"))
    assert bench.flush().wake_fetches


def test_answers_name_the_leaders_address_on_the_listener_asked() -> None:
    bench = led()
    answer = fetch_answer(bench.request(fetch(TWO, 1, 0)))
    assert answer.leader_endpoint == Endpoint("localhost", 9001)
    answer = fetch_answer(bench.request(fetch(TWO, 1, 0), Caller(17, "OTHER")))
    assert answer.leader_endpoint is None


def test_a_leader_below_what_it_knew_as_committed_ends_the_node() -> None:
    bench = led()
    bench.quorum._core.high_watermark = 5
    with pytest.raises(QuorumViolation, match="go back"):
        bench.request(fetch(TWO, 1, 1, 1))


@given(st.lists(st.none() | st.integers(0, 20), min_size=1, max_size=7), st.integers(0, 20))
def test_the_commit_rule_is_the_definition_of_a_majority(ends: list[int | None], epoch_start: int) -> None:
    voters = voter_set(*range(1, len(ends) + 1))
    leader = Leader(voter_node(1), 1, epoch_start, voters, Timing(), 0.0)
    leader.flushed(ends[0] or 0, 0.0)
    for voter, offset in list(enumerate(ends, start=1))[1:]:
        if offset is not None:
            leader.fetched(voter_node(voter).key, offset, 0.0)
    held = [ends[0] or 0, *(-1 if offset is None else offset for offset in ends[1:])]
    replicated = max(offset for offset in range(-1, 21) if sum(end >= offset for end in held) > len(ends) / 2)
    assert leader.high_watermark == (replicated if replicated > epoch_start else None)


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 30)), max_size=30))
def test_a_high_watermark_never_goes_back_even_if_a_follower_does(fetches: list[tuple[int, int]]) -> None:
    leader, known, end = Leader(voter_node(1), 1, 0, voter_set(1, 2, 3), Timing(), 0.0), 0, 0
    for voter, offset in fetches:
        if voter == 1:
            end = max(end, offset)
            leader.flushed(end, 0.0)
        else:
            leader.fetched(voter_node(voter).key, offset, 0.0)
        assert (leader.high_watermark or 0) >= known
        known = leader.high_watermark or 0


def test_a_leaders_log_never_shrinks() -> None:
    leader = Leader(voter_node(1), 1, 0, voter_set(1, 2, 3), Timing(), 0.0)
    leader.flushed(5, 0.0)
    with pytest.raises(AssertionError, match="only grows"):
        leader.flushed(4, 0.0)
