"""DescribeLogDirs (35): the log directory of this broker, and the size of each replica in it.

v3 an error for the whole request, v4 the size of the disk, v5 cordoned directories.
"""

from __future__ import annotations

from collections.abc import Iterator

from highwater.broker.broker import Broker
from highwater.errors import Code
from highwater.net.context import RequestContext
from highwater.net.registry import MOST_ELEMENTS, Api
from highwater.net.turns import Work
from highwater.partition.partition import Partition
from highwater.wire.messages.describe_log_dirs_request import DescribeLogDirsRequest
from highwater.wire.messages.describe_log_dirs_response import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

ERRORS_FROM = 3


def _refused(request: DescribeLogDirsRequest, code: Code, version: int) -> DescribeLogDirsResponse:
    """Older versions have an error for a directory, but none for the whole request."""
    if version < ERRORS_FROM:
        return DescribeLogDirsResponse(results=[DescribeLogDirsResult(error_code=code)])
    return DescribeLogDirsResponse(error_code=code)


API = Api(35, (1, 5), DescribeLogDirsRequest, most_elements=MOST_ELEMENTS, refuse=_refused)


def handle(broker: Broker, ctx: RequestContext, request: DescribeLogDirsRequest) -> Work | None:
    if not ctx.authorize("Describe", "Cluster", "kafka-cluster"):
        ctx.respond(_refused(request, Code.CLUSTER_AUTHORIZATION_FAILED, ctx.version))
        return None
    return _described(broker, ctx, request)


def _described(broker: Broker, ctx: RequestContext, request: DescribeLogDirsRequest) -> Work:
    topics: dict[str, DescribeLogDirsTopic] = {}
    for partition in _asked(broker, request):
        yield None
        if partition is None or partition.log.offline is not None:
            continue
        log, name = partition.log, partition.tp.topic
        row = DescribeLogDirsPartition(
            partition_index=partition.tp.partition,
            partition_size=log.size,
            offset_lag=max(log.high_watermark - log.log_end, 0),
        )
        topics.setdefault(name, DescribeLogDirsTopic(name=name)).partitions.append(row)
    result = DescribeLogDirsResult(log_dir=str(broker.store.directory), topics=list(topics.values()))
    ctx.respond(DescribeLogDirsResponse(throttle_time_ms=ctx.throttle_ms, results=[result]))


def _asked(broker: Broker, request: DescribeLogDirsRequest) -> Iterator[Partition | None]:
    if request.topics is None:
        yield from list(broker.hosted)
    else:
        for topic in request.topics:
            for index in dict.fromkeys(topic.partitions):
                yield broker.hosted.find(topic.topic, index)
