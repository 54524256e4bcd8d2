"""What a peer's word is worth: refusals, half answers, and leaders that are named twice or not at all."""

from __future__ import annotations

import pytest

from highwater.errors import Code
from highwater.model import Endpoint, NodeId
from highwater.quorum import Caller, ElectionState, FetchAnswer, QuorumViolation, Role, Timing
from highwater.quorum import messages as wire
from highwater.quorum.leader import Leader
from highwater.quorum.links import Links
from highwater.quorum.log_view import BOOTSTRAP_SNAPSHOT
from highwater.quorum.messages import AnswerHead
from highwater.quorum.prospective import Prospective
from highwater.quorum.ready import Peer
from highwater.quorum.voters import KRAFT_VERSIONS, VoterListener
from highwater.quorum.votes import Tally
from highwater.wire.codec import Message
from highwater.wire.messages.begin_quorum_epoch_response import BeginQuorumEpochResponse
from highwater.wire.messages.end_quorum_epoch_request import EndQuorumEpochRequest
from highwater.wire.messages.end_quorum_epoch_response import EndQuorumEpochResponse
from highwater.wire.messages.vote_response import VoteResponse
from tests.unit.quorum.bench import (
    THREE,
    TWO,
    Bench,
    begin,
    end,
    error_of,
    fetch,
    granted,
    records,
    refused,
    vote,
    vote_of,
)
from tests.unit.quorum.memory_log import MemoryLog
from tests.unit.quorum.replicas import CONTROLLER, voter_node, voter_set


def test_the_levels_of_the_quorum_are_kafkas() -> None:
    assert KRAFT_VERSIONS == (0, 1)


def test_a_leader_that_comes_back_announces_that_its_epoch_is_over() -> None:
    bench = Bench(stored=ElectionState(5, NodeId(1)), log=MemoryLog.of_epochs(5))
    assert bench.receivers == [2, 3]
    assert all(isinstance(request.message, EndQuorumEpochRequest) for request in bench.ready.requests)


def test_a_leader_outside_the_voters_that_resigned_leaves_its_epoch_after_an_election_timeout() -> None:
    bench = Bench().to_leader()
    bench.quorum.voters_changed(voter_set(2, 3), 1, bench.now)
    bench.quorum.resign(1, bench.now)
    bench.pass_time(1.51)
    assert (bench.role(), bench.quorum.epoch) == (Role.UNATTACHED, 2)


@pytest.mark.parametrize("error", [Code.NONE, Code.FENCED_LEADER_EPOCH, Code.NOT_LEADER_OR_FOLLOWER])
def test_two_leaders_of_one_epoch_end_the_node_with_any_error_code(error: Code) -> None:
    bench = Bench().to_follower(2, 3)
    with pytest.raises(QuorumViolation, match="a peer names 3 as leader of epoch 3, but this node knows 2"):
        bench.answer(2, FetchAnswer(error, NodeId(3), 3))


def test_a_leader_that_resigned_and_is_named_as_the_leader_stays_in_its_epoch() -> None:
    bench = Bench().to_resigned()
    bench.answer(2, wire.end_epoch_answer(AnswerHead(Code.FENCED_LEADER_EPOCH, NodeId(1), 1)))
    assert (bench.role(), bench.quorum.epoch) == (Role.RESIGNED, 1)


@pytest.mark.parametrize("say", [begin, end])
def test_a_leader_is_where_it_says_and_else_where_the_voters_have_it(say: type) -> None:
    elsewhere = (VoterListener(CONTROLLER, "elsewhere", 1),)
    bench = Bench()
    message = say(2, 3)
    message.leader_endpoints = [type(message.leader_endpoints[0])(name=CONTROLLER, host="elsewhere", port=1)]
    bench.request(message)
    assert bench.quorum.leader_listeners == elsewhere
    silent = say(3, 4)
    silent.leader_endpoints = []
    bench.request(silent)
    assert bench.quorum.leader_listeners == voter_node(3).listeners


@pytest.mark.parametrize("topics", ["none", "two", "another partition", "two partitions", "another topic"])
def test_an_answer_about_anything_but_the_metadata_log_says_nothing(topics: str) -> None:
    bench = Bench().to_prospective()
    answer = granted(0)
    match topics:
        case "none":
            answer.topics = []
        case "two":
            answer.topics *= 2
        case "another partition":
            answer.topics[0].partitions[0].partition_index = 1
        case "two partitions":
            answer.topics[0].partitions *= 2
        case "another topic":
            answer.topics[0].topic_name = "another"
    bench.answer(2, answer)
    assert bench.role() == Role.PROSPECTIVE
    assert bench.ready.requests == []
    assert bench.pass_time(0.02).requests != []


