from __future__ import annotations

import pytest

from highwater.model import NodeId
from highwater.quorum import Peer, Timing
from highwater.quorum.links import Links


@pytest.mark.parametrize("name", ["election_timeout", "fetch_timeout", "request_timeout", "retry_backoff"])
def test_a_timeout_of_nothing_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        Timing(**{name: 0.0})


@pytest.mark.parametrize("name", ["election_backoff_max", "prompt_election"])
def test_a_negative_wait_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="negative"):
        Timing(**{name: -1.0})
    assert getattr(Timing(**{name: 0.0}), name) == 0


def test_the_defaults_are_kafkas() -> None:
    timing = Timing()
    assert (timing.begin_epoch_interval, timing.check_quorum_timeout, timing.sync_timeout) == (1.0, 3.0, 6.0)


def test_a_peer_has_one_request_under_way_at_a_time() -> None:
    links, peer = Links(Timing()), Peer(NodeId(2), None)
    correlation = links.send(peer, 0.0)
    assert not links.is_ready(peer) and links.any_in_flight()
    assert links.sender_of(correlation) == 2
    links.succeeded(NodeId(2))
    assert links.is_ready(peer)
    assert links.sender_of(correlation) is None


def test_a_request_without_answer_is_followed_by_a_pause_and_then_forgotten() -> None:
    links, peer = Links(Timing()), Peer(NodeId(2), None)
    correlation = links.send(peer, 0.0)
    links.expire(1.9)
    assert links.sender_of(correlation) == 2
    links.expire(2.0)
    assert links.sender_of(correlation) is None and not links.any_in_flight()
    assert links.next_change() == pytest.approx(2.02)
    links.expire(2.021)
    assert links.is_ready(peer) and links.next_change() is None


def test_a_failure_of_a_request_of_an_earlier_role_costs_nothing() -> None:
    links, peer = Links(Timing()), Peer(NodeId(2), None)
    links.send(peer, 0.0)
    links.reset()
    links.failed(NodeId(2), 0.0)
    assert links.is_ready(peer)
