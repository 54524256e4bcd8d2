"""AlterReplicaLogDirs (34): a broker has one log directory, so a replica is where it should be, or the directory is
unknown."""

from __future__ import annotations

from pathlib import PurePath

from highwater.broker.broker import Broker
from highwater.errors import Code
from highwater.net.context import RequestContext
from highwater.net.registry import MANY_ELEMENTS, Api
from highwater.net.turns import Work
from highwater.wire.messages.alter_replica_log_dirs_request import AlterReplicaLogDirsRequest
from highwater.wire.messages.alter_replica_log_dirs_response import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)

_PER_PIECE = 50


def _refused(request: AlterReplicaLogDirsRequest, code: Code, version: int) -> AlterReplicaLogDirsResponse:
    topics: dict[str, AlterReplicaLogDirTopicResult] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            rows = _rows(topics, topic.name)
            rows += [_row(index, code) for index in topic.partitions]
    return AlterReplicaLogDirsResponse(results=list(topics.values()))


API = Api(34, (1, 2), AlterReplicaLogDirsRequest, most_elements=MANY_ELEMENTS, refuse=_refused)


def handle(broker: Broker, ctx: RequestContext, request: AlterReplicaLogDirsRequest) -> Work:
    """In turns: a path may be long, and takes time to read."""
    if not ctx.authorize("Alter", "Cluster", "kafka-cluster"):
        ctx.respond(_refused(request, Code.CLUSTER_AUTHORIZATION_FAILED, ctx.version))
        return
    topics: dict[str, AlterReplicaLogDirTopicResult] = {}
    for directory in request.dirs:
        is_ours = PurePath(directory.path) == broker.store.directory
        yield None
        for topic in directory.topics:
            rows = _rows(topics, topic.name)
            for index in topic.partitions:
                rows.append(_row(index, _outcome(broker, topic.name, index) if is_ours else Code.LOG_DIR_NOT_FOUND))
                if not len(rows) % _PER_PIECE:
                    yield None
    ctx.respond(AlterReplicaLogDirsResponse(throttle_time_ms=ctx.throttle_ms, results=list(topics.values())))


def _outcome(broker: Broker, topic: str, index: int) -> Code:
    return Code.REPLICA_NOT_AVAILABLE if broker.hosted.find(topic, index) is None else Code.NONE


def _rows(topics: dict[str, AlterReplicaLogDirTopicResult], topic: str) -> list[AlterReplicaLogDirPartitionResult]:
    return topics.setdefault(topic, AlterReplicaLogDirTopicResult(topic_name=topic)).partitions


def _row(index: int, code: Code) -> AlterReplicaLogDirPartitionResult:
    return AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code)
