"""DescribeLogDirs and AlterReplicaLogDirs of a broker with its one directory."""

from __future__ import annotations

from highwater.errors import Code
from highwater.wire import records
from highwater.wire.messages.alter_replica_log_dirs_request import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from highwater.wire.messages.alter_replica_log_dirs_response import AlterReplicaLogDirsResponse
from highwater.wire.messages.describe_log_dirs_request import DescribableLogDirTopic, DescribeLogDirsRequest
from highwater.wire.messages.describe_log_dirs_response import DescribeLogDirsResponse
from highwater.wire.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from highwater.wire.messages.produce_response import ProduceResponse
from tests.unit.broker.living import Living


def described(living: Living, topics: list[DescribableLogDirTopic] | None) -> dict[tuple[str, int], int]:
    """The sizes of the replicas in the one directory."""
    answer = living.ask(DescribeLogDirsRequest(topics=topics), DescribeLogDirsResponse, 5)
    assert answer.error_code == Code.NONE
    [directory] = answer.results
    assert (directory.error_code, directory.log_dir) == (Code.NONE, "/data")
    assert (directory.total_bytes, directory.usable_bytes, directory.is_cordoned) == (-1, -1, False)
    rows = [(topic.name, row) for topic in directory.topics for row in topic.partitions]
    assert all((row.offset_lag, row.is_future_key) == (0, False) for _, row in rows)
    return {(name, row.partition_index): row.partition_size for name, row in rows}


def test_the_directory_of_a_broker_and_the_sizes_of_its_replicas_are_described() -> None:
    with Living().start() as living:
        living.create_topic("t", partitions=2)
        batch = records.build([(living.world.clock.wall_ms(), None, bytes(500), ())])
        data = TopicProduceData(name="t", partition_data=[PartitionProduceData(index=1, records=batch)])
        living.ask(ProduceRequest(acks=-1, timeout_ms=5000, topic_data=[data]), ProduceResponse, 9)
        sizes = described(living, None)
        assert sizes == {("t", 0): 0, ("t", 1): len(batch)}
        named = [DescribableLogDirTopic(topic="t", partitions=[1, 7, 1]), DescribableLogDirTopic(topic="no")]
        assert described(living, named) == {("t", 1): len(batch)}
        assert described(living, []) == {}


def test_a_replica_stays_in_the_directory_where_it_is_and_other_directories_are_unknown() -> None:
    with Living().start() as living:
        living.create_topic("t", partitions=1)

        def codes(path: str) -> list[int]:
            topic = AlterReplicaLogDirTopic(name="t", partitions=[0, 1])
            request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=[topic])])
            answer = living.ask(request, AlterReplicaLogDirsResponse, 2)
            return [row.error_code for each in answer.results for row in each.partitions]

        assert codes("/data") == codes("/data/") == [Code.NONE, Code.REPLICA_NOT_AVAILABLE]
        assert codes("/elsewhere") == [Code.LOG_DIR_NOT_FOUND] * 2
