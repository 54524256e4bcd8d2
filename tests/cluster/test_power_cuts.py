"""With flush.messages=1, what is acknowledged is there after the power of every node was cut at once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cluster.power import CannotMount, in_own_mounts

CUTS = int(os.environ.get("HIGHWATER_POWER_CUTS", "3"))


@pytest.mark.slow
@pytest.mark.timeout(300 + 60 * CUTS)
def test_a_cluster_whose_power_is_cut_starts_by_itself_and_has_every_acknowledged_record(tmp_path: Path) -> None:
    try:
        done = in_own_mounts("tests.cluster.power_cuts", str(tmp_path), str(CUTS))
    except CannotMount as reason:
        pytest.skip(f"file systems cannot be mounted here: {reason}")
    print(done.stdout)
    assert done.returncode == 0, done.stdout[-6000:]
    assert f"{CUTS} cuts, ready after " in done.stdout
