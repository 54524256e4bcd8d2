"""Where voters and leaders are looked for that do not answer at the address in the voter set."""

from __future__ import annotations

import pytest

from highwater.errors import Code
from highwater.model import Endpoint, NodeId
from highwater.quorum import ElectionState, FetchAnswer, QuorumViolation, Ready, Role
from highwater.quorum.whereabouts import Whereabouts
from highwater.wire.messages.vote_response import VoteResponse
from tests.unit.quorum.bench import Bench, records, refused
from tests.unit.quorum.replicas import voter_node, voter_set

OLD, NEW, NEWER = Endpoint("localhost", 9002), Endpoint("new", 1), Endpoint("newer", 2)
STRANGER = VoteResponse(error_code=Code.INCONSISTENT_CLUSTER_ID)


def asked(ready: Ready) -> Endpoint | None:
    """Where voter 2 is asked for its vote."""
    [request] = [request for request in ready.requests if request.peer.id == 2]
    return request.peer.endpoint


def in_vain(bench: Bench) -> Ready:
    bench.quorum.failed(bench.correlation(2), bench.now)
    return bench.pass_time(0.02)


def test_a_voter_that_does_not_answer_is_looked_for_at_the_bootstrap_servers() -> None:
    bench = Bench(bootstrap=(OLD, NEW, Endpoint("localhost", 9001), NEWER)).to_prospective()
    places = [asked(bench.ready), *(asked(in_vain(bench)) for _ in range(3))]
    assert places == [OLD, NEW, NEWER, OLD]


def test_a_voter_is_asked_again_where_it_has_answered() -> None:
    bench = Bench(bootstrap=(NEW, NEWER)).to_prospective()
    in_vain(bench)
    bench.answer(2, refused(0))
    assert asked(bench.pass_time(1.5)) == NEW, "in the next election"


def test_a_stranger_at_a_bootstrap_server_says_nothing_about_the_cluster_of_the_voter() -> None:
    bench = Bench(voters=voter_set(1, 2), bootstrap=(NEW,)).to_prospective()
    in_vain(bench)
    bench.answer(2, STRANGER)
    assert asked(bench.pass_time(0.02)) == OLD
    with pytest.raises(QuorumViolation, match="belong to another one"):
        bench.answer(2, STRANGER)


def test_an_answer_of_a_voter_that_was_not_asked_changes_no_place() -> None:
    places = [OLD, NEW]
    whereabouts = Whereabouts()
    whereabouts.answered(NodeId(2))
    assert whereabouts.ask(NodeId(2), places) == OLD


def told_where(leader: int, epoch: int, host: str) -> FetchAnswer:
    """A voter that does not lead names the leader and its address."""
    return FetchAnswer(Code.NOT_LEADER_OR_FOLLOWER, NodeId(leader), epoch, leader_endpoint=Endpoint(host, 99))


def test_a_leader_that_has_not_answered_is_where_it_was_last_seen() -> None:
    """The voter set is older than the epoch: the leader has moved in between."""
    bench = Bench(stored=ElectionState(5, NodeId(2)))
    bench.ready = bench.quorum.failed(bench.correlation(2), bench.now)
    assert bench.receivers == [3]
    bench.answer(3, told_where(2, 5, "elsewhere"))
    assert (bench.role(), bench.quorum.leader_id, bench.quorum.epoch) == (Role.FOLLOWER, 2, 5)
    [request] = bench.pass_time(0.02).requests
    assert request.peer == (2, Endpoint("elsewhere", 99))


def test_a_leader_that_has_answered_stays_where_it_was() -> None:
    bench = Bench().to_follower(2, 5)
    bench.answer(2, records(2, 5))
    bench.ready = bench.quorum.failed(bench.correlation(2), bench.now)
    bench.answer(3, told_where(2, 5, "elsewhere"))
    assert bench.quorum.leader_listeners == voter_node(2).listeners


def test_words_about_the_leaders_address_do_not_put_off_an_election() -> None:
    bench = Bench(stored=ElectionState(5, NodeId(2)))
    deadline = bench.quorum._core.role.deadline()
    bench.ready = bench.quorum.failed(bench.correlation(2), bench.now)
    bench.now += 0.5
    bench.answer(3, told_where(2, 5, "elsewhere"))
    assert bench.quorum._core.role.deadline() == deadline
