"""A disk that hangs: a sync does not end, and reports no error. Its node can do all that needs no disk."""

from __future__ import annotations

from highwater.errors import Code
from highwater.quorum import Role
from tests.scenarios.metadata import agree, controller, create, create_topic, leaders, others, quorum, raft, topics
from tests.scenarios.stage import Stage

FOR_EVER = 1e12
"""So many times as long as usual."""


def test_a_leader_of_the_quorum_whose_disk_hangs_gives_way_to_another_voter_and_follows_it_later() -> None:
    """It answers fetches, so its followers take it for alive. But nothing that it appends is ever committed."""
    with Stage(3, voters=3, watched=True) as stage:
        hanging = controller(stage)
        other, _ = others(stage, hanging)
        stage.until(lambda: agree(stage, *stage.cluster.names))
        stage.storage(hanging).drag = FOR_EVER
        lost = stage.begin(create_topic(stage, hanging, "lost", by="lost"), "lost")
        stage.until(lambda: quorum(stage, hanging).role is not Role.LEADER)
        assert lost.result is not Code.NONE
        assert stage.said(
            hanging, "this leader of the quorum resigns: its disk has synced nothing of the metadata log for"
        )
        stage.until(lambda: leaders(stage) and leaders(stage) != [hanging])
        stage.until(lambda: stage.cluster.active_controller() in others(stage, hanging))
        create(stage, other, "kept")
        stage.storage(hanging).drag = 1.0
        stage.until(lambda: agree(stage, *stage.cluster.names))
        assert quorum(stage, hanging).role is Role.FOLLOWER
        assert "kept" in topics(stage, hanging)
        create(stage, hanging, "later")
        assert raft(stage, hanging).leader_id == raft(stage, other).leader_id


def test_a_leader_whose_disk_hangs_before_it_has_begun_its_epoch_gives_way() -> None:
    """Its vote for itself is on the disk, the first batch of its epoch never is. So it is no active controller yet,
    and has no decision to write."""
    with Stage(3, voters=3, watched=True) as stage:
        before = controller(stage)
        stage.until(lambda: agree(stage, *stage.cluster.names))
        stage.kill(before)
        stage.until(lambda: leaders(stage))
        (hanging,) = leaders(stage)
        stage.until(lambda: raft(stage, hanging).log_end > raft(stage, hanging).log.durable_end)
        stage.storage(hanging).drag = FOR_EVER
        stage.start(before, waits=False)
        stage.until(lambda: leaders(stage) and leaders(stage) != [hanging])
        stage.until(lambda: stage.cluster.active_controller() in others(stage, hanging))
        stage.until(lambda: stage.serves(before))
        create(stage, before, "kept")
        stage.storage(hanging).drag = 1.0
        stage.until(lambda: agree(stage, *stage.cluster.names))


def fenced(stage: Stage, by: str = "n1") -> list[int]:
    """The brokers that are fenced on the active controller's head."""
    found = stage.node(by).controller
    assert found is not None
    return sorted(broker.id for broker in found.head.brokers.by_id.values() if broker.fenced)


def test_brokers_that_cannot_be_answered_because_nothing_is_committed_are_not_fenced_as_silent() -> None:
    """The disk of the only controller hangs for many sessions. The brokers send heartbeats, give up waiting for the
    answer, and send others."""
    with Stage(3, watched=True) as stage:
        stage.create(replicas=(2, 3))
        stage.storage("n1").drag = FOR_EVER
        stage.holds_for(20.0, lambda: not fenced(stage), "a broker was fenced that could not be answered")
        stage.storage("n1").drag = 1.0
        stage.holds_for(20.0, lambda: not fenced(stage), "a broker was fenced that could not be answered before")
        assert stage.leader() == "n2"
        stage.send(b"m1")


def test_a_broker_that_falls_silent_while_nothing_is_committed_has_a_whole_session_after_it_and_no_more() -> None:
    with Stage(3, watched=True) as stage:
        stage.create(replicas=(2, 3))
        stage.storage("n1").drag = FOR_EVER
        stage.pass_time(5.0)
        stage.pause("n2")
        stage.holds_for(5.0, lambda: not fenced(stage))
        stage.storage("n1").drag = 1.0
        stage.holds_for(1.0, lambda: not fenced(stage))
        stage.until(lambda: fenced(stage) == [2], 2.0)
        stage.resume("n2")
        stage.until(lambda: not fenced(stage))


def test_brokers_that_lived_on_while_the_quorum_had_no_majority_are_not_fenced_when_it_has_one_again() -> None:
    """For many sessions nobody answered their heartbeats."""
    with Stage(5, voters=3, watched=True) as stage:
        stage.create(replicas=(4, 5))
        last, *lost = (controller(stage), *others(stage, controller(stage), "n4", "n5"))
        stage.kill(*lost)
        stage.until(lambda: not leaders(stage))
        stage.pass_time(20.0)
        stage.start(*lost, waits=False)
        stage.until(stage.cluster.active_controller)
        living = {int(last[1]), 4, 5}

        def none_is_fenced() -> bool:
            active = stage.cluster.active_controller()
            return active is None or living.isdisjoint(fenced(stage, active))

        stage.holds_for(10.0, none_is_fenced, "a broker was fenced that had lived all the time")
        stage.send(b"m1")
        assert stage.leader() == "n4"
