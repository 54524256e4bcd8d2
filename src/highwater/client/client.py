"""A synchronous client of any Kafka cluster. It finds the brokers and the leaders, and sends requests to them."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from highwater.client.connection import DIAL_TIMEOUT, MAX_RESPONSE_BYTES, Connection, OnDelay
from highwater.client.failures import ClientFailure, Disconnected, RequestTimeout, Unreachable
from highwater.client.security import PLAINTEXT, Security
from highwater.errors import Code, KafkaError, code_of, is_retriable
from highwater.model import NO_NODE, ZERO_UUID, Endpoint, NodeId, TopicPartition, Uuid
from highwater.wire.codec import Message
from highwater.wire.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from highwater.wire.messages.metadata_response import MetadataResponse, MetadataResponseTopic

FIRST_BACKOFF = 0.05
LAST_BACKOFF = 1.0
FIRST_PATIENCE = 1.0
"""The timeout for one of several servers."""

# For a tool a missing topic is an answer. But for a client that has just created it, it is only a short delay.
_UNKNOWN = frozenset({Code.UNKNOWN_TOPIC_OR_PARTITION, Code.UNKNOWN_TOPIC_ID})

_PROTOCOL = re.compile(r"^[\w%.-]*://", re.ASCII)

M = TypeVar("M", bound=Message)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Broker:
    id: NodeId
    endpoint: Endpoint
    rack: str | None


@dataclass(frozen=True, slots=True)
class KnownPartition:
    leader: NodeId
    leader_epoch: int
    error: Code


@dataclass(frozen=True, slots=True)
class KnownTopic:
    id: Uuid
    is_internal: bool
    partitions: Mapping[int, KnownPartition]


@dataclass(slots=True)
class ClusterView:
    """The content of the last Metadata responses."""

    cluster_id: str | None = None
    controller: NodeId = NO_NODE
    brokers: dict[NodeId, Broker] = field(default_factory=dict)
    topics: dict[str, KnownTopic] = field(default_factory=dict)


def parse_bootstrap_servers(servers: str | Iterable[str]) -> list[Endpoint]:
    """Parses `host:port,host:port`, or a list of such texts; IPv6 addresses are in brackets. A protocol before it, as
    in `PLAINTEXT://host:port`, means nothing, as with Kafka's clients. Raises ValueError."""
    texts = servers.split(",") if isinstance(servers, str) else list(servers)
    endpoints = []
    for text in (part.strip() for part in texts if part.strip()):
        host, colon, port = _PROTOCOL.sub("", text).rpartition(":")
        if not colon or not host or "/" in host or not port.isascii() or not port.isdigit() or int(port) > 65535:
            raise ValueError(f"Invalid url in bootstrap.servers: {text} is not HOST:PORT")
        endpoints.append(Endpoint(host.strip("[]"), int(port)))
    if not endpoints:
        raise ValueError("No resolvable bootstrap urls given in bootstrap.servers")
    return endpoints