REFUSALS: list[tuple[str, Message]] = [
    ("to_leader", BeginQuorumEpochResponse(error_code=Code.INCONSISTENT_CLUSTER_ID)),
    ("to_leader", wire.begin_epoch_answer(AnswerHead(Code.UNKNOWN_LEADER_EPOCH, None, 1))),
    ("to_resigned", EndQuorumEpochResponse(error_code=Code.INCONSISTENT_CLUSTER_ID)),
    ("to_resigned", wire.end_epoch_answer(AnswerHead(Code.UNKNOWN_LEADER_EPOCH, None, 1))),
    ("to_resigned", wire.end_epoch_answer(AnswerHead(Code.INVALID_REQUEST, None, 1))),
    ("to_prospective", wire.vote_answer(AnswerHead(Code.UNKNOWN_LEADER_EPOCH, None, 0), granted=False)),
    ("to_candidate", wire.vote_answer(AnswerHead(Code.NONE, None, 0), granted=True)),
]


@pytest.mark.parametrize(("way", "answer"), REFUSALS)
def test_a_peer_that_refuses_is_asked_again_after_a_pause_and_changes_nothing(way: str, answer: Message) -> None:
    bench = getattr(Bench(), way)()
    before = bench.role(), bench.quorum.epoch
    assert bench.answer(2, answer).requests == []
    assert not bench.quorum._core.links.is_ready(bench.quorum._core.peer(NodeId(2)))
    assert (bench.role(), bench.quorum.epoch) == before
    bench.pass_time(1.1 if way == "to_leader" else 0.02)
    assert 2 in bench.receivers


def test_a_peer_that_accepted_the_new_leader_is_asked_again_without_a_pause() -> None:
    """Only its fetches show that it follows."""
    bench = Bench().to_leader()
    bench.answer(2, wire.begin_epoch_answer(AnswerHead(Code.NONE, NodeId(1), 1)))
    assert bench.quorum._core.links.is_ready(bench.quorum._core.peer(NodeId(2)))


@pytest.mark.parametrize(
    ("version", "asked", "code"),
    [
        (0, "begin", Code.INVALID_REQUEST),
        (1, "begin", Code.INVALID_VOTER_KEY),
        (0, "end", Code.INVALID_REQUEST),
        (1, "end", Code.INVALID_VOTER_KEY),
        (0, "vote", Code.NONE),
        (1, "vote", Code.INVALID_VOTER_KEY),
    ],
)
def test_a_stranger_gets_an_error_from_version_1_on(version: int, asked: str, code: Code) -> None:
    bench = Bench()
    stranger: dict[str, Message] = {"begin": begin(7, 3), "end": end(7, 3), "vote": vote(voter_node(7).key, 3)}
    assert error_of(bench.request(stranger[asked], Caller(version, CONTROLLER))) == code
    assert bench.quorum.epoch == 0


def test_a_candidate_that_can_no_longer_win_sends_no_more_votes() -> None:
    bench = Bench(voters=voter_set(1, 2, 3, 4, 5)).to_prospective()
    for peer in (2, 3):
        bench.answer(peer, granted(0))
    assert bench.role() == Role.CANDIDATE
    bench.quorum.failed(bench.correlation(5), bench.now)
    for peer in (2, 3, 4):
        bench.answer(peer, refused(1))
    assert bench.pass_time(0.02).requests == []
    assert bench.role() == Role.CANDIDATE


@pytest.mark.parametrize(("yields_until", "deadline"), [(None, 5.0), (3.0, 3.0), (7.0, 5.0)])
def test_a_yielding_replica_is_due_at_the_end_of_its_wait_but_not_after_its_election(
    yields_until: float | None, deadline: float
) -> None:
    tally = Tally(voter_set(1, 2, 3), NodeId(1))
    asking = Prospective(1, 5.0, tally, yields_until=yields_until)
    assert asking.deadline() == 5.0
    tally.record(NodeId(2), True)
    assert asking.deadline() == deadline
    assert asking.may_stand(7.0)
    assert asking.may_stand(3.0) is (yields_until != 7.0)


