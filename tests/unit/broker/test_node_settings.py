"""Settings that steer the life of a node, each shown by what it changes."""

from __future__ import annotations

from pathlib import PurePath

import pytest

from highwater.broker.lifecycle import NotRegistered
from highwater.node import NotStarted
from highwater.sim.trace import Event
from highwater.wire.messages.describe_topic_partitions_request import DescribeTopicPartitionsRequest, TopicRequest
from highwater.wire.messages.describe_topic_partitions_response import DescribeTopicPartitionsResponse
from tests.unit.broker.living import METADATA, Living


def test_max_request_partition_size_limit_bounds_a_page_of_partitions() -> None:
    with Living(max_request_partition_size_limit="3").start() as living:
        living.create_topic("t", partitions=5)
        asked = DescribeTopicPartitionsRequest(topics=[TopicRequest(name="t")])
        answer = living.ask(asked, DescribeTopicPartitionsResponse, 0)
        assert [each.partition_index for each in answer.topics[0].partitions] == [0, 1, 2]
        assert answer.next_cursor is not None
        assert answer.next_cursor.partition_index == 3


@pytest.mark.parametrize("enabled", [True, False])
def test_controlled_shutdown_enable_decides_whether_the_controller_is_asked_first(enabled: bool) -> None:
    with Living(controlled_shutdown_enable=str(enabled).lower()).start() as living:
        living.stop()
        registration = living.node.raft.committed.brokers.get(1)
        assert registration is not None
        assert (registration.fenced or registration.in_controlled_shutdown) is enabled


def test_server_max_startup_time_ms_ends_a_start_that_takes_longer() -> None:
    with Living(server_max_startup_time_ms="1") as living, pytest.raises(NotStarted, match="max.startup.time.ms=1"):
        living.start()


def test_initial_broker_registration_timeout_ms_ends_a_registration_without_an_answer() -> None:
    with Living(initial_broker_registration_timeout_ms="3000") as living:
        living.node.raft.endpoint_of = lambda *_: None  # type: ignore[method-assign]
        began = living.sim.now
        with pytest.raises(NotRegistered, match=r"registration.timeout.ms=3000: no controller is known"):
            living.start()
        assert living.sim.now - began == pytest.approx(3, abs=0.5)


@pytest.mark.parametrize(("at_a_time", "most"), [("1", 1), ("3", 3)])
def test_num_recovery_threads_bounds_how_many_logs_are_loaded_side_by_side(at_a_time: str, most: int) -> None:
    with Living().start() as living:
        living.create_topic("t", partitions=8)
        living.reborn(num_recovery_threads_per_data_dir=at_a_time)
        loading, seen = 0, []

        def watch(event: Event) -> None:
            nonlocal loading
            if event.subject == "load_log" and event.phase == "before" and event.kind in ("run", "job"):
                loading += 1 if event.kind == "run" else -1
                seen.append(loading)

        living.sim.on_event(watch)
        living.start()
        assert len(living.node.broker.store.logs) == 8
        assert max(seen) == most


def test_internal_metadata_delete_delay_millis_keeps_old_metadata_files_for_a_while() -> None:
    settings = {
        "metadata_log_max_record_bytes_between_snapshots": "1",
        "internal_metadata_log_segment_bytes": "300",
        "metadata_max_retention_bytes": "1000",
        "internal_metadata_delete_delay_millis": "5000",
    }
    with Living(**settings).start() as living:

        def deleted() -> list[str]:
            return [name for name in living.world.disk.list(METADATA) if name.endswith(".deleted")]

        for number in range(8):
            living.create_topic(f"topic-{number}")
        living.sim.run(living.sim.until(lambda: bool(deleted())))
        first = set(deleted())
        kinds = {PurePath(name.removesuffix(".deleted")).suffix for name in first}
        assert ".checkpoint" in kinds
        living.sim.advance(4)
        assert first <= set(deleted())
        living.sim.advance(3)
        assert not first & set(deleted())
