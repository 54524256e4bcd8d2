"""A broker that follows, on a simulated disk, and a leader whose answers the test gives."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import PurePath
from typing import Any, Self, TypeVar

import pytest

from highwater.errors import Code
from highwater.model import Endpoint, NodeId, TopicPartition, Uuid
from highwater.net.api_versions import register_api_versions
from highwater.net.context import RequestContext
from highwater.net.deadlines import DeadlineQueue
from highwater.net.registry import Api, Registry, Role
from highwater.net.server import ListenerSpec, Server
from highwater.partition.fetcher import Fetcher, Limits
from highwater.partition.fetchers import Fetchers
from highwater.partition.partition import Partition
from highwater.partition.throttle import Throttle
from highwater.sim import Knobs, Simulation
from highwater.wire.messages.fetch_request import FetchRequest
from highwater.wire.messages.fetch_response import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from highwater.wire.messages.list_offsets_request import ListOffsetsRequest
from highwater.wire.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from highwater.wire.records import build
from tests.unit.log.bench import START_MS, TOPIC_ID, Bench, create_log, settings
from tests.unit.net.parties import FEATURES
from tests.unit.partition.hosting import alone

T = TypeVar("T")
LEADER, ME = NodeId(1), NodeId(2)
REPLICAS = (LEADER, ME)
EPOCH, BROKER_EPOCH, SESSION = 5, 40, 77
LIMITS = Limits(wait_ms=500, min_bytes=1, partition_bytes=1000, response_bytes=9000, backoff=1.0, timeout=30.0)
LEADER_AT, ELSEWHERE = Endpoint("leader", 9092), Endpoint("leader", 9093)
DATA = PurePath("/data")


def batch(base: int, *values: bytes, epoch: int = EPOCH) -> bytes:
    rows = [(START_MS, None, value, ()) for value in values or (b"v",)]
    return bytes(build(rows, base_offset=base, leader_epoch=epoch))


def row(index: int = 0, records: bytes = b"", **more: Any) -> PartitionData:
    """A partition's part of an answer; nothing is committed or deleted unless it says so."""
    return PartitionData(partition_index=index, records=records, **{"log_start_offset": 0, **more})


def diverging(epoch: int, end: int) -> PartitionData:
    return row(diverging_epoch=EpochEndOffset(epoch=epoch, end_offset=end))


class Asked:
    """One request, until it is answered."""

    def __init__(self, ctx: RequestContext, request: Any, at: float) -> None:
        self.ctx = ctx
        self.request = request
        self.at = at

    @property
    def places(self) -> dict[int, int]:
        """Where it asks for each partition that it names."""
        return {each.partition: each.fetch_offset for topic in self.request.topics for each in topic.partitions}

    @property
    def session(self) -> tuple[int, int]:
        return self.request.session_id, self.request.session_epoch

    @property
    def forgotten(self) -> list[int]:
        return [index for topic in self.request.forgotten_topics_data for index in topic.partitions]

    def answer(self, *rows: PartitionData, session: int = SESSION, code: Code = Code.NONE) -> None:
        responses = [FetchableTopicResponse(topic_id=TOPIC_ID, partitions=list(rows))] if rows else []
        self.ctx.respond(FetchResponse(error_code=int(code), session_id=session, responses=responses))

    def answer_offset(self, offset: int, code: Code = Code.NONE) -> None:
        """Of a ListOffsets."""
        partition_row = ListOffsetsPartitionResponse(offset=offset, error_code=int(code))
        self.ctx.respond(
            ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="orders", partitions=[partition_row])])
        )


