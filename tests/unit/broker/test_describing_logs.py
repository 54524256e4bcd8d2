"""What a broker says of its log directory, of the producers of a partition, and of what has settings."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from highwater.errors import Code
from highwater.model import NO_NODE, TopicPartition
from highwater.wire import records
from highwater.wire.messages.describe_log_dirs_request import DescribableLogDirTopic, DescribeLogDirsRequest
from highwater.wire.messages.describe_log_dirs_response import DescribeLogDirsResponse, DescribeLogDirsResult
from highwater.wire.messages.describe_producers_request import DescribeProducersRequest, TopicRequest
from highwater.wire.messages.describe_producers_response import DescribeProducersResponse
from highwater.wire.messages.list_config_resources_request import ListConfigResourcesRequest
from highwater.wire.messages.list_config_resources_response import ListConfigResourcesResponse
from highwater.wire.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from highwater.wire.messages.produce_response import ProduceResponse
from tests.unit.broker.living import DIRECTORY, NODE, Living


@pytest.fixture(scope="module")
def living() -> Iterator[Living]:
    with Living().start() as node:
        node.create_topic("a", 3)
        node.create_topic("b")
        batch = records.build([(1, None, b"x" * 100, ())], producer_id=7, producer_epoch=2, base_sequence=5)
        data = [PartitionProduceData(index=1, records=bytes(batch))]
        request = ProduceRequest(acks=-1, timeout_ms=9, topic_data=[TopicProduceData(name="a", partition_data=data)])
        answer = node.ask(request, ProduceResponse, 9)
        assert answer.responses[0].partition_responses[0].error_code == 0
        yield node


def described(living: Living, *named: tuple[str, list[int]], version: int = 4) -> DescribeLogDirsResult:
    topics = [DescribableLogDirTopic(topic=topic, partitions=indexes) for topic, indexes in named] or None
    answer = living.ask(DescribeLogDirsRequest(topics=topics), DescribeLogDirsResponse, version)
    assert answer.error_code == 0
    (result,) = answer.results
    assert (result.error_code, result.log_dir) == (0, str(DIRECTORY))
    return result


def sizes(result: DescribeLogDirsResult) -> dict[tuple[str, int], int]:
    rows = [(topic.name, row) for topic in result.topics for row in topic.partitions]
    assert all((row.offset_lag, row.is_future_key) == (0, False) for _, row in rows)
    assert len({(topic, row.partition_index) for topic, row in rows}) == len(rows)
    return {(topic, row.partition_index): row.partition_size for topic, row in rows}


def test_every_log_has_its_size(living: Living) -> None:
    log = living.node.broker.store.logs[TopicPartition("a", 1)]
    assert log.size > 100
    assert sizes(described(living)) == {("a", 0): 0, ("a", 1): log.size, ("a", 2): 0, ("b", 0): 0}


def test_named_logs_have_one_row_each_and_missing_ones_none(living: Living) -> None:
    named = described(living, ("a", [1, 1, 9]), ("missing", [0]), ("a", [1, 2]))
    assert set(sizes(named)) == {("a", 1), ("a", 2)}


def test_a_topic_list_without_topics_names_none(living: Living) -> None:
    answer = living.ask(DescribeLogDirsRequest(topics=[]), DescribeLogDirsResponse, 4)
    assert [result.topics for result in answer.results] == [[]]


def test_the_room_of_the_disk_is_reported(living: Living) -> None:
    living.sim.storage(NODE).capacity = 10_000_000
    result = described(living)
    living.sim.storage(NODE).capacity = None
    assert result.total_bytes == 10_000_000
    assert 0 < result.usable_bytes < 10_000_000
    assert described(living, version=3).total_bytes == -1  # this version has no such field


def test_a_log_that_is_offline_is_left_out() -> None:
    with Living().start() as living:
        living.create_topic("a", 2)
        living.node.broker.store.logs[TopicPartition("a", 0)].storage_failed(OSError("gone"))
        assert set(sizes(described(living))) == {("a", 1)}


def test_the_producers_of_a_partition_are_listed_by_its_leader(living: Living) -> None:
    asked = [TopicRequest(name="a", partition_indexes=[1, 0, 1]), TopicRequest(name="missing", partition_indexes=[0])]
    answer = living.ask(DescribeProducersRequest(topics=asked), DescribeProducersResponse, 0)
    found, missing = answer.topics
    assert [(row.partition_index, row.error_code) for row in found.partitions] == [(1, 0), (0, 0)]
    (producer,) = found.partitions[0].active_producers
    assert (producer.producer_id, producer.producer_epoch, producer.last_sequence) == (7, 2, 5)
    assert (producer.last_timestamp, producer.current_txn_start_offset) == (1, -1)
    assert found.partitions[1].active_producers == []
    assert [row.error_code for row in missing.partitions] == [Code.UNKNOWN_TOPIC_OR_PARTITION]


def test_the_producers_of_a_partition_are_listed_once_though_its_topic_is_named_many_times(living: Living) -> None:
    asked = [TopicRequest(name="a", partition_indexes=[1])] * 50
    answer = living.ask(DescribeProducersRequest(topics=asked), DescribeProducersResponse, 0)
    rows = [row for topic in answer.topics for row in topic.partitions]
    assert [len(row.active_producers) for row in rows] == [1]


def test_only_a_leader_with_a_working_log_lists_producers() -> None:
    with Living().start() as living:
        living.create_topic("a", 2)
        follower = living.node.broker.hosted.find("a", 0)
        assert follower is not None
        follower.step_down(NO_NODE, 9, 9, follower.replicas)
        living.node.broker.store.logs[TopicPartition("a", 1)].storage_failed(OSError("gone"))
        asked = [TopicRequest(name="a", partition_indexes=[0, 1])]
        (found,) = living.ask(DescribeProducersRequest(topics=asked), DescribeProducersResponse, 0).topics
        expected = [Code.NOT_LEADER_OR_FOLLOWER, Code.KAFKA_STORAGE_ERROR]
        assert [row.error_code for row in found.partitions] == expected


@pytest.mark.parametrize(
    ("version", "types", "expected"),
    [
        (1, [2], {(2, "a"), (2, "b")}),
        (1, [4, 8], {(4, "1"), (8, "1")}),
        (1, [], {(2, "a"), (2, "b"), (4, "1"), (8, "1")}),
        (1, [16, 32], set()),
        (0, [], set()),  # the oldest version is for client metrics
    ],
)
def test_what_has_settings_is_listed(
    living: Living, version: int, types: list[int], expected: set[tuple[int, str]]
) -> None:
    answer = living.ask(ListConfigResourcesRequest(resource_types=types), ListConfigResourcesResponse, version)
    assert answer.error_code == 0
    assert {(each.resource_type, each.resource_name) for each in answer.config_resources} == expected


def test_an_unknown_type_of_resource_is_refused(living: Living) -> None:
    answer = living.ask(ListConfigResourcesRequest(resource_types=[2, 3]), ListConfigResourcesResponse, 1)
    assert (answer.error_code, answer.config_resources) == (Code.UNSUPPORTED_VERSION, [])
