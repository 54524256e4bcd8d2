"""A Produce of several partitions is answered for all of them, however long one takes."""

from __future__ import annotations

import pytest

from highwater.errors import Code, code_of
from highwater.model import TopicPartition
from highwater.sim.knobs import Knobs
from highwater.wire import records
from highwater.wire.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from highwater.wire.messages.produce_response import ProduceResponse
from tests.scenarios.stage import Stage

FIRST, LAST = TopicPartition("orders", 0), TopicPartition("orders", 1)
SLOW_JOBS = Knobs(job_step=(0.01, 0.02))


@pytest.mark.parametrize("size", [1000, 300_000])
def test_a_partition_that_is_committed_early_waits_for_one_that_is_checked_off_the_loop(size: int) -> None:
    with Stage(3, knobs=SLOW_JOBS) as stage:
        stage.create(LAST, replicas=(2, 3), compression_type="gzip")
        stage.send(b"first", tp=FIRST)
        visitor = stage.visitor("writer")
        now = visitor.world.clock.wall_ms()
        rows = [
            PartitionProduceData(index=index, records=bytes(records.build([(now, None, value, ())])))
            for index, value in enumerate((b"small", b"x" * size))
        ]
        data = TopicProduceData(name="orders", topic_id=stage.truth.topics.by_name["orders"].id, partition_data=rows)
        request = ProduceRequest(acks=-1, timeout_ms=5000, topic_data=[data])
        answer = stage.run(visitor.ask("n2", request, ProduceResponse), by="writer")
        codes = [
            (row.index, code_of(row.error_code)) for topic in answer.responses for row in topic.partition_responses
        ]
        assert codes == [(0, Code.NONE), (1, Code.NONE)]
        assert stage.log("n2", LAST).log_end == 1