class Client:
    """One connection for each broker, opened when it is first needed. It must not be used by several threads at once.
    `timeout` limits a whole call with its retries, and `request_timeout` one request. Raises ValueError if `security`
    cannot be used, for example because a secret is not where its reference points."""

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        *,
        client_id: str = "highwater",
        timeout: float = 60.0,
        request_timeout: float = 30.0,
        max_response_bytes: int = MAX_RESPONSE_BYTES,
        security: Security = PLAINTEXT,
    ) -> None:
        self.bootstrap = parse_bootstrap_servers(bootstrap_servers)
        self.client_id = client_id
        self.timeout = timeout
        self.request_timeout = request_timeout
        self.max_response_bytes = max_response_bytes
        self.security = security
        self._access = security.access()
        self.on_delay: OnDelay = lambda failure, seconds: None
        """Called for each failure after which a call tries again, and for responses that take long."""
        self.view = ClusterView()
        self._connections: dict[Endpoint, Connection] = {}

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def connection(self, endpoint: Endpoint, *, dial_timeout: float = DIAL_TIMEOUT) -> Connection:
        """The open connection to `endpoint`. Opens one if there is none."""
        known = self._connections.get(endpoint)
        if known is None or not known.is_open:
            known = self._connections[endpoint] = self.dial(endpoint, dial_timeout=dial_timeout)
        return known

    def dial(self, endpoint: Endpoint, *, dial_timeout: float = DIAL_TIMEOUT) -> Connection:
        """A connection of the caller's own, which closes it."""
        return Connection(
            endpoint,
            client_id=self.client_id,
            timeout=self.request_timeout,
            dial_timeout=dial_timeout,
            max_response_bytes=self.max_response_bytes,
            on_delay=lambda failure, seconds: self.on_delay(failure, seconds),
            access=self._access,
        )

    def any_connection(self) -> Connection:
        """A connection to any broker; raises Unreachable if no server accepts one. A server that accepts and does not
        answer, like a stopped process, is skipped until the others were tried."""
        known = [broker.endpoint for broker in self.view.brokers.values()]
        candidates = list(dict.fromkeys([*known, *self.bootstrap]))
        for endpoint in candidates:
            connection = self._connections.get(endpoint)
            if connection is not None and connection.is_open:
                return connection
        refusals: dict[Endpoint, str] = {}
        for patience in (FIRST_PATIENCE, DIAL_TIMEOUT) if len(candidates) > 1 else (DIAL_TIMEOUT,):
            for endpoint in candidates:
                try:
                    return self.connection(endpoint, dial_timeout=patience)
                except (Disconnected, RequestTimeout) as failure:
                    refusals[endpoint] = str(failure)
        raise Unreachable("; ".join(refusals.values()))

    def broker_connection(self, node: NodeId) -> Connection:
        broker = self.view.brokers.get(node)
        if broker is None:
            self.refresh([])
            broker = self.view.brokers.get(node)
        if broker is None:
            raise KafkaError(Code.BROKER_NOT_AVAILABLE, f"broker {node} is not available")
        return self.connection(broker.endpoint)

    def ask(self, request: Message, answer: type[M], *, cap: int | None = None) -> M:
        """Asks any broker. Brokers forward what only the controller can do."""
        return self.any_connection().request(request, answer, cap=cap)

    def ask_broker(self, node: NodeId, request: Message, answer: type[M], *, cap: int | None = None) -> M:
        return self.broker_connection(node).request(request, answer, cap=cap)

    def retrying(
        self,
        attempt: Callable[[], T],
        *,
        timeout: float | None = None,
        await_topic: bool = False,
        final: Container[int] = (),
    ) -> T:
        """Calls `attempt` until it succeeds, fails with an error that is not retriable or is `final`, or the time is
        up.

        Lost connections are retried. An unknown topic counts as retriable only with `await_topic`. A cluster that was
        never reached fails at once.
        """
        begun = time.monotonic()
        deadline = begun + (self.timeout if timeout is None else timeout)
        backoff = FIRST_BACKOFF
        while True:
            try:
                return attempt()
            except (KafkaError, Disconnected, RequestTimeout) as failure:
                hopeless = isinstance(failure, Unreachable) and not self.view.brokers
                hopeless = hopeless or (isinstance(failure, KafkaError) and failure.code in final)
                if hopeless or not _worth_retrying(failure, await_topic) or time.monotonic() + backoff > deadline:
                    raise
                self.on_delay(failure, time.monotonic() - begun)
            time.sleep(backoff * random.uniform(0.8, 1.2))
            backoff = min(backoff * 2, LAST_BACKOFF)

    def metadata(self, topics: Sequence[str] | None, *, create: bool = False) -> MetadataResponse:
        """One Metadata round trip (null = all topics), remembered in `view`."""
        asked = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(topics=asked, allow_auto_topic_creation=create)
        response = self.ask(request, MetadataResponse)
        if response.error_code != Code.NONE:
            raise KafkaError(code_of(response.error_code))
        self._remember(response)
        return response

    def refresh(self, topics: Sequence[str] | None, *, create: bool = False) -> None:
        """Bring `view` up to date for these topics (all if None), with retries."""
        self.retrying(lambda: self.metadata(topics, create=create))

    def topic(self, name: str, *, create: bool = False) -> KnownTopic:
        """The topic from `view`, or from a request. Raises the topic's error."""
        known = self.view.topics.get(name)
        if known is not None:
            return known
        for topic in self.metadata([name], create=create).topics:
            if topic.error_code != Code.NONE:
                raise KafkaError(code_of(topic.error_code), f"topic {name}: {code_of(topic.error_code).description}")
        return self.view.topics[name]

    def leader(self, partition: TopicPartition) -> NodeId:
        """Raises LEADER_NOT_AVAILABLE or UNKNOWN_TOPIC_OR_PARTITION; both pass where `retrying` awaits them."""
        topic = self.topic(partition.topic)
        known = topic.partitions.get(partition.partition)
        if known is None:
            self.forget(partition.topic)
            raise KafkaError(
                Code.UNKNOWN_TOPIC_OR_PARTITION,
                f"there is no partition {partition}: its topic has {len(topic.partitions)}, from 0 on",
            )
        if known.leader < 0:
            self.forget(partition.topic)
            raise KafkaError(Code.LEADER_NOT_AVAILABLE, f"partition {partition} has no leader")
        return known.leader

    def forget(self, topic: str) -> None:
        """Forgets a topic: the next look-up asks for it again."""
        self.view.topics.pop(topic, None)

    def _remember(self, response: MetadataResponse) -> None:
        view = self.view
        view.cluster_id = response.cluster_id
        view.controller = NodeId(response.controller_id)
        view.brokers = {
            NodeId(broker.node_id): Broker(NodeId(broker.node_id), Endpoint(broker.host, broker.port), broker.rack)
            for broker in response.brokers
        }
        for topic in response.topics:
            if topic.name is None:
                continue
            if topic.error_code == Code.NONE:
                view.topics[topic.name] = _known_topic(topic)
            else:
                view.topics.pop(topic.name, None)


def _known_topic(topic: MetadataResponseTopic) -> KnownTopic:
    return KnownTopic(
        id=topic.topic_id or ZERO_UUID,
        is_internal=topic.is_internal,
        partitions={
            partition.partition_index: KnownPartition(
                NodeId(partition.leader_id), partition.leader_epoch, code_of(partition.error_code)
            )
            for partition in topic.partitions
        },
    )


def _worth_retrying(failure: KafkaError | ClientFailure, await_topic: bool) -> bool:
    if not isinstance(failure, KafkaError):
        return True
    return is_retriable(failure.code) and (await_topic or failure.code not in _UNKNOWN)
