"""Elections that a controller owes: every partition with a live replica that has everything gets a leader again."""

from __future__ import annotations

import errno
from collections.abc import Callable
from functools import partial

import pytest

from highwater.active_controller import broker_watch
from highwater.active_controller.active_controller import ActiveController
from highwater.active_controller.broker_watch import BrokerWatch
from highwater.controller import batches
from highwater.controller.death import Liveness
from highwater.metadata.pieces import Pieces
from highwater.model import NO_NODE, TopicPartition
from highwater.sim.storage import DiskFault
from highwater.wire.codec import Message
from tests.scenarios.mishaps import committed, decided, registration
from tests.scenarios.stage import ORDERS, Stage

SECOND = TopicPartition(ORDERS.topic, 1)
THIRD = TopicPartition(ORDERS.topic, 2)
ALL = (ORDERS, SECOND, THIRD)
METADATA = "/data/__cluster_metadata-0/*.log"


def test_a_partition_is_led_again_though_its_controller_ended_amid_the_fencing_of_two_silent_brokers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """4 and 5 live, but their controller hears neither. It dies for good when it has fenced a part of one of them: the
    partition is led by nobody, since the other one counted as silent, too. The next controller hears both."""
    monkeypatch.setattr(broker_watch, "MAX_ELECTIONS", 1)
    monkeypatch.setattr(BrokerWatch, "_fence", slowly(BrokerWatch._fence))
    with Stage(5, voters=3) as stage:
        stage.create(THIRD, (4, 5))
        old = stage.cluster.active_controller()
        assert old is not None
        stage.cut(old, "n4")
        stage.cut(old, "n5")
        others = [name for name in ("n1", "n2", "n3") if name != old]
        stage.until(lambda: all(committed(stage, at=name).leader == NO_NODE for name in others))
        stage.kill(old)
        stage.heal()
        stage.until(lambda: stage.cluster.active_controller() in others)
        new = stage.cluster.active_controller()
        assert new is not None
        assert not registration(stage, 4, by=new).fenced
        assert not registration(stage, 5, by=new).fenced
        stage.until(lambda: all(decided(stage, tp, by=new).leader != NO_NODE for tp in ALL), 60.0)


def slowly(fence: Callable[..., None]) -> Callable[..., None]:
    """Only the first slice of all fencings is decided at once: the loop is slow."""
    begun: list[object] = []

    def later(self: BrokerWatch, *args: object, **named: object) -> None:
        if begun:
            self._world.clock.call_later(0.2, partial(fence, self, *args, **named))
        else:
            begun.append(args)
            fence(self, *args, **named)

    return later


def test_a_partition_is_led_again_though_the_disk_was_full_between_the_fencings_of_two_silent_brokers() -> None:
    """3 is dead, and 2 is not heard in the same session. 3 is fenced, and nobody leads, since 2 counted as silent, too.
    There is no room to fence 2, and then 2 is heard again: it is unfenced and has everything."""
    with Stage(3) as stage:
        stage.create(replicas=(2, 3))
        stage.send(b"a")
        stage.cut_power("n3")
        stage.cut("n1", "n2")
        full: list[DiskFault] = []
        append = ActiveController.append

        def filled(self: ActiveController, records: list[Message], why: str) -> Pieces[bool]:
            if not full and why.startswith("no heartbeat") and registration(stage, 3).fenced:
                full.append(stage.storage("n1").fail("append", METADATA, errno.ENOSPC, times=None))
            return (yield from append(self, records, why))

        expired = Liveness.expired
        with pytest.MonkeyPatch.context() as patch:
            # Which of the two was silent for longer depends on the order of their heartbeats.
            patch.setattr(Liveness, "expired", lambda self, now: sorted(expired(self, now), reverse=True))
            patch.setattr(ActiveController, "append", filled)
            stage.until(lambda: full and full[0].struck)
        assert decided(stage).leader == NO_NODE
        assert not registration(stage, 2).fenced
        stage.heal()
        stage.pass_time(0.4)
        stage.storage("n1").mend()
        stage.until(lambda: decided(stage).leader == 2, 60.0)


def test_all_partitions_are_led_again_though_the_disk_was_full_amid_an_unfencing_of_several_batches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A broker that leads what nobody else can lead comes back. The first batch of its unfencing is written, the second
    is not."""
    with Stage(3) as stage:
        stage.create(THIRD, (2,))
        stage.kill("n2")
        stage.until(lambda: all(decided(stage, tp).leader == NO_NODE for tp in ALL))
        monkeypatch.setattr(batches, "MAX_BYTES", 400)
        append = ActiveController.append
        full: list[DiskFault] = []

        def filled(self: ActiveController, records: list[Message], why: str) -> Pieces[bool]:
            if why == "it has caught up with the metadata" and not full:
                full.append(stage.storage("n1").fail("append", METADATA, errno.ENOSPC, nth=2))
            return (yield from append(self, records, why))

        monkeypatch.setattr(ActiveController, "append", filled)
        stage.start("n2", waits=False)
        stage.until(lambda: full and full[0].struck)
        assert not registration(stage, 2).fenced
        stage.until(lambda: all(decided(stage, tp).leader == 2 for tp in ALL), 60.0)


def test_a_broker_that_is_fenced_in_slices_is_not_put_back_into_an_isr_between_two_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """2 follows in all partitions, and only its controller does not hear it. A slice takes a while, so that the leader
    sees 2 fetch and asks for it again before the last slice."""
    monkeypatch.setattr(broker_watch, "MAX_ELECTIONS", 1)
    monkeypatch.setattr(BrokerWatch, "_fence", slowly(BrokerWatch._fence))
    with Stage(3) as stage:
        stage.create(THIRD, (3, 2))
        stage.cut("n1", "n2")
        stage.until(lambda: any(2 not in decided(stage, tp).isr for tp in ALL))
        left = next(tp for tp in ALL if 2 not in decided(stage, tp).isr)
        stage.until(lambda: 2 in decided(stage, left).isr or registration(stage, 2).fenced, 60.0)
        assert 2 not in decided(stage, left).isr, "it is being fenced"
        stage.until(lambda: registration(stage, 2).fenced, 10.0)
