"""Records that were deleted do not come back, whatever of their deletion reached the disk."""

from __future__ import annotations

import pytest

from tests.scenarios.stage import ORDERS, Stage


@pytest.mark.parametrize("seed", range(6))
def test_a_segment_that_comes_back_after_a_power_cut_does_not_bring_its_records_back(seed: int) -> None:
    """DeleteRecords up to the end, the segment is let go, and the checkpoint of log starts is written again: now only
    the name of the next segment says where the log begins, and that name is not synced yet."""
    with Stage(1, seed=seed) as stage:
        stage.create(replicas=(1,))
        stage.send(b"m1", b"m2", b"m3")
        node, log = stage.node("n1"), stage.log("n1")
        assert node.broker is not None
        store, call = node.broker.store, node.world.call  # type: ignore[attr-defined]
        call(log.flush)
        stage.until(lambda: log.durable_end == 3)
        call(log.raise_log_start, 3)
        written: list[bool] = []
        call(store.log_starts.write, lambda: written.append(True))
        stage.until(lambda: written)
        call(log.roll)
        stage.until(lambda: not log.durability.under_way)
        assert call(store.apply_retention, log) == 1
        written.clear()
        call(store.log_starts.write, lambda: written.append(True))
        stage.until(lambda: written)
        stage.cut_power("n1")
        stage.start("n1")
        assert stage.log("n1", ORDERS).log_start == 3
        assert stage.read() == []
