"""DeleteRecords that wait for a replica which does not hear of them."""

from __future__ import annotations

import pytest

from highwater.partition.partition import Partition
from highwater.wire.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from highwater.wire.messages.delete_records_response import DeleteRecordsResponse
from tests.scenarios.stage import ORDERS, Stage

WEEKS_MS = 2**31 - 1


def test_nobody_looks_for_the_low_watermark_once_who_asked_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
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
