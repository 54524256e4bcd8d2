"""Scenarios of group B: who is in the ISR while changes of it, fetches and nodes get lost."""

from __future__ import annotations

from highwater.broker.isr_changes import RETRY_SECONDS
from highwater.controller.alter_partition import alter_partition
from highwater.controller.brokers import fence_broker
from highwater.errors import Code
from highwater.model import NodeId
from highwater.wire.messages.alter_partition_request import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    TopicData,
)
from highwater.wire.messages.partition_change_record import PartitionChangeRecord
from tests.scenarios.desk import LAG_SECONDS, Desk
from tests.scenarios.mishaps import controller, decided, lose_unsynced, registration
from tests.scenarios.stage import Stage
from tests.unit.controller.clusters import (
    cluster,
    epoch,
    node_config,
    partition,
    registered,
    then,
    topic_id,
    with_topic,
)

LATEST = 3
ALL = with_topic(cluster(1, 2, 3), "orders", [1, 2, 3])
"""Led by 1 in leader epoch 5, partition epoch 7, all in sync."""


def leave_out(stage: Stage, follower: str, leader: str = "n2") -> None:
    """The follower is cut off from its leader, which writes something and drops it from the ISR."""
    stage.cut(leader, follower)
    stage.send(b"without it")
    number = stage.member(follower).id
    stage.until(lambda: number not in stage.partition(leader).require_leader().isr)


def test_b1_a_replica_that_may_already_be_in_the_isr_counts_when_its_leader_dies_in_the_dark() -> None:
    """Setup: 4 catches up, and leader 2 asks for it to be in the ISR. Fault: the answer is lost, 4 falls behind
    again, 2 dies; 4 is elected. Must hold: nothing was acknowledged in between that 4 lacks (KIP-497)."""
    with Stage(4, watched=True) as stage:
        stage.create(replicas=(2, 4, 3))
        stage.send(b"all have it")
        leave_out(stage, "n4")
        stage.cut("n1", "n2", one_way=True)
        stage.heal("n2", "n4")
        stage.until(lambda: set(decided(stage).isr) == {2, 3, 4})
        stage.cut("n2", "n4")
        pending = stage.begin(stage.client.produce("n2", b"in doubt", ms=20_000))
        stage.until(lambda: stage.log("n3").log_end == 3)
        leader = stage.partition("n2").require_leader()
        assert set(leader.isr) == {2, 3}, "its answer is lost"
        stage.until(lambda: decided(stage).leader == 4)
        assert not pending.done
        stage.heal()
        stage.until(lambda: pending.done)
        assert pending.result is not None
        assert pending.result.code is Code.NOT_LEADER_OR_FOLLOWER
        assert stage.read() == [b"all have it", b"without it"]


def test_b1_a_replica_that_may_still_be_in_the_isr_counts_until_the_controller_drops_it() -> None:
    """Setup: 2 and 3 lag, and leader 1 asks for them to be dropped. Fault: no answer comes. Must hold: nothing is
    committed without them before it does."""
    with Desk(ALL) as desk:
        codes = desk.write(b"v")
        desk.pass_time(2 * LAG_SECONDS)
        desk.look_for_laggards()
        assert desk.asked == [1]
        desk.pass_time(10.0)
        assert (codes, desk.partition.log.high_watermark) == ([], 0)
        desk.fetch(2, 1)
        assert (codes, desk.partition.log.high_watermark) == ([], 0)
        desk.fetch(3, 1)
        assert (codes, desk.partition.log.high_watermark) == ([Code.NONE], 1)


def test_b2_fetches_of_a_dead_incarnation_do_not_let_the_next_one_into_the_isr() -> None:
    """Setup: 4 is out of the ISR and catches up; leader 2 asks for it, naming the broker epoch that fetched. Fault:
    before the request arrives 4 loses power and data, and registers anew. Must hold: INELIGIBLE_REPLICA (KIP-903)."""
    with Stage(4, watched=True, broker_session_timeout_ms=9000) as stage:
        stage.create(replicas=(2, 3, 4))
        stage.send(b"all had it")
        leave_out(stage, "n4")
        stage.until(lambda: stage.partition("n2").require_leader().proposal is None)
        stage.cut("n2", "n1", one_way=True)
        stage.heal("n2", "n4")
        leader = stage.partition("n2").require_leader()
        stage.until(lambda: leader.proposal is not None)
        assert stage.log("n4").log_end == 2
        before = registration(stage, 4).epoch
        stage.cut("n2", "n4")
        stage.kill("n4")
        stage.until(lambda: registration(stage, 4).fenced)
        lose_unsynced(stage, "n4")
        stage.start("n4")
        assert registration(stage, 4).epoch > before
        assert stage.log("n4").log_end == 0
        stage.heal("n2", "n1")
        stage.until(lambda: leader.proposal is None)
        stage.holds_for(1.0, lambda: set(decided(stage).isr) == {2, 3}, "4 has nothing of it")
        stage.heal()
        stage.until(lambda: set(decided(stage).isr) == {2, 3, 4})
        assert stage.values("n4") == [b"all had it", b"without it"]


