"""A wall clock that leaps changes nothing of the metadata: intervals are measured by the time that passes."""

from __future__ import annotations

import pytest

from tests.scenarios.metadata import snapshots
from tests.scenarios.stage import Stage
from tests.scenarios.test_d_deletion import YEAR

INTERVAL = {"metadata_log_max_snapshot_interval_ms": 10_000}


@pytest.mark.parametrize("years", [1, -1])
def test_snapshots_of_the_metadata_are_as_far_apart_as_ever_though_the_wall_clock_leaps(years: int) -> None:
    with Stage(1, **INTERVAL) as stage:
        stage.until(lambda: len(snapshots(stage, "n1")) == 2, 20.0)
        written = stage.now
        stage.pass_time(2.0)
        stage.sim.jump_clock("n1", years * YEAR)
        stage.until(lambda: len(snapshots(stage, "n1")) == 3, 20.0)
        assert 9.0 < stage.now - written < 12.0


def test_old_snapshots_of_the_metadata_stay_though_the_wall_clock_leaps_a_year_ahead() -> None:
    """They are kept for a week. A follower that lags behind may be fetching one of them."""
    with Stage(1, **INTERVAL) as stage:
        stage.until(lambda: len(snapshots(stage, "n1")) == 2, 20.0)
        stage.sim.jump_clock("n1", YEAR)
        before = snapshots(stage, "n1")
        stage.until(lambda: snapshots(stage, "n1")[-1] != before[-1], 20.0)
        stage.pass_time(2.0)
        assert snapshots(stage, "n1")[:2] == before
