"""A client of a cluster on the virtual clock: connections, and the content of the last Metadata response."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

from highwater.errors import Code, KafkaError
from highwater.model import ZERO_UUID, Endpoint, TopicPartition, Uuid
from highwater.net.client import CallFailed, ClientConnection, Gone
from highwater.net.deadlines import DeadlineQueue
from highwater.wire.codec import Message
from highwater.wire.messages.metadata_request import MetadataRequest
from highwater.wire.messages.metadata_response import MetadataResponse
from highwater.world import World

M = TypeVar("M", bound=Message)
CONNECT_SECONDS = 1.0
BACKOFF_SECONDS = (0.01, 0.1)
LEAST_SECONDS = 0.8
"""A request with less time than this may get no response: its caller's time is nearly over."""
WELL_SECONDS = 6.0
"""A healthy cluster answers every request within this time."""


class NotConnected(CallFailed):
    """The request never left: it was not carried out."""


class _Line:
    """One connection, and whether it was opened."""

    def __init__(self, world: World, to: Endpoint, client_id: str, deadlines: DeadlineQueue) -> None:
        self._opened: asyncio.Future[Gone | None] = asyncio.get_running_loop().create_future()
        self.connection = ClientConnection(world, to, client_id, deadlines, self._closed)
        self.connection.open(lambda: self._settle(None), CONNECT_SECONDS)

    async def opened(self) -> ClientConnection:
        reason = await asyncio.shield(self._opened)
        if reason is not None:
            raise NotConnected(reason, self.connection.peer)
        return self.connection

    def _closed(self, reason: Gone) -> None:
        self._settle(reason)

    def _settle(self, reason: Gone | None) -> None:
        if not self._opened.done():
            self._opened.set_result(reason)


class KnownTopic(NamedTuple):
    id: Uuid
    leaders: dict[int, Endpoint]
    """The leader of each partition that has one."""


class Client:
    """The part that producers, readers and administrators share: connections, and the content of the last Metadata
    response."""

    def __init__(self, world: World, bootstrap: Sequence[Endpoint], client_id: str, patience: float = 1.0) -> None:
        self.world = world
        self.client_id = client_id
        self._patience = patience
        """A request without a response is given up after this many seconds: a peer without power does not close its
        connections."""
        self._brokers = list(bootstrap)
        self._topics: dict[str, KnownTopic] = {}
        self._deadlines = DeadlineQueue(world.clock)
        self._lines: dict[Endpoint, _Line] = {}
        self._random = world.random(f"client {client_id}")
        self._well_since = float("inf")
        self.unanswered: list[str] = []
        """Requests that got no response in time although the cluster was healthy when they were sent."""
        self.complaints: list[str] = []
        """Responses that a broker must not give under any fault."""

    @property
    def now(self) -> float:
        return self.world.clock.monotonic()

    def expect_answers(self) -> None:
        """From now on the cluster is healthy. A follower that counts as in sync may still lag for about a second."""
        self._well_since = self.now
        self._patience = max(self._patience, WELL_SECONDS)

    def complain(self, of: str) -> None:
        self.complaints.append(f"{self.client_id}: {of}")

    async def back_off(self) -> None:
        await asyncio.sleep(self._random.uniform(*BACKOFF_SECONDS))

    async def ask(
        self, to: Endpoint, request: Message, response: type[M], seconds: float, highest: int | None = None
    ) -> M:
        """Raises NotConnected, or CallFailed if it is unknown whether the request was carried out. `highest` limits the
        version."""
        line = self._lines.get(to)
        if line is None or line.connection.ended is not None:
            line = self._lines[to] = _Line(self.world, to, self.client_id, self._deadlines)
        connection = await line.opened()
        least, most = request.VERSIONS
        version = connection.pick(request.API_KEY, (least, most if highest is None else highest))
        if version is None:
            raise KafkaError(Code.UNSUPPORTED_VERSION, f"{to} does not know API {request.API_KEY}")
        answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def done(answer: M | CallFailed) -> None:
            if not answered.done():
                answered.set_result(answer)

        sent = self.now
        connection.send(request, version, response, done, min(seconds, self._patience))
        answer = await answered
        if isinstance(answer, CallFailed):
            had_time = min(seconds, self._patience) >= LEAST_SECONDS
            if answer.reason is Gone.TIMED_OUT and sent >= self._well_since and had_time:
                self.unanswered.append(f"{self.client_id}: {type(request).__name__} to {to}")
            raise answer
        found: M = answer
        return found

    async def ask_any(self, request: Message, response: type[M], seconds: float) -> M:
        """Sends the request to one broker after the other. The response of the first one that takes it counts."""
        unreached: NotConnected | None = None
        for broker in self._random.sample(self._brokers, len(self._brokers)):
            try:
                return await self.ask(broker, request, response, seconds)
            except NotConnected as failed:
                unreached = failed
        assert unreached is not None, "no broker is known"
        raise unreached

    async def metadata(self, seconds: float) -> MetadataResponse:
        """The metadata of all topics. Leaders are looked up in it from then on."""
        answer = await self.ask_any(MetadataRequest(topics=None), MetadataResponse, seconds)
        brokers = {broker.node_id: Endpoint(broker.host, broker.port) for broker in answer.brokers}
        self._brokers = list(dict.fromkeys([*self._brokers, *brokers.values()]))
        self._topics = {
            topic.name or "": KnownTopic(
                topic.topic_id,
                {
                    part.partition_index: brokers[part.leader_id]
                    for part in topic.partitions
                    if part.leader_id in brokers
                },
            )
            for topic in answer.topics
            if topic.error_code == Code.NONE
        }
        return answer

    def forget_leaders(self) -> None:
        self._topics.clear()

    async def leader(self, partition: TopicPartition, seconds: float) -> tuple[Endpoint, Uuid]:
        """The leader's address and the topic's id. Raises KafkaError if there is no leader now."""
        if partition.topic not in self._topics:
            await self.metadata(seconds)
        topic = self._topics.get(partition.topic, KnownTopic(ZERO_UUID, {}))
        if partition.partition not in topic.leaders:
            self.forget_leaders()
            raise KafkaError(Code.LEADER_NOT_AVAILABLE, str(partition))
        return topic.leaders[partition.partition], topic.id

    def close(self) -> None:
        for line in self._lines.values():
            line.connection.close()
