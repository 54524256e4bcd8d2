"""Scenario B15 and its neighbours: replicas that are removed and added by reassignments (KIP-455)."""

from __future__ import annotations

from collections.abc import Sequence

from highwater.broker.status import summary
from highwater.errors import Code, code_of
from highwater.model import NO_NODE
from highwater.wire.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from highwater.wire.messages.alter_partition_reassignments_response import AlterPartitionReassignmentsResponse
from tests.scenarios.stage import ORDERS, Stage
from tests.scenarios.visitor import UNCLEAN


def reassign(stage: Stage, target: Sequence[int] | None, via: str = "n3") -> Code:
    row = ReassignablePartition(partition_index=0, replicas=None if target is None else list(target))
    request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=ORDERS.topic, partitions=[row])])
    answer = stage.run(stage.client.ask(via, request, AlterPartitionReassignmentsResponse))
    return code_of(answer.error_code or answer.responses[0].partitions[0].error_code)


def test_b15_a_replica_that_is_removed_and_added_again_in_one_step_must_fetch_again_before_it_counts() -> None:
    """n2 leads, and n3 is in sync. n2 is paused while n3 is removed and added again, so that n2 learns both at once. n3
    has begun an empty log by then. Must hold: what n3 fetched before does not count, and it joins the ISR only when it
    has everything again."""
    with Stage(4, watched=True, broker_session_timeout_ms=10_000, replica_lag_time_max_ms=60_000) as stage:
        stage.create(replicas=(2, 3, 4))
        stage.send(b"m1", b"m2")
        followers = stage.partition("n2").require_leader().followers
        stage.until(lambda: all(each.end == 2 for each in followers.values()))
        stage.pause("n2")
        # The fetch of metadata that n2 has sent is answered with this change; its next fetch gets the others together.
        assert reassign(stage, (2, 4, 3), via="n1") is Code.NONE
        assert reassign(stage, (2, 4), via="n1") is Code.NONE
        stage.until(lambda: not stage.has("n3"))
        assert reassign(stage, (2, 4, 3), via="n1") is Code.NONE
        stage.until(lambda: stage.has("n3"))
        assert (stage.image().isr, stage.image().adding, stage.log("n3").log_end) == ((2, 4), (3,), 0)
        stage.cut("n2", "n3")
        stage.resume("n2")
        stage.until(lambda: stage.partition("n2").partition_epoch == stage.image().partition_epoch)
        leader = stage.partition("n2").require_leader()
        assert leader.followers[leader.replicas[2]].end is None, "nothing is known of the new log"
        stage.write("n2", b"m3")
        stage.holds_for(1.0, lambda: stage.image().isr == (2, 4), "n3 has nothing yet")
        stage.heal()
        stage.until(lambda: set(stage.image().isr) == {2, 3, 4} and not stage.image().adding)
        assert stage.values("n3") == [b"m1", b"m2", b"m3"]


def test_a_partition_moves_to_other_brokers_and_its_old_ones_delete_their_logs() -> None:
    with Stage(5, watched=True) as stage:
        stage.create(replicas=(2, 3))
        stage.send(b"m1", b"m2")
        assert reassign(stage, (4, 5)) is Code.NONE
        stage.until(lambda: stage.image().replicas == (4, 5))
        stage.until(lambda: stage.leader() in ("n4", "n5") and not stage.has("n2") and not stage.has("n3"))
        stage.send(b"m3")
        stage.until(lambda: stage.values("n4") == stage.values("n5") == [b"m1", b"m2", b"m3"])
        assert stage.read() == [b"m1", b"m2", b"m3"]


def test_a_move_goes_on_though_the_leader_the_target_and_the_controller_die_meanwhile() -> None:
    with Stage(5, 3, watched=True) as stage:
        stage.create(replicas=(2, 3))
        stage.send(b"m1")
        stage.kill("n4")
        assert reassign(stage, (4, 5)) is Code.NONE
        stage.until(lambda: 5 in stage.image().isr)
        stage.kill("n2")
        stage.until(lambda: stage.leader() in ("n3", "n5"))
        stage.send(b"m2")
        stage.kill("n1")
        stage.start("n2", "n4")
        stage.until(lambda: stage.image().replicas == (4, 5) and not stage.image().removing, seconds=60.0)
        stage.until(lambda: stage.values("n4") == stage.values("n5") == [b"m1", b"m2"])


def test_a_move_that_is_cancelled_halfway_leaves_the_replicas_and_records_that_there_were() -> None:
    with Stage(5, watched=True) as stage:
        stage.create(replicas=(2, 3))
        stage.send(b"m1")
        stage.kill("n4")
        assert reassign(stage, (4, 5)) is Code.NONE
        stage.until(lambda: 5 in stage.image().isr)
        broker = stage.node("n2").broker
        assert broker is not None
        stage.until(lambda: 5 in stage.partition("n2").require_leader().isr)
        assert summary(broker)["under_replicated"] == 0, "a replica that is being added is not missing"
        stage.send(b"m2")
        assert reassign(stage, None) is Code.NONE
        assert reassign(stage, None) is Code.NO_REASSIGNMENT_IN_PROGRESS
        stage.until(lambda: not stage.has("n5"))
        image = stage.image()
        assert (set(image.replicas), set(image.isr), image.adding, image.removing) == ({2, 3}, {2, 3}, (), ())
        stage.send(b"m3")
        stage.until(lambda: stage.values("n2") == stage.values("n3") == [b"m1", b"m2", b"m3"])
        stage.start("n4")
        stage.until(lambda: not stage.has("n4"))


def test_an_unclean_election_amid_a_move_prefers_a_replica_that_had_the_partition_before() -> None:
    """n2 leads alone, n3 lacks its last record, and n4 is being added and has nothing yet. Then n2 dies for good. Must
    hold: what n3 has is kept."""
    with Stage(4, replica_lag_time_max_ms=1000) as stage:
        stage.create(replicas=(2, 3), unclean_leader_election_enable="true")
        stage.send(b"m1", b"m2")
        stage.until(lambda: stage.log("n3").high_watermark == 2)
        stage.cut("n2", "n3")
        stage.write("n2", b"m3", acks=1)
        stage.until(lambda: stage.image().isr == (2,))
        stage.cut("n2", "n4")
        assert reassign(stage, (4, 3), via="n1") is Code.NONE
        stage.until(lambda: stage.has("n4") and stage.image().adding == (4,))
        stage.cut_power("n2")
        stage.until(lambda: stage.leader() in ("n3", "n4"))
        assert stage.read() == [b"m1", b"m2"]


def test_a_move_away_from_a_dead_broker_ends_with_the_unclean_election_of_its_target() -> None:
    """The only replica is gone for good, and so are its records. An operator lets another broker begin anew."""
    with Stage(3) as stage:
        stage.create(replicas=(2,))
        stage.kill("n2")
        stage.until(lambda: stage.image().leader == NO_NODE)
        assert reassign(stage, (3,)) is Code.NONE
        stage.until(lambda: stage.has("n3"))
        assert stage.run(stage.client.elect(UNCLEAN)) is Code.NONE
        stage.until(lambda: stage.leader() == "n3" and stage.image().replicas == (3,))
        assert (stage.image().adding, stage.image().removing) == ((), ())
