"""A replica whose damage was found, and whose broker stops before the replica is fetched anew."""

from __future__ import annotations

from pathlib import PurePath

import pytest

from highwater.log.scan import BadBatch
from highwater.metadata.brokers import DIRECTORY_LOST
from highwater.wire import records
from tests.scenarios.mishaps import decided
from tests.scenarios.stage import ORDERS, Stage

SENT = [b"v%d" % at for at in range(20)]
FIRST = PurePath(f"/data/{ORDERS}/{0:020d}.log")
FAST = {"log_flush_offset_checkpoint_interval_ms": 1000, "log_initial_task_delay_ms": 500}


def rot(stage: Stage, name: str) -> int:
    """The fourth batch rots on the disk; where it begins."""
    at = [position for position, _, _ in records.walk(memoryview(bytes(stage.storage(name).file(FIRST).data)))][3]
    stage.storage(name).damage(FIRST, at + 63, b"\xff\xff")
    return at


def is_intact(stage: Stage, name: str) -> bool:
    data = memoryview(bytes(stage.storage(name).file(FIRST).data))
    return all(records.is_intact(data[position : position + size]) for position, size, _ in records.walk(data))


@pytest.mark.parametrize("stop", ["kill", "stop"])
def test_a_damaged_replica_is_fetched_anew_though_its_broker_stops_when_it_is_known_to_be_lost(stop: str) -> None:
    """3 finds its damage and reports it. It ends before it knows that it may begin anew. After that it must not be in
    sync with the damaged batch: if 2 dies then, the record is gone."""
    with Stage(3, expects_failures=True, **FAST) as stage:
        stage.create(replicas=(2, 3), internal_segment_bytes=500)
        for value in SENT:
            stage.send(value)
        stage.until(lambda: stage.log("n3").high_watermark == len(SENT))
        log = stage.log("n3")
        stage.node("n3").world.call(log.flush)
        stage.until(lambda: log.durable_end == len(SENT))
        stage.pass_time(2.1)
        at = rot(stage, "n3")
        stage.cut("n1", "n3", one_way=True)
        log.found_damaged(BadBatch(log.segments[0].file.path, at, "its checksum is wrong"))
        stage.until(lambda: decided(stage).directory(3) == DIRECTORY_LOST)
        assert decided(stage).isr == (2,)
        getattr(stage, stop)("n3")
        stage.heal()
        stage.start("n3")
        stage.until(lambda: set(decided(stage).isr) == {2, 3})
        assert is_intact(stage, "n3"), "it is in sync with a damaged batch"
        stage.kill("n2")
        stage.until(lambda: stage.leads("n3"))
        assert stage.read() == SENT
