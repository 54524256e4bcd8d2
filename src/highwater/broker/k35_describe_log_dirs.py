"""DescribeLogDirs (35): the log directory of this broker, how large its logs are, and how much room is left."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import PurePath

from highwater.broker.broker import Broker
from highwater.errors import Code
from highwater.log.log import Log
from highwater.model import TopicPartition
from highwater.net.context import RequestContext
from highwater.net.registry import MOST_ELEMENTS, Api
from highwater.net.turns import Work, elsewhere
from highwater.wire.messages.describe_log_dirs_request import DescribeLogDirsRequest
from highwater.wire.messages.describe_log_dirs_response import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from highwater.world import Disk, Space, Step

_ERROR_FROM = 3
_SPACE_FROM = 4
_PER_PIECE = 50


def _refused(request: DescribeLogDirsRequest, code: Code, version: int) -> DescribeLogDirsResponse:
    if version >= _ERROR_FROM:
        return DescribeLogDirsResponse(error_code=code)
    return DescribeLogDirsResponse(results=[DescribeLogDirsResult(error_code=code)])


API = Api(35, (1, 5), DescribeLogDirsRequest, most_elements=MOST_ELEMENTS, refuse=_refused)


def handle(broker: Broker, ctx: RequestContext, request: DescribeLogDirsRequest) -> Work:
    if not ctx.authorize("Describe", "Cluster", "kafka-cluster"):
        denied = Code.CLUSTER_AUTHORIZATION_FAILED if ctx.version >= _ERROR_FROM else Code.NONE
        ctx.respond(DescribeLogDirsResponse(throttle_time_ms=ctx.throttle_ms, error_code=denied))
        return
    directory = broker.store.directory
    result = DescribeLogDirsResult(log_dir=str(directory))
    if ctx.version >= _SPACE_FROM:
        space = yield from elsewhere(broker.world, _space, directory)
        if isinstance(space, OSError):
            result.error_code = Code.KAFKA_STORAGE_ERROR
        elif isinstance(space, Exception):
            raise space
        else:
            result.total_bytes, result.usable_bytes = space
    topics: dict[str, DescribeLogDirsTopic] = {}
    seen: set[TopicPartition] = set()
    for at, partition in enumerate(_wanted(broker, request), 1):
        log = broker.store.logs.get(partition)
        if log is not None and log.offline is None and partition not in seen:
            seen.add(partition)
            rows = topics.setdefault(partition.topic, DescribeLogDirsTopic(name=partition.topic)).partitions
            rows.append(ctx.written(_described(log)))
        if not at % _PER_PIECE:
            yield None
    result.topics = list(topics.values())
    ctx.respond(DescribeLogDirsResponse(throttle_time_ms=ctx.throttle_ms, results=[result]))


def _space(disk: Disk, directory: PurePath) -> Generator[Step, None, Space]:
    yield Step()
    return disk.space(directory)


def _wanted(broker: Broker, request: DescribeLogDirsRequest) -> Iterator[TopicPartition]:
    """No topics at all means every log. A partition that is named twice has one row."""
    if request.topics is None:
        yield from list(broker.store.logs)
    else:
        for named in request.topics:
            for index in named.partitions:
                yield TopicPartition(named.topic, index)


def _described(log: Log) -> DescribeLogDirsPartition:
    """A log that was cut below its high watermark lags behind it, as Kafka counts."""
    return DescribeLogDirsPartition(
        partition_index=log.partition.partition,
        partition_size=log.size,
        offset_lag=max(log.high_watermark - log.log_end, 0),
    )
