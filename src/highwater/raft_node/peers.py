"""Sends the quorum's requests to the other replicas and returns their responses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from highwater.errors import code_of
from highwater.model import METADATA_TOPIC, METADATA_TOPIC_ID, NO_NODE, Endpoint, NodeId
from highwater.net.client import CallFailed, ClientConnection, Gone
from highwater.net.deadlines import DeadlineQueue
from highwater.quorum import FetchAnswer, FollowerFetch, LogPosition, Request
from highwater.wire.codec import Message
from highwater.wire.messages.begin_quorum_epoch_response import BeginQuorumEpochResponse
from highwater.wire.messages.end_quorum_epoch_response import EndQuorumEpochResponse
from highwater.wire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from highwater.wire.messages.fetch_response import FetchResponse
from highwater.wire.messages.vote_response import VoteResponse
from highwater.world import World

FETCH_WAIT_MS = 500
FETCH_MAX_BYTES = 8 << 20
_ANSWERS: dict[int, type[Message]] = {
    1: FetchResponse,
    52: VoteResponse,
    53: BeginQuorumEpochResponse,
    54: EndQuorumEpochResponse,
}


class Peers:
    """There is one connection for each endpoint, opened when first needed. Each request ends with exactly one call of
    `answered` or `failed`."""

    def __init__(
        self,
        world: World,
        deadlines: DeadlineQueue,
        client_id: str,
        timeout: float,
        answered: Callable[[int, Message | FetchAnswer], None],
        failed: Callable[[int], None],
        lost: Callable[[Endpoint, Gone], None],
    ) -> None:
        self._world = world
        self._deadlines = deadlines
        self._client_id = client_id
        self._timeout = timeout
        self._answered = answered
        self._failed = failed
        self._lost = lost
        self._open: dict[Endpoint, ClientConnection] = {}
        self._waiting: dict[Endpoint, list[Callable[[ClientConnection | None], None]]] = {}
        self._closed = False

    def send(self, request: Request) -> None:
        message = _fetch_request(request.message) if isinstance(request.message, FollowerFetch) else request.message
        self.ask(
            request.peer.endpoint,
            message,
            _ANSWERS[message.API_KEY],
            lambda answer: self._take(request.correlation, answer),
        )

    def ask(
        self,
        endpoint: Endpoint | None,
        message: Message,
        response: type[Message],
        done: Callable[[Any], None],
    ) -> None:
        """Calls `done` with the response, or with None if there is none."""

        def connected(connection: ClientConnection | None) -> None:
            version = None if connection is None else connection.pick(message.API_KEY, message.VERSIONS)
            if connection is None or version is None:
                done(None)
                return
            connection.send(
                message,
                version,
                response,
                lambda answer: done(None if isinstance(answer, CallFailed) else answer),
                self._timeout,
            )

        if endpoint is None or self._closed:
            self._world.clock.call_soon(done, None)
            return
        connection = self._open.get(endpoint)
        if connection is not None:
            connected(connection)
            return
        waiting = self._waiting.setdefault(endpoint, [])
        waiting.append(connected)
        if len(waiting) == 1:
            self._dial(endpoint)

    def _dial(self, endpoint: Endpoint) -> None:
        connection = ClientConnection(
            self._world,
            endpoint,
            self._client_id,
            self._deadlines,
            lambda reason: self._gone(endpoint, connection, reason),
        )

        def opened() -> None:
            self._open[endpoint] = connection
            for connected in self._waiting.pop(endpoint, []):
                connected(connection)

        connection.open(opened, self._timeout)

    def _gone(self, endpoint: Endpoint, connection: ClientConnection, reason: Gone) -> None:
        if self._open.get(endpoint) is connection:
            del self._open[endpoint]
        for connected in self._waiting.pop(endpoint, []):
            connected(None)
        if not self._closed:
            self._lost(endpoint, reason)

    def _take(self, correlation: int, answer: Message | None) -> None:
        if answer is None:
            self._failed(correlation)
        elif isinstance(answer, FetchResponse):
            taken = _fetch_answer(answer)
            if taken is None:
                self._failed(correlation)
            else:
                self._answered(correlation, taken)
        else:
            self._answered(correlation, answer)

    def close(self) -> None:
        self._closed = True
        for connection in list(self._open.values()):
            connection.close()


def _fetch_request(fetch: FollowerFetch) -> FetchRequest:
    partition = FetchPartition(
        partition=0,
        current_leader_epoch=fetch.leader_epoch,
        fetch_offset=fetch.offset,
        last_fetched_epoch=fetch.last_fetched_epoch,
        partition_max_bytes=FETCH_MAX_BYTES,
        replica_directory_id=fetch.replica.directory_id,
        high_watermark=fetch.high_watermark,
    )
    return FetchRequest(
        cluster_id=fetch.cluster_id,
        replica_state=ReplicaState(replica_id=fetch.replica.id),
        max_wait_ms=FETCH_WAIT_MS,
        max_bytes=FETCH_MAX_BYTES,
        topics=[FetchTopic(topic=METADATA_TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[partition])],
    )


def _fetch_answer(response: FetchResponse) -> FetchAnswer | None:
    """None if the response is not about the metadata log."""
    if response.error_code:
        return FetchAnswer(code_of(response.error_code), None, -1)
    rows = [row for topic in response.responses for row in topic.partitions if row.partition_index == 0]
    if len(rows) != 1:
        return None
    row = rows[0]
    leader = None if row.current_leader.leader_id == NO_NODE else NodeId(row.current_leader.leader_id)
    at = next((Endpoint(node.host, node.port) for node in response.node_endpoints if node.node_id == leader), None)
    diverging, snapshot = row.diverging_epoch, row.snapshot_id
    return FetchAnswer(
        code_of(row.error_code),
        leader,
        row.current_leader.leader_epoch,
        row.high_watermark,
        row.log_start_offset,
        LogPosition(diverging.epoch, diverging.end_offset) if diverging.end_offset >= 0 else None,
        LogPosition(snapshot.epoch, snapshot.end_offset) if snapshot.end_offset >= 0 else None,
        at,
        bytes(row.records or b""),
    )