def test_an_epoch_begins_with_records_of_the_versions_that_kafka_writes() -> None:
    start = Bench(voters=voter_set(1), voters_offset=-1).ready.epoch_start
    assert start is not None and start.kraft_version is not None and start.voters is not None
    assert (start.leader_change.version, start.kraft_version.version, start.voters.version) == (0, 0, 0)


def test_a_refusal_of_a_fetch_has_no_offsets() -> None:
    answer = Bench().to_follower(2, 3).request(fetch(THREE, 3, 0)).answer
    assert isinstance(answer, FetchAnswer)
    assert (answer.high_watermark, answer.log_start, answer.can_wait) == (-1, -1, False)


def test_a_high_watermark_that_arrives_twice_is_news_once() -> None:
    bench = Bench(log=MemoryLog.of_epochs(1, 1), stored=ElectionState(1)).to_follower(2, 1)
    assert bench.answer(2, records(2, 1, 1)).high_watermark == 1
    assert bench.answer(2, records(2, 1, 1)).high_watermark is None
    assert bench.answer(2, records(2, 1, 2)).high_watermark == 2


def test_a_leader_that_does_not_know_what_is_committed_says_so() -> None:
    answer = Bench().to_leader().request(fetch(THREE, 1, 0)).answer
    assert isinstance(answer, FetchAnswer)
    assert answer.high_watermark == -1


def leading(bench: Bench) -> Leader:
    leader = bench.quorum._core.role
    assert isinstance(leader, Leader)
    return leader


def test_a_voter_is_silent_once_it_has_not_fetched_for_an_interval() -> None:
    bench = Bench().to_leader()
    interval = bench.quorum._core.timing.begin_epoch_interval
    leader = leading(bench)
    leader.fetched(TWO, 0, 8.0)
    assert [key.id for key in leader.silent_voters(8.0 + 0.5 * interval)] == [3]
    assert [key.id for key in leader.silent_voters(8.0 + interval)] == [2, 3]


def test_a_voter_that_is_none_any_more_is_known_as_an_observer() -> None:
    bench = Bench().to_leader()
    bench.request(fetch(THREE, 1, 0))
    bench.quorum.voters_changed(voter_set(1, 2), 1, bench.now)
    leader = leading(bench)
    assert list(leader.voters) == [1, 2]
    assert leader.observers[THREE].last_fetch == bench.now


@pytest.mark.parametrize("is_synced", [False, True])
def test_a_leader_whose_epoch_could_not_be_begun_resigns_and_waits_for_what_is_not_synced(is_synced: bool) -> None:
    bench = Bench().to_leader()
    if is_synced:
        bench.log.sync()
    bench.ready = bench.quorum.epoch_not_begun(1, bench.now)
    assert bench.role() == Role.RESIGNED
    assert bench.quorum._core.log_busy is not is_synced


@pytest.mark.parametrize(("error", "is_alive"), [(Code.NONE, True), (Code.SNAPSHOT_NOT_FOUND, False)])
def test_only_an_answer_without_error_shows_that_the_leader_of_a_snapshot_lives(error: Code, is_alive: bool) -> None:
    bench = Bench().to_follower(2, 1)
    bench.answer(2, records(2, 1))
    ends = bench.quorum._core.role.deadline()
    bench.now += 0.5
    bench.quorum.snapshot_answered(error, NodeId(2), 1, voter_node(2).listeners, bench.now)
    assert bench.quorum._core.role.deadline() == (ends + 0.5 if is_alive else ends)


def test_a_leader_of_a_later_epoch_without_a_known_address_is_known_and_looked_for() -> None:
    bench = Bench().to_prospective()
    bench.answer(2, wire.vote_answer(AnswerHead(Code.FENCED_LEADER_EPOCH, NodeId(7), 9), granted=False))
    assert (bench.role(), bench.quorum.epoch, bench.quorum.leader_id) == (Role.UNATTACHED, 9, 7)


def test_a_high_watermark_of_zero_is_one_and_one_below_zero_is_none() -> None:
    bench = Bench().to_follower(2, 1)
    assert bench.answer(2, records(2, 1, -1)).high_watermark is None
    assert bench.answer(2, records(2, 1, 0)).high_watermark == 0


def test_the_snapshot_that_a_cluster_begins_with_ends_at_nothing() -> None:
    assert BOOTSTRAP_SNAPSHOT == (0, 0)


