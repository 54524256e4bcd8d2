"""Replicas that replace damaged ones are reported once they have every committed record, and not before."""

from __future__ import annotations

from typing import Any, cast

from highwater.broker.refilled import LOOK_SECONDS, Refilled
from highwater.partition.partition import Partition
from highwater.sim import Simulation


class Replica:
    has_what_is_committed = False


def test_a_replica_is_reported_once_when_it_has_every_committed_record() -> None:
    with Simulation(1) as sim:
        world, reported = sim.world("n1"), list[Any]()
        refilled = Refilled(world.clock, reported.append)
        quick, slow, gone = Replica(), Replica(), Replica()
        for each in (quick, slow, gone):
            world.call(refilled.wait_for, cast(Partition, each))
        sim.advance(3 * LOOK_SECONDS)
        assert reported == []
        world.call(refilled.forget, cast(Partition, gone))
        quick.has_what_is_committed = gone.has_what_is_committed = True
        sim.advance(3 * LOOK_SECONDS)
        assert reported == [quick]
        slow.has_what_is_committed = True
        sim.advance(3 * LOOK_SECONDS)
        assert reported == [quick, slow]
