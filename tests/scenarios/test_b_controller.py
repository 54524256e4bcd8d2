"""Scenarios of group B: a controller whose brokers vanish together, that is slow itself, or dies over a decision."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from highwater.broker.publisher import Publisher
from highwater.errors import Code
from highwater.metadata.cluster import MetadataImage
from highwater.model import TopicPartition
from tests.scenarios.mishaps import committed, controller, decided, registration
from tests.scenarios.stage import ORDERS, Stage

LED_BY_2, LED_BY_3, LED_BY_4 = (TopicPartition(f"led-by-{number}", 0) for number in (2, 3, 4))


def test_b11_two_brokers_whose_sessions_end_in_the_same_tick_both_leave_every_isr() -> None:
    """Setup: 3 and 4 are in every ISR and lead something. Fault: both lose power at once, so that only the end of
    their sessions shows it. Must hold: both are out of all ISRs, and each leadership has moved once (KAFKA-13173)."""
    with Stage(4, watched=True, broker_heartbeat_interval_ms=50) as stage:
        stage.create(LED_BY_2, (2, 3, 4))
        stage.create(LED_BY_3, (3, 4, 2))
        stage.create(LED_BY_4, (4, 3, 2))
        stage.cut_power("n3", "n4")
        stage.until(lambda: registration(stage, 3).fenced or registration(stage, 4).fenced)
        assert registration(stage, 3).fenced
        assert registration(stage, 4).fenced, "not in the same tick"
        seen = {tp: (decided(stage, tp).leader, decided(stage, tp).isr) for tp in (LED_BY_2, LED_BY_3, LED_BY_4)}
        assert seen == dict.fromkeys(seen, (2, (2,)))
        assert [decided(stage, tp).leader_epoch for tp in seen] == [0, 1, 1]
        stage.until(lambda: all(stage.leader(tp) == "n2" for tp in seen))


def test_b12_live_brokers_are_not_fenced_by_a_controller_that_was_slow_itself() -> None:
    """Setup: a controller and its brokers. Fault: the controller does nothing for longer than a session, so that its
    timers are late and heartbeats lie unread. Must hold: nobody is fenced (KAFKA-15019, KAFKA-15441)."""
    with Stage(3, watched=True) as stage:
        stage.create(replicas=(2, 3))
        stage.send(b"a")
        stage.pause("n1")
        stage.pass_time(4.0)
        stage.resume("n1")
        stage.holds_for(
            3.0,
            lambda: not any(broker.fenced for broker in controller(stage).head.brokers.by_id.values()),
            "a live broker is fenced",
        )
        assert (decided(stage).leader_epoch, decided(stage).isr) == (0, (2, 3))
        stage.cut_power("n3")
        stage.until(lambda: registration(stage, 3).fenced)


def test_b13_no_broker_acts_on_an_isr_change_that_its_controller_did_not_live_to_commit() -> None:
    """Setup: leader 4 asks for 5 to be dropped, and a write waits for that. Fault: the controller, cut off from its
    voters, appends the change and dies. Must hold: nobody acted on it; what its successor decides is in force."""
    with Stage(5, voters=3, watched=True) as stage:
        stage.create(replicas=(4, 5))
        stage.send(b"a")
        old = stage.cluster.active_controller()
        assert old is not None
        stage.cut("n4", "n5")
        pending = stage.begin(stage.client.produce("n4", b"b", ms=20_000))
        leader = stage.partition("n4").require_leader()
        stage.until(lambda: leader.proposal is not None)
        for voter in ("n1", "n2", "n3"):
            if voter != old:
                stage.cut(old, voter)
        stage.until(lambda: decided(stage, by=old).isr == (4,))
        stage.holds_for(
            0.3,
            lambda: committed(stage, at=old).isr == leader.isr == (4, 5) and not pending.done,
            "somebody acted on what is not committed",
        )
        stage.kill(old)
        stage.until(lambda: stage.cluster.active_controller() not in (None, old))
        new = stage.cluster.active_controller()
        assert new is not None
        assert decided(stage, by=new).isr == (4, 5), "the change was not committed"
        stage.until(lambda: pending.done)
        assert pending.result is not None
        assert pending.result.code is Code.NONE
        assert committed(stage, at=new).isr == leader.isr == (4,)
        stage.heal()
        stage.start(old)
        stage.until(lambda: set(committed(stage, ORDERS, at=old).isr) == {4, 5})
        assert stage.read() == [b"a", b"b"]


def test_others_lead_the_partitions_of_the_controllers_own_broker_while_it_opens_its_logs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A recovery of large logs takes minutes, and the broker registers only after it."""
    with Stage(3, broker_session_timeout_ms=1500) as stage:
        stage.create(replicas=(1, 2, 3))
        stage.send(b"a")
        stage.kill("n1")
        begin = Publisher.begin

        async def begin_late(self: Publisher, image: MetadataImage, progress: Callable[[], None]) -> None:
            if self._broker.node_id == 1:
                await asyncio.sleep(50)
            await begin(self, image, progress)

        monkeypatch.setattr(Publisher, "begin", begin_late)
        stage.start("n1", waits=False)
        stage.until(lambda: stage.leader() in ("n2", "n3"), 20.0)
        assert not stage.serves("n1")
        stage.send(b"b")
        stage.until(lambda: stage.serves("n1"), 60.0)
        stage.until(lambda: len(stage.image().isr) == 3)
