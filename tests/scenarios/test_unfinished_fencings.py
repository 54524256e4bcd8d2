"""A fencing that is given up after some of its slices: what it took is given back."""

from __future__ import annotations

import errno

import pytest

from highwater.active_controller import broker_watch
from highwater.active_controller.active_controller import ActiveController
from highwater.metadata.pieces import Pieces
from highwater.model import NO_NODE
from highwater.sim.storage import DiskFault
from highwater.wire.codec import Message
from tests.scenarios.mishaps import decided, registration
from tests.scenarios.stage import Stage
from tests.scenarios.test_owed_elections import ALL, METADATA, THIRD


def test_all_partitions_are_led_again_though_the_disk_was_full_between_two_slices_of_a_fencing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """2 is not heard. The first slice of its fencing is written, there is no room for the second, and then 2 is heard
    again: it is unfenced and has everything."""
    monkeypatch.setattr(broker_watch, "MAX_ELECTIONS", 1)
    with Stage(3) as stage:
        stage.create(THIRD, (2,))
        stage.pass_time(1.0)
        stage.cut("n1", "n2")
        full: list[DiskFault] = []
        append = ActiveController.append

        def filled(self: ActiveController, records: list[Message], why: str) -> Pieces[bool]:
            if not full and why.startswith("no heartbeat") and any(decided(stage, tp).leader == NO_NODE for tp in ALL):
                full.append(stage.storage("n1").fail("append", METADATA, errno.ENOSPC, times=None))
            return (yield from append(self, records, why))

        monkeypatch.setattr(ActiveController, "append", filled)
        stage.until(lambda: full and full[0].struck)
        assert any(decided(stage, tp).leader == NO_NODE for tp in ALL)
        stage.heal()
        stage.pass_time(0.4)
        stage.storage("n1").mend()
        assert not registration(stage, 2).fenced
        stage.until(lambda: all(decided(stage, tp).leader == 2 for tp in ALL), 60.0)
