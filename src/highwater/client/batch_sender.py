"""Sends many records fast: many batches are in flight, each is stored once and in order, even if leaders change."""

from __future__ import annotations

import select
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from highwater.client.admin import Admin, ResourceType
from highwater.client.client import FIRST_BACKOFF, LAST_BACKOFF, Client, KnownTopic
from highwater.client.connection import Connection, Ticket
from highwater.client.failures import AuthenticationFailed, ClientFailure, Disconnected, RequestTimeout, UnsupportedApi
from highwater.client.producer import ACKS_ALL, new_identity
from highwater.client.sealing import SealedBatch, Sealing, Shrink, excess
from highwater.errors import Code, KafkaError, code_of, is_retriable
from highwater.model import ZERO_UUID, NodeId, TopicPartition, Uuid
from highwater.wire.compression import Codec
from highwater.wire.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from highwater.wire.messages.produce_response import ProduceResponse
from highwater.wire.records import NewRecord

MAX_IN_FLIGHT = 5
"""The most batches of one partition in flight: a leader remembers as many batches of a producer, and can recognise only
those when they are repeated."""

_FIRST_VERSION_WITH_TOPIC_IDS = 13
_LIMIT = "max.message.bytes"


@dataclass(slots=True)
class _Lane:
    """One partition: its batches in order, of which the first `sent` are on their way."""

    partition: TopicPartition
    batches: deque[SealedBatch] = field(default_factory=deque)
    sent: int = 0
    in_flight: int = 0
    sequence: int = 0
    """The number of records that were added. The sequence numbers of the protocol go round: see `Sealing`."""
    is_known: bool = False
    """Whether the leader has stored a batch of ours. A leader that has none accepts any sequence number first. So a
    later batch could be stored before one that was refused."""
    failure: KafkaError | ClientFailure | None = None
    """Set from the first batch that failed until every batch in flight has its response. Then all of them are sent
    again."""
    too_large: int = 2**31
    """The size of the smallest batch that the leader refused as too large. A batch of that size or more is not
    tried."""
    backoff: float = FIRST_BACKOFF
    not_before: float = 0.0
    waits_since: float = 0.0
    """When a batch was stored last, or when the first one was added that is not stored."""


OnStored = Callable[[TopicPartition, int], None]
"""Called for each batch that is stored, in the order of its partition, with the number of its records."""


class _Sent(NamedTuple):
    connection: Connection
    ticket: Ticket
    batches: list[tuple[_Lane, SealedBatch]]
    topics: dict[Uuid, str]


