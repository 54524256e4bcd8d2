"""Replicas that replace damaged ones are reported once they have every committed record, and not before."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from highwater.broker.refilled import LOOK_SECONDS, Refilled
from highwater.partition.partition import Partition
from highwater.replication.follower import Ends
from highwater.sim import Simulation, SimWorld


class Replica:
    def __init__(self, log_end: int = 0) -> None:
        self.has_leader_high_watermark = False
        self.epoch = 1
        self.log = SimpleNamespace(log_end=log_end)


class Subject:
    """Replicas that are refilled, and a leader that answers when the test says so."""

    def __init__(self, sim: Simulation) -> None:
        self.sim = sim
        self.world: SimWorld = sim.world("n1")
        self.reported: list[Any] = []
        self.asked: list[tuple[Any, Callable[[Ends | None], None]]] = []
        self.refilled = Refilled(
            self.world.clock, lambda replica, done: self.asked.append((replica, done)), self.reported.append
        )

    def wait_for(self, *replicas: Replica) -> None:
        for each in replicas:
            self.world.call(self.refilled.wait_for, cast(Partition, each))

    def forget(self, replica: Replica) -> None:
        self.world.call(self.refilled.forget, cast(Partition, replica))

    def has_all(self, replica: Replica) -> bool:
        return self.refilled.has_what_is_committed(cast(Partition, replica))

    def look(self) -> None:
        self.sim.advance(3 * LOOK_SECONDS)

    def answer(self, end: int | None) -> Replica:
        replica, done = self.asked.pop(0)
        self.world.call(done, None if end is None else Ends(0, end))
        self.look()
        return cast(Replica, replica)


def test_a_replica_is_reported_once_when_it_has_every_committed_record() -> None:
    with Simulation(1) as sim:
        subject = Subject(sim)
        quick, slow, gone = Replica(10), Replica(10), Replica(10)
        subject.wait_for(quick, slow, gone)
        subject.look()
        assert (subject.reported, subject.asked) == ([], []), "the leader is asked only when little can be missing"
        subject.forget(gone)
        quick.has_leader_high_watermark = gone.has_leader_high_watermark = True
        subject.look()
        assert len(subject.asked) == 1
        assert subject.answer(10) is quick
        assert subject.reported == [quick]
        slow.has_leader_high_watermark = True
        subject.look()
        assert subject.answer(10) is slow
        assert subject.reported == [quick, slow]
        assert subject.has_all(quick)
        assert not subject.asked


def test_a_replica_waits_until_it_has_all_that_its_leader_had_though_the_high_watermark_is_lower() -> None:
    """A leader that has just started may have an old high watermark."""
    with Simulation(1) as sim:
        subject, replica = Subject(sim), Replica(0)
        replica.has_leader_high_watermark = True
        subject.wait_for(replica)
        subject.look()
        subject.answer(20)
        assert (subject.reported, subject.has_all(replica)) == ([], False)
        replica.log.log_end = 19
        subject.look()
        assert (subject.reported, subject.asked) == ([], [])
        replica.log.log_end = 20
        subject.look()
        assert subject.reported == [replica]
        replica.has_leader_high_watermark = False
        assert not subject.has_all(replica)


def test_a_leader_that_does_not_tell_its_end_is_asked_again() -> None:
    with Simulation(1) as sim:
        subject, replica = Subject(sim), Replica(10)
        replica.has_leader_high_watermark = True
        subject.wait_for(replica)
        subject.look()
        assert len(subject.asked) == 1, "one question at a time"
        subject.answer(None)
        assert (subject.reported, len(subject.asked)) == ([], 1)
        subject.answer(10)
        assert subject.reported == [replica]


@pytest.mark.parametrize("when", ["before the answer", "after the answer"])
def test_the_end_of_an_earlier_leader_does_not_count(when: str) -> None:
    with Simulation(1) as sim:
        subject, replica = Subject(sim), Replica(10)
        replica.has_leader_high_watermark = True
        subject.wait_for(replica)
        subject.look()
        if when == "before the answer":
            replica.epoch = 2
            subject.answer(10)
        else:
            subject.world.call(subject.asked.pop()[1], Ends(0, 10))
            replica.epoch = 2
            subject.look()
        assert subject.reported == []
        subject.answer(11)
        assert subject.reported == []
        replica.log.log_end = 11
        subject.look()
        assert subject.reported == [replica]


def test_an_answer_for_a_replica_that_is_gone_is_not_kept() -> None:
    with Simulation(1) as sim:
        subject, replica = Subject(sim), Replica(10)
        replica.has_leader_high_watermark = True
        subject.wait_for(replica)
        subject.look()
        subject.forget(replica)
        subject.answer(10)
        assert not subject.has_all(replica)
