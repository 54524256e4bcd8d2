"""Reads assigned partitions. The caller chooses partitions and offsets; leaders, sessions and retries are handled
here."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from highwater.client.answers import failure
from highwater.client.client import FIRST_BACKOFF, Client
from highwater.client.connection import Connection, Ticket
from highwater.client.failures import Disconnected, RequestTimeout
from highwater.client.fetch_session import Ask, FetchSession
from highwater.client.fetched import Fetched
from highwater.client.offsets import LATEST, READ_UNCOMMITTED, FoundOffset, list_offsets
from highwater.errors import Code, KafkaError, is_retriable
from highwater.model import ZERO_UUID, NodeId, TopicPartition, Uuid
from highwater.wire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from highwater.wire.messages.fetch_response import FetchResponse, PartitionData
from highwater.wire.records import end_offset

_LAST_VERSION_WITH_NAMES = 12


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """The consumer settings of the same names."""

    min_bytes: int = 1
    max_bytes: int = 50 << 20
    partition_max_bytes: int = 1 << 20


class Consumer:
    """Keeps one position for each assigned partition, and moves it past the records that `poll` returns. A retriable
    error of a partition is retried until the client's timeout is over, counted from the partition's last good
    response."""

    def __init__(
        self,
        client: Client,
        *,
        isolation: int = READ_UNCOMMITTED,
        limits: FetchLimits | None = None,
        sessions: bool = True,
        check_crcs: bool = True,
        reset: int | None = None,
    ) -> None:
        """If a position no longer exists, reading continues at `reset` (offsets.EARLIEST or LATEST). With None, it
        raises."""
        self.client = client
        self.isolation = isolation
        self.limits = limits or FetchLimits()
        self.check_crcs = check_crcs
        self.reset = reset
        self.positions: dict[TopicPartition, int] = {}
        self._sessions_enabled = sessions
        self._sessions: dict[NodeId, FetchSession] = {}
        self._failing_since: dict[TopicPartition, float] = {}

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Reads only these partitions, from these offsets."""
        self.positions = dict(positions)
        self._failing_since.clear()

    def seek(self, where: Mapping[TopicPartition, int]) -> None:
        """Assigns partitions at a time (ms), or at offsets.EARLIEST or LATEST. A time after the last record means the
        end."""
        self.assign(self._found(where))

    def add(self, where: Mapping[TopicPartition, int]) -> None:
        """As `seek`, in addition to what is assigned already."""
        self.positions.update(self._found(where))

    def _found(self, where: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        found = list_offsets(self.client, where, isolation=self.isolation, await_topic=True)
        beyond = {p: LATEST for p, at in found.items() if isinstance(at, FoundOffset) and at.offset < 0}
        if beyond:
            found.update(list_offsets(self.client, beyond, isolation=self.isolation))
        positions = {}
        for partition, at in found.items():
            if isinstance(at, KafkaError):
                raise at
            positions[partition] = at.offset
        return positions

    def poll(self, max_wait: float = 0.5) -> list[Fetched]:
        """Sends one fetch to every leader. Returns nothing if no records came within `max_wait` seconds, or if a leader
        is being looked for."""
        sent: list[tuple[NodeId, Connection, Ticket, Ask]] = []
        for leader, wanted in self._by_leader().items():
            try:
                connection = self.client.broker_connection(leader)
                ask = self._session(leader).ask(wanted)
                sent.append((leader, connection, self._send(connection, ask, max_wait), ask))
            except (Disconnected, RequestTimeout, KafkaError) as error:
                self._lost(leader, wanted, error)
        fetched: list[Fetched] = []
        for leader, connection, ticket, _ in sent:
            try:
                timeout = self.client.request_timeout + max_wait
                response = connection.receive(ticket, FetchResponse, timeout)
            except (Disconnected, RequestTimeout) as error:
                self._lost(leader, self.positions, error)
                continue
            fetched += self._taken(leader, response)
        if self._failing_since and not fetched:
            time.sleep(min(FIRST_BACKOFF, max_wait))
        return fetched

    def _by_leader(self) -> dict[NodeId, dict[TopicPartition, int]]:
        led: dict[NodeId, dict[TopicPartition, int]] = {}
        for partition, offset in self.positions.items():
            try:
                led.setdefault(self.client.leader(partition), {})[partition] = offset
            except (KafkaError, Disconnected, RequestTimeout) as error:
                self._trouble(partition, error)
        return led

    def _session(self, leader: NodeId) -> FetchSession:
        return self._sessions.setdefault(leader, FetchSession(self._sessions_enabled))

    def _send(self, connection: Connection, ask: Ask, max_wait: float) -> Ticket:
        topics: dict[str, FetchTopic] = {}
        forgotten: dict[str, ForgottenTopic] = {}
        names = {partition.topic for partition in (*ask.partitions, *ask.forgotten)}
        ids = {name: self._topic_id(name) for name in names}
        nameless = ZERO_UUID not in ids.values()
        version = connection.version(FetchRequest, None if nameless else _LAST_VERSION_WITH_NAMES)
        by_id = version > _LAST_VERSION_WITH_NAMES
        for partition, offset in ask.partitions.items():
            name = partition.topic
            topic = topics.setdefault(name, FetchTopic(topic_id=ids[name]) if by_id else FetchTopic(topic=name))
            topic.partitions.append(
                FetchPartition(
                    partition=partition.partition,
                    fetch_offset=offset,
                    partition_max_bytes=self.limits.partition_max_bytes,
                )
            )
        for name, index in ask.forgotten:
            gone = forgotten.setdefault(
                name, ForgottenTopic(topic_id=ids[name]) if by_id else ForgottenTopic(topic=name)
            )
            gone.partitions.append(index)
        request = FetchRequest(
            max_wait_ms=int(max_wait * 1000),
            min_bytes=self.limits.min_bytes,
            max_bytes=self.limits.max_bytes,
            isolation_level=self.isolation,
            session_id=ask.session_id,
            session_epoch=ask.epoch,
            topics=list(topics.values()),
            forgotten_topics_data=list(forgotten.values()),
        )
        return connection.send(request, version)

    def _topic_id(self, name: str) -> Uuid:
        known = self.client.view.topics.get(name)
        return known.id if known is not None else ZERO_UUID

    def _taken(self, leader: NodeId, response: FetchResponse) -> list[Fetched]:
        self._session(leader).answered(response.error_code, response.session_id)
        if response.error_code != Code.NONE:
            if not _restarts_session(response.error_code):
                raise failure(response.error_code)
            return []
        names = {known.id: name for name, known in self.client.view.topics.items()}
        fetched = []
        for topic in response.responses:
            name = topic.topic or names.get(topic.topic_id)
            if name is None:
                continue
            for data in topic.partitions:
                partition = TopicPartition(name, data.partition_index)
                if partition in self.positions:
                    fetched += self._partition(leader, partition, data)
        return fetched

    def _partition(self, leader: NodeId, partition: TopicPartition, data: PartitionData) -> list[Fetched]:
        if data.error_code == Code.OFFSET_OUT_OF_RANGE and self.reset is not None:
            self.positions.update(self._found({partition: self.reset}))
            return []
        if data.error_code != Code.NONE:
            self._session(leader).reset()
            self._trouble(partition, failure(data.error_code))
            return []
        self._failing_since.pop(partition, None)
        records = memoryview(data.records or b"")
        start = self.positions[partition]
        next_offset = end_offset(records)
        if next_offset is None or next_offset <= start:
            return []
        self.positions[partition] = next_offset
        aborted = tuple((one.producer_id, one.first_offset) for one in data.aborted_transactions or ())
        return [
            Fetched(
                partition,
                start,
                next_offset,
                data.high_watermark,
                data.last_stable_offset,
                data.log_start_offset,
                records,
                aborted,
                self.check_crcs,
            )
        ]

    def _lost(self, leader: NodeId, partitions: Mapping[TopicPartition, int], error: Exception) -> None:
        self._sessions.pop(leader, None)
        # Found before the first trouble: that forgets the leaders of the whole topic.
        for partition in [each for each in partitions if self._may_lead(leader, each)]:
            self._trouble(partition, error)

    def _may_lead(self, node: NodeId, partition: TopicPartition) -> bool:
        known = self.client.view.topics.get(partition.topic)
        led = known.partitions.get(partition.partition) if known is not None else None
        return led is None or led.leader == node

    def _trouble(self, partition: TopicPartition, error: Exception) -> None:
        """Forgets the leader. Raises the error if a retry cannot help, or if it has lasted for the client's timeout."""
        self.client.forget(partition.topic)
        since = self._failing_since.setdefault(partition, time.monotonic())
        passing = is_retriable(error.code) if isinstance(error, KafkaError) else True
        if not passing or time.monotonic() - since > self.client.timeout:
            raise error
        self.client.on_delay(error, time.monotonic() - since)


def _restarts_session(code: int) -> bool:
    return code in (
        Code.FETCH_SESSION_ID_NOT_FOUND,
        Code.INVALID_FETCH_SESSION_EPOCH,
        Code.FETCH_SESSION_TOPIC_ID_ERROR,
        Code.UNKNOWN_TOPIC_ID,
        Code.INCONSISTENT_TOPIC_ID,
    )