class BatchSender:
    """An idempotent producer for bulk: `add` returns before its batch is stored, `flush` when all of them are.

    A batch that is not acknowledged goes again with the sequence number it had, so a partition's batches are stored
    once and in order. One that is too large for the leader is cut in two, and again down to single records (KIP-126);
    `shrink` may give a smaller record for one that is too large by itself. After an exception of `flush`, or of sending
    in `add`, nothing more can be sent: which of the batches were stored is unknown.
    """

    def __init__(
        self,
        client: Client,
        *,
        acks: int = ACKS_ALL,
        codec: Codec = Codec.NONE,
        idempotent: bool = True,
        delivery_timeout: float = 120.0,
        max_request_bytes: int = 1 << 20,
        max_pending_bytes: int = 32 << 20,
        max_in_flight: int = MAX_IN_FLIGHT,
        shrink: Shrink | None = None,
        on_stored: OnStored | None = None,
    ) -> None:
        if acks not in (ACKS_ALL, 1):
            raise ValueError(f"acks is {acks}: it must be all (-1) or 1, or it would be unknown what was stored")
        if idempotent and acks != ACKS_ALL:
            raise ValueError("acks must be all for the idempotent producer")
        if not 1 <= max_in_flight <= MAX_IN_FLIGHT:
            raise ValueError(f"max_in_flight is {max_in_flight}: it must be 1 to {MAX_IN_FLIGHT}")
        self.client = client
        self.acks = acks
        self.delivery_timeout = delivery_timeout
        self.max_request_bytes = max_request_bytes
        self.max_pending_bytes = max_pending_bytes
        # Without sequence numbers a batch that goes again would overtake the one behind it.
        self.max_in_flight = max_in_flight if idempotent else 1
        identity = client.retrying(lambda: new_identity(client)) if idempotent else None
        self._sealing = Sealing(identity, codec, max_request_bytes, shrink)
        self._connections: dict[NodeId, Connection] = {}
        self._lanes: dict[TopicPartition, _Lane] = {}
        self._sent: deque[_Sent] = deque()
        self._pending_bytes = 0
        self._on_stored = on_stored
        self._failed: Exception | None = None

    def __enter__(self) -> BatchSender:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Without a `flush` before, what becomes of batches that are on their way is unknown."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def add(self, partition: TopicPartition, records: Sequence[NewRecord]) -> None:
        """Send (timestamp, key, value, headers) tuples, as one batch if it is not too large for that.

        Waits only while too much is on its way. Raises KafkaError for a record that no request has room for.
        """
        lane = self._lanes.setdefault(partition, _Lane(partition))
        deadline = time.monotonic() + self.delivery_timeout
        batches = list(self._sealing.batches(partition, records, lane.sequence, lane.too_large, deadline))
        lane.sequence += len(records)
        if not lane.batches:
            lane.waits_since = time.monotonic()
        lane.batches += batches
        self._pending_bytes += sum(len(batch.data) for batch in batches)
        self._run(self.max_pending_bytes)

    def flush(self) -> None:
        """Returns when every batch is stored. Raises what kept one of them from it."""
        self._run(0)

    def settle(self, seconds: float) -> None:
        """Takes the answers that have arrived. If there is none, waits up to `seconds` for one that is on its way."""
        with self._unless_failed():
            self._send_ready()
            if not self._sent and self._pending_bytes:
                self._await_backoff(seconds)
                self._send_ready()
            while (answered := self._answered(seconds)) is not None:
                self._sent.remove(answered)
                self._receive(answered)
                self._send_ready()
                seconds = 0.0

    def _answered(self, seconds: float) -> _Sent | None:
        """The oldest request of a connection that has its answer, or that was lost."""
        oldest: dict[Connection, _Sent] = {}
        for sent in self._sent:
            oldest.setdefault(sent.connection, sent)
        waiting = {}
        poll = select.poll()
        for connection, sent in oldest.items():
            if not connection.is_open or connection.has_buffered:
                return sent
            poll.register(connection, select.POLLIN)
            waiting[connection.fileno()] = sent
        found = poll.poll(seconds * 1000) if waiting else ()
        return next((waiting[descriptor] for descriptor, _ in found), None)

    def _run(self, most_pending: int) -> None:
        with self._unless_failed():
            self._send_ready()
            while self._pending_bytes > most_pending:
                if self._sent:
                    self._receive(self._sent.popleft())
                else:
                    self._await_backoff()
                self._send_ready()

    @contextmanager
    def _unless_failed(self) -> Iterator[None]:
        if self._failed is not None:
            raise ValueError(f"the sender has failed before: {self._failed}")
        try:
            yield
        except (KafkaError, ClientFailure) as failure:
            self._failed = failure
            raise

    def _await_backoff(self, most: float = LAST_BACKOFF) -> None:
        """Nothing is in flight: every partition that has batches failed, and waits before it tries again."""
        until = min(lane.not_before for lane in self._lanes.values() if lane.batches)
        time.sleep(min(max(0.0, until - time.monotonic()), most))

    # ---- Out

    def _send_ready(self) -> None:
        """Sends requests as long as there is one to send: to each leader, with the next batch of each of its
        partitions."""
        while self._send_round():
            pass

    def _send_round(self) -> bool:
        now = time.monotonic()
        by_leader: dict[NodeId, list[_Lane]] = {}
        for lane in self._lanes.values():
            if lane.sent < len(lane.batches) and self._may_send(lane, now):
                try:
                    self.client.topic(lane.partition.topic, create=True)
                    by_leader.setdefault(self.client.leader(lane.partition), []).append(lane)
                except (KafkaError, Disconnected, RequestTimeout) as failure:
                    if isinstance(failure, KafkaError) and not is_retriable(failure.code):
                        raise
                    self._back_off(lane, failure)
        for leader, lanes in by_leader.items():
            for chosen in self._divided(lanes):
                self._request(leader, chosen)
        return bool(by_leader)

    def _may_send(self, lane: _Lane, now: float) -> bool:
        most = self.max_in_flight if lane.is_known else 1
        return lane.failure is None and lane.in_flight < most and lane.not_before <= now

    def _divided(self, lanes: list[_Lane]) -> Iterable[list[_Lane]]:
        chosen: list[_Lane] = []
        size = 0
        for lane in lanes:
            more = len(lane.batches[lane.sent].data)
            if chosen and size + more > self.max_request_bytes:
                yield chosen
                chosen, size = [], 0
            chosen.append(lane)
            size += more
        yield chosen

    def _request(self, leader: NodeId, lanes: list[_Lane]) -> None:
        batches = [(lane, lane.batches[lane.sent]) for lane in lanes]
        for lane in lanes:
            lane.sent += 1
            lane.in_flight += 1
        try:
            connection = self._connection(leader)
            topics = {name: self.client.topic(name) for name in {lane.partition.topic: None for lane in lanes}}
            unnamed = any(topic.id == ZERO_UUID for topic in topics.values())
            version = connection.version(ProduceRequest, _FIRST_VERSION_WITH_TOPIC_IDS - 1 if unnamed else None)
            ticket = connection.send(self._message(batches, topics, version), version)
        except (AuthenticationFailed, UnsupportedApi):
            raise
        except (KafkaError, ClientFailure) as failure:
            self._lost(batches, failure)
            return
        names = {topic.id: name for name, topic in topics.items()}
        self._sent.append(_Sent(connection, ticket, batches, names))

    def _connection(self, leader: NodeId) -> Connection:
        """A connection of our own: responses come in order, so other requests of the client must not wait behind
        batches."""
        known = self._connections.get(leader)
        if known is not None and known.is_open:
            return known
        broker = self.client.view.brokers.get(leader)
        if broker is None:
            raise KafkaError(Code.LEADER_NOT_AVAILABLE, f"broker {leader} is not available")
        opened = self._connections[leader] = self.client.dial(broker.endpoint)
        return opened

    def _message(
        self, batches: list[tuple[_Lane, SealedBatch]], topics: dict[str, KnownTopic], version: int
    ) -> ProduceRequest:
        by_id = version >= _FIRST_VERSION_WITH_TOPIC_IDS
        by_topic: dict[str, list[PartitionProduceData]] = {}
        for lane, batch in batches:
            data = PartitionProduceData(index=lane.partition.partition, records=batch.data)
            by_topic.setdefault(lane.partition.topic, []).append(data)
        return ProduceRequest(
            acks=self.acks,
            timeout_ms=int(self.client.request_timeout * 1000),
            topic_data=[
                TopicProduceData(
                    name="" if by_id else name,
                    topic_id=topics[name].id if by_id else ZERO_UUID,
                    partition_data=partitions,
                )
                for name, partitions in by_topic.items()
            ],
        )

    # ---- And back

    def _receive(self, sent: _Sent) -> None:
        try:
            if not sent.connection.is_open:
                raise Disconnected(f"the connection to {sent.connection.endpoint} was lost before the answer")
            response = sent.connection.receive(sent.ticket, ProduceResponse)
        except (Disconnected, RequestTimeout) as failure:
            self._lost(sent.batches, failure)
            return
        waiting = {lane.partition: (lane, batch) for lane, batch in sent.batches}
        for topic in response.responses:
            name = topic.name or sent.topics.get(topic.topic_id or ZERO_UUID, "")
            for answer in topic.partition_responses:
                settled = waiting.pop(TopicPartition(name, answer.index), None)
                if settled is not None:
                    self._settle(*settled, code_of(answer.error_code), answer.error_message)
        for lane, batch in waiting.values():
            self._settle(lane, batch, Code.UNKNOWN_SERVER_ERROR, "the answer does not mention the partition")

    def _settle(self, lane: _Lane, batch: SealedBatch, code: Code, message: str | None) -> None:
        lane.in_flight -= 1
        if code in (Code.NONE, Code.DUPLICATE_SEQUENCE_NUMBER):
            batch.is_stored = lane.is_known = True
            lane.backoff = FIRST_BACKOFF
            lane.waits_since = time.monotonic()
        elif code is Code.MESSAGE_TOO_LARGE:
            self._refused_for_size(lane, batch, message)
        else:
            # Behind a batch that failed, its followers are out of order: they go again with it.
            follows = code == Code.OUT_OF_ORDER_SEQUENCE_NUMBER and lane.failure is not None
            failure = KafkaError(code, f"{lane.partition}: {message or code.description}")
            if not follows and not is_retriable(code):
                raise failure
            self._fail(lane, failure)
        self._advance(lane)

    def _lost(self, batches: list[tuple[_Lane, SealedBatch]], failure: KafkaError | ClientFailure) -> None:
        for lane, _ in batches:
            lane.in_flight -= 1
            self._fail(lane, failure)
            self._advance(lane)

    def _fail(self, lane: _Lane, failure: KafkaError | ClientFailure) -> None:
        if lane.failure is None:
            lane.failure = failure
            self._back_off(lane, failure)

    def _back_off(self, lane: _Lane, failure: KafkaError | ClientFailure) -> None:
        """Raises the failure if the oldest batch has no time left for another attempt."""
        now = time.monotonic()
        if lane.batches and now + lane.backoff > lane.batches[0].deadline:
            raise failure
        self.client.on_delay(failure, now - lane.waits_since)
        self.client.forget(lane.partition.topic)
        lane.not_before = now + lane.backoff
        lane.backoff = min(lane.backoff * 2, LAST_BACKOFF)

    def _advance(self, lane: _Lane) -> None:
        """Drops the batches that are stored. After the last response that follows a failure, the rest is sent again
        from its start."""
        while lane.batches and lane.batches[0].is_stored:
            batch = lane.batches.popleft()
            self._pending_bytes -= len(batch.data)
            lane.sent -= 1
            if self._on_stored is not None:
                self._on_stored(lane.partition, batch.record_count)
        if lane.failure is not None and lane.in_flight == 0:
            lane.failure = None
            lane.sent = 0
            self._cut(lane)

    # ---- Too large

    def _refused_for_size(self, lane: _Lane, batch: SealedBatch, message: str | None) -> None:
        if not self._sealing.can_be_smaller(batch):
            raise excess(lane.partition, len(batch.data), self._limit(lane.partition.topic, message))
        lane.too_large = min(lane.too_large, len(batch.data))
        lane.failure = lane.failure or KafkaError(Code.MESSAGE_TOO_LARGE, message)

    def _limit(self, topic: str, message: str | None) -> str:
        try:
            settings = Admin(self.client).describe_configs(ResourceType.TOPIC, [topic])[topic]
        except (KafkaError, ClientFailure) as failure:
            return message or f"max.message.bytes of the topic ({failure}),"
        return f"max.message.bytes of the topic, {next(each.value for each in settings if each.name == _LIMIT)}"

    def _cut(self, lane: _Lane) -> None:
        """Fails all later batches, which would be refused, too."""
        before = sum(len(batch.data) for batch in lane.batches)
        lane.batches = deque(
            part for batch in lane.batches for part in self._sealing.cut(lane.partition, batch, lane.too_large)
        )
        self._pending_bytes += sum(len(batch.data) for batch in lane.batches) - before
