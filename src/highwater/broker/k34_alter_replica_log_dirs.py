"""AlterReplicaLogDirs (34): a broker has one log directory, so a replica is where it should be, or the directory is
unknown."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePath

from highwater.broker.broker import Broker
from highwater.errors import Code
from highwater.net.context import RequestContext
from highwater.net.registry import MANY_ELEMENTS, Api
from highwater.wire.messages.alter_replica_log_dirs_request import AlterReplicaLogDirsRequest
from highwater.wire.messages.alter_replica_log_dirs_response import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)


def _refused(request: AlterReplicaLogDirsRequest, code: Code, version: int) -> AlterReplicaLogDirsResponse:
    return _response(request, lambda path, topic, index: code)


API = Api(34, (1, 2), AlterReplicaLogDirsRequest, most_elements=MANY_ELEMENTS, refuse=_refused)


def handle(broker: Broker, ctx: RequestContext, request: AlterReplicaLogDirsRequest) -> None:
    if not ctx.authorize("Alter", "Cluster", "kafka-cluster"):
        ctx.respond(_refused(request, Code.CLUSTER_AUTHORIZATION_FAILED, ctx.version))
        return

    def outcome(path: str, topic: str, index: int) -> Code:
        if PurePath(path) != broker.store.directory:
            return Code.LOG_DIR_NOT_FOUND
        return Code.REPLICA_NOT_AVAILABLE if broker.hosted.find(topic, index) is None else Code.NONE

    response = _response(request, outcome)
    response.throttle_time_ms = ctx.throttle_ms
    ctx.respond(response)


def _response(
    request: AlterReplicaLogDirsRequest, outcome: Callable[[str, str, int], Code]
) -> AlterReplicaLogDirsResponse:
    topics: dict[str, AlterReplicaLogDirTopicResult] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            rows = topics.setdefault(topic.name, AlterReplicaLogDirTopicResult(topic_name=topic.name)).partitions
            rows += [
                AlterReplicaLogDirPartitionResult(
                    partition_index=index, error_code=outcome(directory.path, topic.name, index)
                )
                for index in topic.partitions
            ]
    return AlterReplicaLogDirsResponse(results=list(topics.values()))
