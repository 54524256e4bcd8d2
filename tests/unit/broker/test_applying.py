"""An answer of the controller waits until this broker has applied the decision, but not for ever."""

from __future__ import annotations

from highwater.broker.applied_metadata import APPLYING_SECONDS
from tests.unit.broker.living import Living


def test_an_answer_waits_for_metadata_that_is_being_applied() -> None:
    with Living(metadata_max_idle_interval_ms="0").start() as living:
        broker = living.node.broker
        assert broker is not None
        living.sim.advance(1.0)  # until nothing is left to apply
        applied_at: list[float] = []
        living.world.call(broker.metadata.newer_is_known)
        living.world.call(broker.metadata.when_applied, lambda: applied_at.append(living.sim.now))
        living.sim.advance(0.1)
        assert applied_at == []
        living.world.call(broker.metadata.all_is_applied)
        assert len(applied_at) == 1
        living.sim.advance(APPLYING_SECONDS)
        assert len(applied_at) == 1, "it is given once"


def test_an_answer_does_not_wait_for_ever_for_a_broker_that_cannot_apply_it() -> None:
    with Living(metadata_max_idle_interval_ms="0").start() as living:
        broker = living.node.broker
        assert broker is not None
        living.sim.advance(1.0)  # until nothing is left to apply
        applied_at: list[float] = []
        living.world.call(broker.metadata.newer_is_known)
        living.world.call(broker.metadata.when_applied, lambda: applied_at.append(living.sim.now))
        living.sim.advance(APPLYING_SECONDS + 1)
        assert len(applied_at) == 1
