"""DeleteRecords that wait for a replica: one that does not hear of them, or that cannot keep what it heard."""

from __future__ import annotations

import dataclasses
import errno
from pathlib import PurePath

import pytest

from highwater.errors import Code
from highwater.model import NodeId, TopicPartition
from highwater.partition.partition import Partition
from highwater.sim.knobs import Knobs
from highwater.wire.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from highwater.wire.messages.delete_records_response import DeleteRecordsResponse
from tests.scenarios.mishaps import decided
from tests.scenarios.stage import ORDERS, Stage

WEEKS_MS = 2**31 - 1
LOG_STARTS = PurePath("/data/log-start-offset-checkpoint")


def test_the_low_watermark_is_not_checked_after_the_client_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[float] = []
    true = Partition.low_watermark.fget
    assert true is not None

    def counted(self: Partition) -> int:
        looks.append(stage.now)
        return int(true(self))

    monkeypatch.setattr(Partition, "low_watermark", property(counted))
    with Stage(3, replica_lag_time_max_ms=600_000) as stage:
        stage.create(ORDERS, replicas=(2, 3))
        stage.send(b"one")
        stage.cut("n2", "n3")
        row = DeleteRecordsPartition(partition_index=0, offset=1)
        topic = DeleteRecordsTopic(name=ORDERS.topic, partitions=[row])
        request = DeleteRecordsRequest(topics=[topic], timeout_ms=WEEKS_MS)
        visitor = stage.visitor("impatient")
        stage.begin(visitor.ask("n2", request, DeleteRecordsResponse), by="impatient")
        stage.until(lambda: len(looks) >= 3)
        stage.sim.crash("impatient", power_loss=False)
        stage.pass_time(1)
        before = len(looks)
        stage.pass_time(10)
        assert len(looks) == before


def raised_in_vain(stage: Stage) -> None:
    """Records of ORDERS are to be deleted. n3 has heard of it, and has no room to write down where its log begins."""
    for at in range(6):
        stage.send(b"v%d" % at)
    others = [f"n{broker}" for broker in stage.image().replicas[1:]]
    stage.until(lambda: all(stage.log(name).high_watermark == 6 for name in others))
    fault = stage.storage("n3").fail("append", f"{LOG_STARTS}*", errno.ENOSPC, times=None)
    stage.begin(stage.visitor("impatient").delete_records("n2", 5), by="impatient")
    stage.until(lambda: all(stage.log(name).log_start == 5 for name in others) and fault.struck)


def test_the_next_leader_does_not_learn_a_log_start_before_it_is_durable() -> None:
    """It would call the records deleted, and a power cut would bring them back."""
    with Stage(4, watched=True) as stage:
        stage.create(replicas=(2, 4, 3))
        raised_in_vain(stage)
        stage.kill("n2")
        stage.until(lambda: stage.leader() == "n4")
        leader = stage.partition("n4").require_leader()
        asked = stage.begin(stage.client.delete_records("n4", 5))

        def is_kept() -> bool:
            return b"orders 0 5\n" in (stage.storage("n3").durable_bytes(LOG_STARTS) or b"")

        stage.until(lambda: leader.followers[3].end == 6)
        stage.holds_for(2.0, lambda: leader.followers[3].log_start < 5 and not is_kept() and not asked.done)
        stage.storage("n3").mend()
        stage.until(lambda: asked.done)
        assert asked.result is Code.NONE
        assert is_kept()


def test_a_follower_without_room_for_a_log_start_replicates_on() -> None:
    with Stage(3, watched=True, min_insync_replicas=2) as stage:
        stage.create(replicas=(2, 3))
        raised_in_vain(stage)
        stage.send(b"more")
        stage.pass_time(60.0)
        assert set(decided(stage).isr) == {2, 3}
        stage.send(b"and more")
        assert stage.partition("n2").low_watermark == 0
        stage.storage("n3").mend()
        stage.until(lambda: stage.partition("n2").low_watermark == 5)


def filled(stage: Stage, **configs: object) -> None:
    stage.create(replicas=(2, 3), **configs)
    for at in range(6):
        stage.send(b"v%d" % at)
    stage.until(lambda: stage.log("n3").high_watermark == 6)
    stage.pass_time(0.05)


