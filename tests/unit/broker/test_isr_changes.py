"""The ISR changes that a broker asks for go to the controller in pieces that it can decide on in one go."""

from __future__ import annotations

from typing import Any

import pytest

from highwater.active_controller import k56_alter_partition
from highwater.broker import isr_changes
from highwater.model import TopicPartition
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
