"""A topic whose partitions have different numbers of replicas, as reassignments can make it."""

from __future__ import annotations

from highwater.errors import Code
from highwater.model import TopicPartition
from tests.scenarios.mishaps import decided, lose_unsynced
from tests.scenarios.stage import ORDERS, Stage
from tests.scenarios.test_b_reassignment import reassign

SECOND = TopicPartition(ORDERS.topic, 1)


def test_replicas_with_all_acknowledged_records_may_lead_though_the_first_partition_has_a_single_replica() -> None:
    """Partition 1 has three replicas, and two of them must have a record before it is acknowledged. n3 and n4 leave its
    ISR while it is below that bound, so both have everything. Then n2 loses its power, and what it had not synced.
    Must hold: n3 or n4 leads, and no acknowledged record is lost."""
    with Stage(4, replica_lag_time_max_ms=1000) as stage:
        stage.create(SECOND, (2, 3, 4), min_insync_replicas=2)
        assert reassign(stage, (2,)) is Code.NONE
        stage.until(lambda: stage.image().replicas == (2,))
        stage.send(b"m1", b"m2", tp=SECOND)
        stage.until(lambda: all(stage.log(name, SECOND).high_watermark == 2 for name in ("n2", "n3", "n4")))
        stage.cut("n2", "n3")
        stage.cut("n2", "n4")
        stage.write("n2", b"m3", tp=SECOND, acks=1)
        stage.until(lambda: decided(stage, SECOND).isr == (2,))
        lose_unsynced(stage, "n2", SECOND)
        stage.heal()
        stage.start("n2")
        stage.until(lambda: stage.leader(SECOND) is not None)
        assert stage.read(SECOND)[:2] == [b"m1", b"m2"]