@pytest.mark.parametrize("pause", [0.0, 0.001, 0.002, 0.003, 0.004, 0.005, 0.006, 0.008])
def test_a_second_delete_records_is_answered_at_any_moment_after_the_first(pause: float) -> None:
    """The answer with the second log start may come when the follower is about to report its first."""
    with Stage(3) as stage:
        filled(stage)
        first = stage.begin(stage.visitor("one").delete_records("n2", 2), by="one")
        stage.until(lambda: stage.log("n3").log_start == 2)
        stage.pass_time(pause)
        second = stage.begin(stage.visitor("two").delete_records("n2", 5), by="two")
        stage.until(lambda: first.done and second.done)
        assert (first.result, second.result) == (Code.NONE, Code.NONE)
        assert stage.log("n3").log_start == 5


def test_a_replica_that_comes_back_with_a_tail_to_cut_hears_of_deleted_records() -> None:
    with Stage(3) as stage:
        filled(stage)
        stage.isolate("n2")
        stage.begin(stage.client.produce("n2", b"lost", acks=1))
        stage.until(lambda: stage.log("n2").log_end == 7)
        stage.until(lambda: stage.leader() == "n3")
        assert stage.run(stage.visitor("op").delete_records("n3", 5), by="op") is Code.NONE
        stage.heal()
        stage.until(lambda: set(stage.image().isr) == {2, 3})
        stage.until(lambda: stage.log("n2").log_start == 5)
        stage.until(lambda: stage.partition("n2").leader_high_watermark == 6)


def test_a_leader_that_follows_another_sends_no_log_start_that_is_not_durable() -> None:
    """n2 raised it as a leader, and had no room to write it down."""
    with Stage(3) as stage:
        filled(stage, flush_messages=1)
        fault = stage.storage("n2").fail("append", f"{LOG_STARTS}*", errno.ENOSPC, times=None)
        stage.begin(stage.visitor("impatient").delete_records("n2", 5), by="impatient")
        stage.until(lambda: stage.log("n3").log_start == 5 and fault.struck)
        stage.cut("n1", "n2")
        stage.until(lambda: stage.leader() == "n3")
        stage.heal()
        stage.until(lambda: stage.partition("n3").require_leader().followers[NodeId(2)].end == 6)
        deleted = stage.begin(stage.visitor("op").delete_records("n3", 5), by="op")
        stage.holds_for(2.0, lambda: not deleted.done and 2 not in decided(stage).isr)
        stage.storage("n2").mend()
        stage.until(lambda: deleted.done)
        assert deleted.result is Code.NONE
        assert b"orders 0 5\n" in (stage.storage("n2").durable_bytes(LOG_STARTS) or b"")


def test_a_follower_whose_retention_is_ahead_of_its_leader_reports_it() -> None:
    """The leader's own raise is then no news to it: a DeleteRecords would wait for it in vain."""
    with Stage(3) as stage:
        filled(stage, internal_segment_bytes=100, retention_ms=-1)
        follower = stage.partition("n3")
        stage.log("n3").config = dataclasses.replace(stage.log("n3").config, retention_bytes=1)
        node = stage.node("n3")
        node.world.call(node.world.spawn, "retention", node.role.upkeep._let_go([follower]))
        stage.until(lambda: follower.log.log_start == 5)
        assert stage.run(stage.client.delete_records("n2", 5)) is Code.NONE


def test_a_replica_that_was_down_meanwhile_joins_only_once_it_has_deleted_them_too() -> None:
    with Stage(3) as stage:
        filled(stage)
        stage.kill("n3")
        stage.until(lambda: tuple(stage.image().isr) == (2,))
        assert stage.run(stage.client.delete_records("n2", 5)) is Code.NONE
        last_life = stage.partition("n2").require_leader().followers[NodeId(3)].broker_epoch
        stage.start("n3", waits=False)
        stage.until(lambda: stage.partition("n2").require_leader().followers[NodeId(3)].broker_epoch != last_life)
        stage.cut("n2", "n3", one_way=True)
        stage.holds_for(1.0, lambda: 3 not in decided(stage).isr)
        assert stage.log("n3").log_start == 0, "it has not heard of it"
        stage.heal()
        stage.until(lambda: 3 in decided(stage).isr)
        assert stage.log("n3").log_start == 5


