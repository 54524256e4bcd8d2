"""A replica whose damage was found, and whose broker stops before the replica is fetched anew."""

from __future__ import annotations

import pytest

from highwater.log.scan import BadBatch
from highwater.metadata.brokers import DIRECTORY_LOST
from tests.scenarios.damaged_replicas import (
    FAST,
    SENT,
    is_intact,
    rot,
    sync_everything,
)
from tests.scenarios.mishaps import decided
from tests.scenarios.stage import Stage


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
        sync_everything(stage, "n3")
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