def test_a_follower_looks_after_its_request_before_its_leader_is_given_up() -> None:
    bench = Bench(timing=Timing(request_timeout=0.5)).to_follower(2, 1)
    assert bench.quorum.next_deadline() == pytest.approx(bench.now + 0.5)


def test_a_leader_outside_the_voters_that_hears_no_voter_resigns() -> None:
    bench = Bench().to_leader()
    bench.quorum.voters_changed(voter_set(2, 3), 1, bench.now)
    bench.pass_time(2.9)
    assert bench.role() == Role.LEADER
    deadline = bench.quorum.next_deadline()
    assert deadline is not None and deadline <= bench.now + 0.2
    bench.pass_time(0.2)
    assert bench.role() == Role.RESIGNED


def test_a_follower_that_hears_of_a_later_election_has_a_whole_timeout_of_its_own() -> None:
    bench = Bench(log=MemoryLog.of_epochs(1, 1), stored=ElectionState(1)).to_follower(2, 1)
    assert error_of(bench.request(vote(THREE, 5, (0, 0)))) == Code.NONE
    assert (bench.role(), bench.quorum.epoch, bench.quorum.voted) == (Role.UNATTACHED, 5, None)
    assert bench.quorum._core.role.deadline() == pytest.approx(bench.now + 1.5)


def test_of_several_addresses_the_one_of_the_leader_is_taken() -> None:
    bench = Bench().to_prospective()
    answer = wire.vote_answer(AnswerHead(Code.FENCED_LEADER_EPOCH, NodeId(3), 9, Endpoint("right", 3)), granted=False)
    wrong = type(answer.node_endpoints[0])(node_id=2, host="wrong", port=2)
    answer.node_endpoints.insert(0, wrong)
    bench.answer(2, answer)
    assert bench.quorum.leader_listeners == (VoterListener(CONTROLLER, "right", 3),)


def test_an_observer_has_no_election_to_wake_up_for() -> None:
    bench = Bench(node=9)
    deadline = bench.quorum.next_deadline()
    assert deadline is not None and deadline > bench.now + 1.6, "only its request may time out"


@pytest.mark.parametrize("asked", ["vote", "begin"])
def test_a_request_for_node_0_is_refused_by_other_nodes(asked: str) -> None:
    other = voter_node(0).key
    message: Message = vote(TWO, 3, voter=other) if asked == "vote" else begin(2, 3, voter=other)
    assert error_of(Bench().request(message)) == Code.INVALID_VOTER_KEY


def test_no_fetch_is_woken_for_nothing() -> None:
    assert Bench().ready.wake_fetches is False
    assert Bench().to_follower(2, 1).ready.wake_fetches is False


def test_a_fetch_that_commits_nothing_wakes_no_other_fetch() -> None:
    bench = Bench().to_leader()
    bench.flush()
    assert bench.request(fetch(TWO, 1, 1, 1)).wake_fetches
    assert bench.quorum.high_watermark == 1
    assert bench.request(fetch(THREE, 1, 1, 1)).wake_fetches is False


def test_the_next_change_of_links_is_the_timeout_of_the_oldest_request() -> None:
    links = Links(Timing(request_timeout=2.0))
    assert links.next_change() is None
    links.send(Peer(NodeId(2), None), 10.0)
    links.send(Peer(NodeId(3), None), 11.0)
    assert links.next_change() == 12.0


@pytest.mark.parametrize("way", ["to_prospective", "to_candidate", "to_leader", "to_resigned", "to_follower"])
def test_a_node_fetches_no_snapshot_unless_its_leader_asks_it_to(way: str) -> None:
    assert getattr(Bench(), way)().quorum.fetching_snapshot is None


def test_a_voter_that_has_voted_may_still_grant_another_pre_vote() -> None:
    bench = Bench()
    assert vote_of(bench.request(vote(TWO, 3)))
    assert not vote_of(bench.request(vote(THREE, 3)))
    assert vote_of(bench.request(vote(THREE, 3, pre_vote=True)))


def test_a_leader_outside_the_voters_still_announces_itself_to_them() -> None:
    bench = Bench().to_leader()
    bench.quorum.voters_changed(voter_set(2, 3), 1, bench.now)
    for peer in (2, 3):
        bench.answer(peer, wire.begin_epoch_answer(AnswerHead(Code.NONE, NodeId(1), 1)))
    bench.pass_time_to_deadline()
    assert (bench.role(), bench.receivers) == (Role.LEADER, [2, 3])


