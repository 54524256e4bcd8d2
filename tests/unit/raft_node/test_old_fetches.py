"""Fetches of the metadata log by replicas that do not say which high watermark they know."""

from __future__ import annotations

import pytest

from highwater.errors import Code
from highwater.model import METADATA_TOPIC, METADATA_TOPIC_ID, Uuid
from highwater.wire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from highwater.wire.messages.fetch_response import FetchResponse, PartitionData
from tests.unit.broker.living import Living

WAIT_MS = 400


def fetched(living: Living, version: int, high_watermark: int | None) -> PartitionData:
    """By an observer that has the whole log."""
    raft = living.node.raft
    place = FetchPartition(
        partition=0,
        current_leader_epoch=raft.epoch,
        fetch_offset=raft.log.durable_end,
        last_fetched_epoch=raft.log.last_epoch,
        partition_max_bytes=1 << 20,
    )
    if version >= 17:
        place.replica_directory_id = Uuid(bytes([7]) * 16)
    if high_watermark is not None:
        place.high_watermark = high_watermark
    named = {"topic": METADATA_TOPIC} if version < 13 else {"topic_id": METADATA_TOPIC_ID}
    request = FetchRequest(max_wait_ms=WAIT_MS, min_bytes=1, max_bytes=1 << 20)
    request.topics = [FetchTopic(**named, partitions=[place])]  # type: ignore[arg-type]
    if version >= 15:
        request.replica_state = ReplicaState(replica_id=9)
    else:
        request.replica_id = 9
    answer = living.ask(request, FetchResponse, version, 9093)
    return answer.responses[0].partitions[0]


@pytest.mark.parametrize("version", [12, 16, 17, 18])
def test_a_fetch_that_names_no_high_watermark_waits_while_there_is_nothing_new(version: int) -> None:
    """As in Kafka: such a replica learns the high watermark with the next records. If each fetch were answered at once,
    it would fetch again and again without a pause."""
    with Living(metadata_max_idle_interval_ms="0").start() as living:
        living.sim.advance(1.0)
        begun = living.sim.now
        row = fetched(living, version, None)
        assert (row.error_code, row.high_watermark) == (Code.NONE, living.node.raft.high_watermark)
        assert living.sim.now - begun >= WAIT_MS / 1000


@pytest.mark.parametrize("known", [-1, 0])
def test_a_fetch_that_names_an_old_high_watermark_is_answered_at_once(known: int) -> None:
    with Living(metadata_max_idle_interval_ms="0").start() as living:
        living.sim.advance(1.0)
        begun = living.sim.now
        assert fetched(living, 18, known).high_watermark == living.node.raft.high_watermark
        assert living.sim.now - begun < WAIT_MS / 1000