def test_records_that_an_eligible_leader_still_has_are_not_called_deleted() -> None:
    """It may be elected cleanly when it comes back alone, and would show the records again."""
    with Stage(4) as stage:
        stage.create(ORDERS, replicas=(2, 3, 4), min_insync_replicas=2)
        for at in range(6):
            stage.send(b"v%d" % at)
        stage.kill("n3")
        stage.until(lambda: tuple(decided(stage).isr) == (2, 4))
        assert stage.run(stage.client.delete_records("n2", 2)) is Code.NONE, "3 is not in the ELR: it cannot lead"
        stage.kill("n4")
        stage.until(lambda: tuple(stage.image().elr) == (4,))
        assert stage.run(stage.client.delete_records("n2", 2)) is Code.NONE, "4 had deleted these before it died"
        assert stage.run(stage.client.delete_records("n2", 5)) is Code.REQUEST_TIMED_OUT
        stage.start("n4")
        assert stage.run(stage.client.delete_records("n2", 5)) is Code.NONE
        assert stage.log("n4").log_start == 5


def test_a_log_start_that_is_written_down_after_a_cut_is_sent_nevertheless() -> None:
    """The disk of n2 is full while records are deleted, and n2 then has a tail to cut. It joins once there is room."""
    with Stage(3) as stage:
        filled(stage)
        fault = stage.storage("n2").fail("append", f"{LOG_STARTS}*", errno.ENOSPC, times=None)
        stage.begin(stage.visitor("impatient").delete_records("n2", 5), by="impatient")
        stage.until(lambda: stage.log("n3").log_start == 5 and fault.struck)
        stage.isolate("n2")
        stage.begin(stage.client.produce("n2", b"lost", acks=1))
        stage.until(lambda: stage.log("n2").log_end == 7 and stage.leader() == "n3")
        stage.heal()
        stage.until(lambda: stage.log("n2").log_end == 6)
        stage.storage("n2").mend()
        stage.until(lambda: set(decided(stage).isr) == {2, 3})


def test_a_log_that_is_cut_to_nothing_knows_that_its_start_is_kept() -> None:
    """An unclean election has put other records in the place of all that n2 has."""
    with Stage(3) as stage:
        stage.create(replicas=(2, 3), unclean_leader_election_enable="true")
        stage.send(*[b"v%d" % at for at in range(10)])
        stage.until(lambda: stage.log("n3").high_watermark == 10)
        assert stage.run(stage.client.delete_records("n2", 5)) is Code.NONE
        stage.kill("n3")
        stage.until(lambda: tuple(decided(stage).isr) == (2,))
        stage.lose_records("n3", 0)
        stage.kill("n2")
        stage.start("n3")
        stage.until(lambda: stage.leader() == "n3")
        stage.write("n3", b"new")
        stage.start("n2")
        stage.until(lambda: set(decided(stage).isr) == {2, 3})
        assert stage.log("n2").durability.log_start == stage.log("n2").log_start == 5


def test_a_deletion_is_judged_by_the_elr_of_the_same_metadata_as_the_brokers() -> None:
    """The metadata that takes a replica out of the ISR has many partitions, so that applying it takes a while. In the
    midst of it the leader knows that the replica is gone, and must know as well that it is in the ELR."""
    settings = {"broker_session_timeout_ms": 3000, "broker_heartbeat_interval_ms": 500}
    with Stage(4, knobs=Knobs(slow_code=1.0), **settings) as stage:
        stage.create(TopicPartition(ORDERS.topic, 79), replicas=(2, 3), min_insync_replicas=2)
        for at in range(5):
            stage.send(b"m%d" % at)
        stage.isolate("n3")
        asked = stage.begin(stage.visitor("impatient").delete_records("n2", 5), by="impatient")
        stage.until(lambda: asked.done)
        assert asked.result is Code.REQUEST_TIMED_OUT
        assert decided(stage).elr == (3,)


def test_delete_records_fails_if_its_log_start_could_not_be_written_down_in_time() -> None:
    """A kill -9 could bring the records back, so it must not be answered as done."""
    with Stage(1) as stage:
        stage.create(replicas=(1,))
        for at in range(3):
            stage.send(b"v%d" % at)
        fault = stage.storage("n1").fail("append", f"{LOG_STARTS}*", errno.ENOSPC, times=None)
        assert stage.run(stage.client.delete_records("n1", 2)) is Code.REQUEST_TIMED_OUT
        assert fault.struck