def test_an_answer_of_an_earlier_epoch_is_ignored() -> None:
    bench = Bench(stored=ElectionState(3), log=MemoryLog.of_epochs(3)).to_prospective()
    bench.answer(2, wire.vote_answer(AnswerHead(Code.FENCED_LEADER_EPOCH, NodeId(3), 2), granted=False))
    assert (bench.role(), bench.quorum.epoch, bench.quorum.leader_id) == (Role.PROSPECTIVE, 3, None)
    bench.pass_time(0.02)
    assert bench.receivers == [2], "it has not answered yet"


def test_a_leader_is_announced_once() -> None:
    bench = Bench().to_follower(2, 3)
    assert bench.ready.leadership is not None and bench.ready.leadership.leader_id == 2
    assert bench.pass_time(0.01).leadership is None


def test_a_second_vote_in_an_epoch_ends_the_node() -> None:
    core = Bench().quorum._core
    core.vote_for(TWO, 100.0)
    with pytest.raises(QuorumViolation, match="and now for"):
        core.vote_for(THREE, 100.0)


FOREIGN = VoteResponse(error_code=Code.INCONSISTENT_CLUSTER_ID)


def test_a_node_whose_voters_are_of_another_cluster_ends_and_says_so() -> None:
    bench = Bench().to_prospective()
    bench.answer(2, FOREIGN)
    with pytest.raises(QuorumViolation, match=r"cluster .*voters \[2, 3\].*meta.properties"):
        bench.answer(3, FOREIGN)


def test_one_voter_of_another_cluster_ends_no_node_while_the_others_are_a_majority() -> None:
    bench = Bench().to_prospective()
    bench.answer(2, FOREIGN)
    bench.pass_time(0.02)
    bench.answer(2, FOREIGN)
    assert bench.role() == Role.PROSPECTIVE


def test_a_voter_that_has_come_home_counts_again() -> None:
    bench = Bench().to_prospective()
    bench.answer(2, FOREIGN)
    bench.pass_time(0.02)
    bench.answer(2, wire.vote_answer(AnswerHead(Code.UNKNOWN_LEADER_EPOCH, None, 0), granted=False))
    bench.answer(3, FOREIGN)
    assert bench.role() == Role.PROSPECTIVE


def test_a_node_that_has_seen_its_quorum_commit_goes_on_when_its_voters_are_of_another_cluster() -> None:
    """It still serves what it has: the mistake is the others'."""
    bench = Bench(voters=voter_set(1, 2)).to_leader()
    bench.quorum._core.high_watermark = 1
    bench.answer(2, BeginQuorumEpochResponse(error_code=Code.INCONSISTENT_CLUSTER_ID))
    assert bench.role() == Role.LEADER


def test_an_observer_whose_voters_are_of_another_cluster_ends_and_says_so() -> None:
    bench = Bench(node=4)
    bench.answer(bench.receivers[0], FetchAnswer(Code.INCONSISTENT_CLUSTER_ID, None, -1))
    with pytest.raises(QuorumViolation, match="another one"):
        bench.answer(bench.receivers[0], FetchAnswer(Code.INCONSISTENT_CLUSTER_ID, None, -1))


def test_a_voter_that_asks_and_hears_of_a_later_epoch_waits_no_longer_than_it_would_have() -> None:
    bench = Bench(log=MemoryLog.of_epochs(1, 1)).to_prospective()
    deadline = bench.quorum._core.role.deadline()
    bench.pass_time(0.3)
    assert not vote_of(bench.request(vote(TWO, 5))), "its log is shorter than ours"
    assert (bench.role(), bench.quorum.epoch) == (Role.UNATTACHED, 5)
    assert bench.quorum._core.role.deadline() == deadline


def test_a_leader_resigns_once_a_majority_has_not_fetched_for_too_long() -> None:
    bench = Bench().to_leader()
    bench.pass_time(0.5)
    heard = bench.now
    bench.request(fetch(TWO, 1, 0))
    while bench.role() == Role.LEADER:
        for request in bench.ready.requests:
            bench.answer(request.peer.id, wire.begin_epoch_answer(AnswerHead(Code.NONE, NodeId(1), 1)))
        bench.pass_time_to_deadline()
    assert bench.now == pytest.approx(heard + Timing().check_quorum_timeout)
