"""Periodic work over all partitions, while partitions come and go."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from highwater.log.checkpoint import CheckpointFile
from highwater.wire.messages.delete_topics_request import DeleteTopicsRequest
from highwater.wire.messages.delete_topics_response import DeleteTopicsResponse
from tests.unit.broker.living import Living
from tests.unit.broker.test_divergence import batch_of, produce


def test_a_replica_that_is_deleted_before_its_flush_interval_is_over_is_not_kept_in_memory() -> None:
    with Living(log_flush_interval_ms="60000").start() as living:
        living.create_topic("t")
        produce(living, batch_of(living, b"v"))
        living.sim.advance(1.0)
        role = living.node.role
        assert role is not None
        assert [str(partition.tp) for partition in role.upkeep._unflushed_since] == ["t-0"]
        living.ask(DeleteTopicsRequest(topic_names=["t"], timeout_ms=5000), DeleteTopicsResponse, 4)
        living.sim.advance(1.0)
        assert not role.upkeep._unflushed_since


def test_an_interval_of_next_to_nothing_leaves_time_for_everything_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka permits 0 ms, too."""
    written: Counter[CheckpointFile] = Counter()
    write = CheckpointFile.write

    def counted(file: CheckpointFile, *then: Any) -> None:
        written[file] += 1
        write(file, *then)

    monkeypatch.setattr(CheckpointFile, "write", counted)
    often = {"log_flush_offset_checkpoint_interval_ms": "1", "log_flush_start_offset_checkpoint_interval_ms": "1"}
    with Living(**often, log_initial_task_delay_ms="1").start() as living:
        living.sim.advance(1.0)
        written.clear()
        living.sim.advance(1.0)
        assert sorted(written.values())[-3] > 50, "recovery points and log starts, and the metadata log's point"
        assert max(written.values()) <= 101
