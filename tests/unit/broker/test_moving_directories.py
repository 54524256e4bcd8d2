"""AlterReplicaLogDirs of a broker with its one directory."""

from __future__ import annotations

from highwater.errors import Code
from highwater.wire.messages.alter_replica_log_dirs_request import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from highwater.wire.messages.alter_replica_log_dirs_response import AlterReplicaLogDirsResponse
from tests.unit.broker.living import Living
from tests.unit.broker.repeated import labour_of


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


def test_a_long_path_is_read_once_for_all_partitions_that_are_to_be_there() -> None:
    with Living().start() as living:
        living.create_topic("t", partitions=1)
        topic = AlterReplicaLogDirTopic(name="t", partitions=list(range(100)))
        request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path="/a" * 4_000, topics=[topic])])
        with labour_of(living) as labour:
            answer = living.ask(request, AlterReplicaLogDirsResponse, 2)
        assert {row.error_code for row in answer.results[0].partitions} == {Code.LOG_DIR_NOT_FOUND}
        assert labour.most < 40_000


def test_many_paths_are_read_in_turns() -> None:
    with Living().start() as living:
        directories = [AlterReplicaLogDir(path=f"/{number}" + "/a" * 400) for number in range(400)]
        with labour_of(living) as labour:
            living.ask(AlterReplicaLogDirsRequest(dirs=directories), AlterReplicaLogDirsResponse, 2)
        assert labour.most < 40_000