def test_b3_a_fenced_replica_that_has_caught_up_neither_joins_the_isr_nor_is_elected() -> None:
    """Setup: 4 is fenced, cut off from the controller alone, and catches up; leader 2 does not know and asks for it.
    Fault: then 2 dies. Must hold: 4 stays out, and 3 leads, though 4 comes first in order (KIP-841)."""
    with Stage(4, watched=True, broker_session_timeout_ms=5000) as stage:
        stage.create(replicas=(2, 4, 3))
        leave_out(stage, "n4")
        stage.cut("n1", "n4")
        stage.until(lambda: registration(stage, 4).fenced)
        stage.cut("n1", "n2", one_way=True)
        stage.heal("n2", "n4")
        leader = stage.partition("n2").require_leader()
        stage.until(lambda: leader.proposal is not None)
        assert stage.log("n4").log_end == stage.log("n2").log_end
        stage.holds_for(0.3, lambda: 4 not in decided(stage).isr, "a fenced replica joined the ISR")
        stage.heal("n1", "n2")
        stage.until(lambda: leader.proposal is None)
        stage.kill("n2")
        stage.until(lambda: decided(stage).leader != 2)
        assert decided(stage).leader == 3


def test_b3_a_replica_about_to_leave_neither_joins_the_isr_nor_is_elected() -> None:
    """Setup: 2 is in controlled shutdown and has caught up. Fault: leader 1 asks for it, then dies. Must hold: 2
    stays out, and 3 leads."""
    head = then(with_topic(cluster(1, 2, 3), "a", [1, 2, 3], isr=[1, 3]), [registered(2, shutting_down=True)])
    isr = [BrokerState(broker_id=broker, broker_epoch=epoch(broker)) for broker in (1, 2, 3)]
    asked = PartitionData(leader_epoch=5, partition_epoch=7, new_isr_with_epochs=isr)
    topics = [TopicData(topic_id=topic_id("a"), partitions=[asked])]
    request = AlterPartitionRequest(broker_id=1, broker_epoch=epoch(1), topics=topics)
    decision = alter_partition(head, request, LATEST, node_config())
    assert decision.response.topics[0].partitions[0].error_code == Code.INELIGIBLE_REPLICA
    assert partition(then(head, decision.records), "a")["isr"] == (1, 3)
    with_all = then(with_topic(cluster(1, 2, 3), "a", [1, 2, 3]), [registered(2, shutting_down=True)])
    after = then(with_all, fence_broker(with_all, node_config(), NodeId(1), epoch(1)))
    assert partition(after, "a")["leader"] == 3


def test_b4_a_zombie_controller_with_older_epochs_says_not_controller_and_is_asked_again() -> None:
    """Setup: leader 1 has heard of a newer partition epoch than an old controller has. Fault: its request reaches the
    old one. Must hold: NOT_CONTROLLER; it is sent again, and no change stays pending (KAFKA-14154)."""
    newer = then(ALL, [PartitionChangeRecord(topic_id=topic_id("orders"), partition_id=0, isr=[1, 2])])
    with Desk(newer) as desk:
        codes = desk.write(b"v")
        desk.pass_time(2 * LAG_SECONDS)
        desk.look_for_laggards()
        assert desk.asked == [1]
        of_the_zombie = desk.decide(on=ALL)
        assert (desk.leader.isr, codes) == ((1, 2), [])
        desk.pass_time(1.0)
        assert desk.asked == [1], "the change stays pending"
        assert of_the_zombie is Code.NOT_CONTROLLER
        assert desk.decide() is Code.NONE
        desk.learn()
        assert (desk.leader.isr, desk.leader.proposal, codes) == ((1,), None, [Code.NONE])


def test_b5_a_change_that_was_committed_and_whose_answer_was_lost_succeeds_when_asked_for_again() -> None:
    """Setup: leader 1 asks for 2 and 3 to be dropped, and it is committed. Fault: the answer is lost, and metadata
    does not arrive either. Must hold: the same request again succeeds, and changes nothing more (KAFKA-14144)."""
    with Desk(ALL) as desk:
        codes = desk.write(b"v")
        desk.pass_time(2 * LAG_SECONDS)
        desk.look_for_laggards()
        assert desk.decide(codes=False) is Code.NONE
        assert (desk.leader.isr, codes) == ((1, 2, 3), [])
        desk.pass_time(1.0)
        assert desk.asked == [1]
        before = desk.head
        again = desk.decide()
        desk.learn()
        assert (desk.leader.isr, desk.leader.proposal, codes) == ((1,), None, [Code.NONE])
        assert again is Code.NONE
        assert desk.partition.partition_epoch == partition(desk.head, "orders")["partition_epoch"] == 8
        assert desk.head.topics == before.topics


