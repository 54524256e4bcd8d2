"""The odd ones of two hundred seeds: a file of its own, so that two workers share them."""

from __future__ import annotations

import pytest

from tests.sim.cluster_seeds import PATIENCE_SECONDS, SEEDS, keep_their_promises


@pytest.mark.slow
@pytest.mark.timeout(PATIENCE_SECONDS)
def test_clusters_of_odd_seeds_keep_their_promises_under_faults() -> None:
    """Whole clusters, written to over the wire, crashed, cut, paused, healed, read back and judged."""
    keep_their_promises(range(1, SEEDS, 2))
