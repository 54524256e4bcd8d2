"""Group C, controller quorum: who may vote, stand and lead (C1, C2, C6, C7)."""

from __future__ import annotations

from typing import Any

import pytest

from highwater.errors import Code
from highwater.quorum import LogPosition, ReplicaKey, Role
from highwater.quorum.messages import vote
from highwater.sim.cluster import CLUSTER_ID
from highwater.wire.messages.vote_response import VoteResponse
from tests.scenarios.metadata import (
    QUORUM_STATE,
    agree,
    controller,
    create,
    create_topic,
    has_quorum,
    leaders,
    others,
    quorum,
    raft,
)
from tests.scenarios.stage import Stage

FETCH_TIMEOUT = 0.8
"""Of simulated clusters."""


async def ask_vote(stage: Stage, voter: str, candidate: ReplicaKey, epoch: int, by: str) -> bool:
    """A vote in earnest, asked by a candidate whose log is beyond all others, from a machine of its own."""
    wanted = raft(stage, voter).identity.node.key
    request = vote(CLUSTER_ID, wanted, candidate, epoch, LogPosition(epoch - 1, 1000), False)
    at = stage.member(voter).controller
    answer = await stage.visitor(by).client.ask(at, request, VoteResponse, 5.0)
    assert answer.error_code == Code.NONE
    granted: bool = answer.topics[0].partitions[0].vote_granted
    return granted


@pytest.mark.parametrize("seed", range(6))
def test_c1_a_vote_is_synced_before_it_is_answered_so_a_power_cut_does_not_bring_a_second_one(seed: int) -> None:
    """A voter alone, asked for its vote; its power is cut the moment the answer is there; asked again by another
    candidate in the same epoch: it must remember, or the epoch might have two leaders."""
    with Stage(3, voters=3, seed=seed, starts=False) as stage:
        stage.start("n3", waits=False)
        stage.until(lambda: has_quorum(stage, "n3"))
        first, second, _ = raft(stage, "n3").voters.keys
        pending = stage.begin(ask_vote(stage, "n3", first, 7, "first"), "first")
        stage.until(lambda: pending.done)
        assert pending.result is True
        stage.cut_power("n3")
        stage.start("n3", waits=False)
        stage.until(lambda: has_quorum(stage, "n3"))
        assert not stage.run(ask_vote(stage, "n3", second, 7, "second"), "second"), "it voted twice in one epoch"
        assert stage.run(ask_vote(stage, "n3", first, 7, "again"), "again"), "its vote still stands"
        stage.start("n1", "n2")
        stage.until(lambda: agree(stage, "n1", "n2", "n3"))
        assert quorum(stage, "n3").epoch > 7, "the epoch in which a stranger got the vote has no leader"


def test_c2_a_leader_that_restarts_in_its_epoch_does_not_lead_it_again() -> None:
    """The voters have elected a leader that dies before any of them hears of it, and comes back at once: they would
    give it the same vote again, but what it wrote in that epoch may be gone, so another epoch must begin."""
    with Stage(3, voters=3, starts=False, watched=True) as stage:
        stage.start("n1", "n2", "n3", waits=False)
        stage.until(lambda: leaders(stage))
        (leader,) = leaders(stage)
        epoch = quorum(stage, leader).epoch
        for other in others(stage, leader):
            stage.cut(leader, other, one_way=True)
        stage.until(lambda: f'"leaderId":{leader[1:]},"leaderEpoch":{epoch}' in durable_state(stage, leader))
        stage.cut_power(leader)
        stage.heal()
        assert all(quorum(stage, other).leader_id is None for other in others(stage, leader))
        stage.start(leader, waits=False)
        stage.until(lambda: has_quorum(stage, leader))
        assert quorum(stage, leader).epoch == epoch

        def leads_again() -> bool:
            return leader in leaders(stage) and quorum(stage, leader).epoch == epoch

        stage.holds_for(3.0, lambda: not leads_again(), f"{leader} leads epoch {epoch} in a second life")
        stage.until(lambda: all(stage.serves(name) for name in stage.cluster.names))
        assert quorum(stage, controller(stage)).epoch > epoch


def durable_state(stage: Stage, name: str) -> str:
    return (stage.storage(name).durable_bytes(QUORUM_STATE) or b"").decode()


def test_c6_a_leader_that_is_cut_from_the_majority_but_not_from_clients_resigns_within_its_timeout() -> None:
    """The active controller, with fetches of the other voters on hold, is cut from them and keeps its clients: it must
    not go on as a controller that no other node knows, nor answer a client that anything is decided."""
    with Stage(3, voters=3, watched=True) as stage:
        old = controller(stage)
        stage.until(lambda: agree(stage, *stage.cluster.names))
        stage.isolate(old)
        asked = stage.begin(create_topic(stage, old, "lost", ms=1_000))
        stage.until(lambda: quorum(stage, old).role is not Role.LEADER, FETCH_TIMEOUT * 1.5 + 0.1)
        node = stage.node(old)
        stage.until(lambda: node.controller is not None and not node.controller.is_active, 0.1)
        stage.until(lambda: asked.done)
        assert asked.result is not Code.NONE
        new = controller(stage)
        create(stage, new, "kept")
        stage.heal()
        stage.until(lambda: agree(stage, *stage.cluster.names))
        assert sorted(raft(stage, old).committed.topics.by_name) == ["kept"]


def test_c7_a_voter_that_was_isolated_is_denied_its_pre_vote_and_raises_no_epoch() -> None:
    """A voter with a log as good as any is alone for many election timeouts; the others have a leader all the time.
    Coming back in the midst of asking for pre-votes it neither ends that leader's epoch nor stays Prospective."""
    quiet: dict[str, Any] = {"metadata_max_idle_interval_ms": 0, "broker_session_timeout_ms": 60_000}
    with Stage(3, voters=3, watched=True, **quiet) as stage:
        leader = controller(stage)
        epoch = quorum(stage, leader).epoch
        lonely, follower = others(stage, leader)
        stage.until(lambda: agree(stage, *stage.cluster.names))
        stage.isolate(lonely)
        stage.pass_time(8.0)
        stage.until(lambda: quorum(stage, lonely).role is Role.PROSPECTIVE)
        assert raft(stage, lonely).log.durable_end == raft(stage, leader).log.durable_end
        stage.heal()
        stage.holds_for(
            3.0,
            lambda: (
                leaders(stage) == [leader] and quorum(stage, follower).epoch == quorum(stage, leader).epoch == epoch
            ),
            "the voter that came back has ended the leader's epoch",
        )
        assert quorum(stage, lonely).role is Role.FOLLOWER
        assert quorum(stage, lonely).epoch == epoch