class Following:
    """`partitions` of ORDERS, empty, in the leader epoch 5; nothing is followed yet."""

    def __init__(
        self, partitions: int = 1, knobs: Knobs | None = None, versions: tuple[int, int] = (4, 18), **changes: object
    ) -> None:
        self.sim = Simulation(1, knobs)
        self.versions = versions
        self.fetches: list[Asked] = []
        self.questions: list[Asked] = []
        self.leading = self.sim.world("leader")
        self.world = self.sim.world("follower")
        self.storage = self.sim.storage("follower")
        self.storage.provide(DATA)
        self.bench = Bench(self.world, DATA, settings(**changes))
        self.broker_epoch = BROKER_EPOCH
        self.limits = LIMITS
        self.rate: int | None = None
        self.doubted: list[float] = []
        self.perform(self.bench.store.open())
        self.partitions = [self._partition(index) for index in range(partitions)]
        deadlines = DeadlineQueue(self.world.clock)
        self.fetchers = Fetchers(
            lambda leader, at: Fetcher(
                self.world,
                deadlines,
                ME,
                leader,
                at,
                lambda: self.broker_epoch,
                lambda: self.limits,
                lambda leader: self.doubted.append(self.sim.now),
                self.bench.store,
                Throttle(ME, lambda: self.rate, lambda config: ("*",), lambda *_: False, self.world.clock.monotonic),
            )
        )

    def __enter__(self) -> Self:
        self.server = self.serve(LEADER_AT)
        return self

    def __exit__(self, *_: object) -> None:
        self.sim.close()

    def perform(self, work: Any) -> Any:
        return self.sim.run(self.world.perform(work))

    def call(self, fn: Callable[..., T], *args: object) -> T:
        """As the broker that follows."""
        return self.world.call(fn, *args)

    def _partition(self, index: int) -> Partition:
        log = self.perform(create_log(self.bench.store, TopicPartition("orders", index), Uuid(TOPIC_ID)))
        partition = self.call(Partition, log, alone())
        self.call(partition.step_down, LEADER, EPOCH, 1, REPLICAS)
        return partition

    def serve(self, at: Endpoint) -> Server:
        """The leader's broker begins to listen there."""
        registry = Registry(Role.BROKER)
        for api, asked in (
            (Api(1, self.versions, FetchRequest), self.fetches),
            (Api(2, ListOffsetsRequest.VERSIONS, ListOffsetsRequest), self.questions),
        ):
            registry.add(api, lambda ctx, request, asked=asked: asked.append(Asked(ctx, request, self.sim.now)))
        register_api_versions(registry, lambda: FEATURES)
        server = Server(self.leading, [ListenerSpec("PLAINTEXT", at, registry)])
        self.sim.run(self.leading.perform(server.start()))
        return server

    # What is followed

    def follow(self, *indexes: int, at: Endpoint = LEADER_AT) -> None:
        for index in indexes or range(len(self.partitions)):
            self.call(self.fetchers.follow, self.partitions[index], LEADER, at)

    def begin_term(self, epoch: int, index: int = 0) -> None:
        """The same leader leads in a later epoch."""
        self.call(self.partitions[index].step_down, LEADER, epoch, epoch, REPLICAS)
        self.follow(index)

    @property
    def partition(self) -> Partition:
        return self.partitions[0]

    @property
    def ends(self) -> list[int]:
        return [partition.log.log_end for partition in self.partitions]

    # What the leader is asked

    def until(self, condition: Callable[[], object], seconds: float = 60.0) -> None:
        self.sim.run(self.sim.until(lambda: bool(condition()), seconds))

    def fetch(self) -> Asked:
        """The next one that the leader gets."""
        self.until(lambda: self.fetches)
        return self.fetches.pop(0)

    def question(self) -> Asked:
        self.until(lambda: self.questions)
        return self.questions.pop(0)

    def is_silent(self, seconds: float = 5.0) -> bool:
        """Whether nothing is asked for so long."""
        self.sim.advance(seconds)
        return not self.fetches and not self.questions

    def begun(self, *rows: PartitionData) -> Asked:
        """All are followed, and the leader has answered the first fetch; the next one waits there."""
        self.follow()
        self.fetch().answer(*rows)
        return self.fetch()


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was logged beside state changes."""
    return [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]
