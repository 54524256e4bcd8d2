"""Seeds that found a fault: green on a sound tree, red once the mend of their fault is taken back (`make mutants`)."""

from __future__ import annotations

import pytest

from highwater.sim.trial import Trial
from tests.sim.hunts import HUNTS, Hunt


@pytest.mark.parametrize("hunt", HUNTS, ids=lambda hunt: hunt.name)
def test_seed(hunt: Hunt) -> None:
    found = Trial(hunt.seed, profile=hunt.profile)()
    assert found is None, found.text()