def test_b6_writes_that_wait_for_the_last_laggard_are_acknowledged_when_the_shrink_is_committed() -> None:
    """Setup: a write with acks=all waits for 2 and 3. Fault: they never fetch again. Must hold: the metadata with
    the shrink moves the high watermark, and nothing else has to happen (KAFKA-13091)."""
    with Desk(ALL) as desk:
        codes = desk.write(b"v")
        desk.pass_time(2 * LAG_SECONDS)
        desk.look_for_laggards()
        assert (desk.asked, codes) == ([1], [])
        assert desk.decide() is Code.NONE
        assert codes == [], "the answer does not say by which settings it was decided"
        desk.learn()
        assert (codes, desk.partition.log.high_watermark) == ([Code.NONE], 1)


def test_b6_a_producer_is_answered_once_the_laggards_have_left_the_isr() -> None:
    """The same in a cluster, by the clock alone."""
    with Stage(3) as stage:
        stage.create(replicas=(2, 3))
        stage.send(b"a")
        stage.cut("n2", "n3")
        begun = stage.now
        pending = stage.begin(stage.client.produce("n2", b"b", ms=20_000))
        stage.until(lambda: pending.done)
        assert pending.result is not None
        assert pending.result.code is Code.NONE
        assert decided(stage).isr == (2,)
        assert LAG_SECONDS <= stage.now - begun <= 2 * LAG_SECONDS


def test_b7_below_min_insync_replicas_nothing_is_committed_and_no_reader_sees_more() -> None:
    """Setup: min.insync.replicas 2, all in sync. Fault: the leader loses both followers. Must hold: the high watermark
    is frozen, writes with acks=all are refused, readers see nothing new (KAFKA-15583)."""
    with Stage(4, watched=True) as stage:
        stage.create(replicas=(2, 3, 4), min_insync_replicas=2)
        stage.send(b"a", b"b")
        stage.cut("n2", "n3")
        stage.cut("n2", "n4")
        pending = stage.begin(stage.visitor("patient").produce("n2", b"c", ms=4000), by="patient")
        stage.until(lambda: stage.partition("n2").require_leader().isr == (2,))
        assert stage.run(stage.client.produce("n2", b"refused")).code is Code.NOT_ENOUGH_REPLICAS
        assert stage.run(stage.client.produce("n2", b"d", acks=1)).code is Code.NONE
        stage.holds_for(1.0, lambda: stage.log("n2").high_watermark == 2, "the high watermark moved")
        assert stage.run(stage.client.fetch("n2", 0)).values == [b"a", b"b"]
        stage.until(lambda: pending.done)
        assert pending.result is not None
        assert pending.result.code is Code.REQUEST_TIMED_OUT
        stage.heal()
        stage.until(lambda: stage.log("n2").high_watermark == 4)
        assert stage.read() == [b"a", b"b", b"c", b"d"]


def test_b16_a_follower_that_shuts_down_does_not_hold_the_high_watermark() -> None:
    """Setup: 4 has caught up, replica.lag.time.max.ms is 20 s. Fault: it is shut down. Must hold: the next write is
    acknowledged at once, in the same leader epoch (KAFKA-15021)."""
    with Stage(4, watched=True, replica_lag_time_max_ms=20_000) as stage:
        stage.create(replicas=(2, 3, 4))
        stage.send(b"a")
        before = decided(stage).leader_epoch
        stage.stop("n4")
        begun = stage.now
        stage.send(b"b")
        assert stage.now - begun < 0.5
        assert (decided(stage).isr, decided(stage).leader_epoch) == ((2, 3), before)
        assert controller(stage).head.brokers.is_active(3)


def test_b16_a_follower_that_fetches_on_while_it_shuts_down_does_not_hold_the_high_watermark() -> None:
    """Setup: 3 is on its way out and no more in the ISR. Fault: it has all there is, and says so once more. Must hold:
    the next write does not wait for it."""
    left = PartitionChangeRecord(topic_id=topic_id("orders"), partition_id=0, isr=[1, 2])
    with Desk(ALL) as desk:
        desk.head = then(ALL, [registered(3, shutting_down=True), left])
        desk.lead(desk.head)
        desk.fetch(3, 0)
        codes = desk.write(b"v")
        desk.fetch(2, 1)
        assert codes == [Code.NONE]
        assert desk.asked == []


def test_a_change_that_is_answered_with_an_unknown_error_is_asked_for_again_after_a_pause() -> None:
    with Desk(ALL) as desk:
        desk.write(b"v")
        desk.pass_time(2 * LAG_SECONDS)
        desk.look_for_laggards()
        assert desk.asked == [1]
        desk.refuse(Code.UNKNOWN_SERVER_ERROR)
        desk.pass_time(RETRY_SECONDS / 2)
        assert desk.asked == [], "at once, and so for ever: a controller in trouble would be asked without end"
        desk.pass_time(RETRY_SECONDS)
        assert desk.asked == [1]
