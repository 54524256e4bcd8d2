"""The ISR changes that a broker asks for: many in one request, and none lost or sent for an earlier term."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from highwater.active_controller import k56_alter_partition
from highwater.broker import isr_changes
from highwater.broker.controller_channel import ControllerChannel
from highwater.broker.isr_changes import RETRY_SECONDS, IsrChanges
from highwater.model import NodeId, TopicPartition, Uuid
from highwater.replication.alter_partition import Proposal
from highwater.sim import Simulation
from tests.scenarios.mishaps import decided
from tests.scenarios.stage import Stage

LAST = TopicPartition("many", 29)


def test_a_leader_of_many_partitions_asks_for_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    decide = k56_alter_partition.alter_partition

    def counted(head: Any, request: Any, *args: Any) -> Any:
        sizes.append(sum(len(topic.partitions) for topic in request.topics))
        return decide(head, request, *args)

    monkeypatch.setattr(k56_alter_partition, "alter_partition", counted)
    monkeypatch.setattr(isr_changes, "AT_ONCE", 8)
    with Stage(3, watched=True, replica_lag_time_max_ms=1000) as stage:
        stage.create(LAST, replicas=(2, 3))
        partitions = [TopicPartition(LAST.topic, index) for index in range(LAST.partition + 1)]
        stage.cut("n2", "n3")
        for tp in partitions:
            stage.send(b"one", tp=tp)
        stage.until(lambda: all(list(decided(stage, tp).isr) == [2] for tp in partitions))
        shrunk = len(sizes)
        assert max(sizes) <= 8
        stage.heal()
        stage.until(lambda: all(sorted(decided(stage, tp).isr) == [2, 3] for tp in partitions))
        assert max(sizes) <= 8 < sum(sizes[shrunk:])


class Proposing:
    """A leader with proposals, and a controller whose answers the test gives."""

    def __init__(self, sim: Simulation) -> None:
        self._sim = sim
        self._world = sim.world("n1")
        self._changes = IsrChanges(self._world, NodeId(1), cast(ControllerChannel, self), lambda: 7)
        self.leader: Any = SimpleNamespace(epoch=3, proposal=None)
        self.partition: Any = SimpleNamespace(topic_id=Uuid(bytes(16)), tp=TopicPartition("t", 0), leader=self.leader)
        self.sent: list[list[int]] = []
        """The ISR of each request."""
        self._answer: Callable[[Any], None] = lambda answer: None

    def ask(self, request: Any, response: Any, done: Callable[[Any], None], seconds: float) -> None:
        [topic] = request.topics
        [partition] = topic.partitions
        self.sent.append([state.broker_id for state in partition.new_isr_with_epochs])
        self._answer = done

    def propose(self, *isr: int) -> None:
        self.leader.proposal = Proposal(tuple(map(NodeId, isr)), (None,) * len(isr), 1, expands=False)
        self._world.call(self._changes.ask, self.partition, self.leader, self.leader.proposal)
        self._sim.advance(RETRY_SECONDS)

    def lose_answer(self) -> None:
        self._world.call(self._answer, None)
        self._sim.advance(2 * RETRY_SECONDS)


def test_a_lost_request_does_not_come_back_in_the_place_of_a_newer_proposal() -> None:
    with Simulation(1) as sim:
        proposing = Proposing(sim)
        proposing.propose(1, 2)
        proposing.propose(1, 3)
        assert proposing.sent == [[1, 2]], "the second one waits"
        proposing.lose_answer()
        assert proposing.sent == [[1, 2], [1, 3]]


def test_a_proposal_of_an_earlier_term_is_not_sent_again() -> None:
    with Simulation(1) as sim:
        proposing = Proposing(sim)
        proposing.propose(1, 2)
        proposing.partition.leader = SimpleNamespace(epoch=4, proposal=None)
        proposing.lose_answer()
        assert proposing.sent == [[1, 2]]
