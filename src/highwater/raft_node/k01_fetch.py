"""Fetch (1) of the metadata log: voters and observers copy it from the leader."""

from __future__ import annotations

from dataclasses import replace

from highwater.errors import Code, KafkaError
from highwater.log.peek import WouldBlock
from highwater.model import METADATA_TOPIC, METADATA_TOPIC_ID, NodeId, Uuid
from highwater.net.context import RequestContext
from highwater.net.deadlines import Deadline
from highwater.net.line import MAX_WAIT_MS
from highwater.net.registry import Api
from highwater.quorum import Caller, FetchAnswer, FollowerFetch, ReplicaKey
from highwater.raft_node.raft_node import RaftNode
from highwater.wire import fetch
from highwater.wire.fetch import FetchRequestFlat
from highwater.wire.messages.fetch_request import FetchRequest
from highwater.world import FileSlice

API = Api(1, (4, 18), FetchRequest, decode=fetch.decode_request, refuse=fetch.refused, exempt=fetch.is_of_replica)


def handle(raft: RaftNode, ctx: RequestContext, request: FetchRequestFlat) -> None:
    if not ctx.authorize("ClusterAction", "Cluster", "kafka-cluster"):
        _refuse(ctx, Code.CLUSTER_AUTHORIZATION_FAILED)
        return
    asked = [(topic, row) for topic, rows in request.topics for row in rows]
    if len(asked) != 1 or asked[0][0] not in (METADATA_TOPIC, METADATA_TOPIC_ID) or asked[0][1][0] != 0:
        _refuse(ctx, Code.INVALID_REQUEST)
        return
    topic, (_, epoch, offset, last_epoch, _, max_bytes, directory, high_watermark) = asked[0]
    replica = ReplicaKey(NodeId(request.replica_id), directory)
    asking = FollowerFetch(replica, epoch, offset, last_epoch, high_watermark, request.cluster_id)
    _Fetch(raft, ctx, topic, asking, request, max_bytes).begin()


def _refuse(ctx: RequestContext, code: Code) -> None:
    ctx.respond_parts(fetch.encode_response(ctx.version, ctx.throttle_ms, int(code), 0, [], []))


class _Fetch:
    """One fetch. It waits while there is nothing new, but no longer than the replica asks for."""

    def __init__(
        self,
        raft: RaftNode,
        ctx: RequestContext,
        topic: str | Uuid,
        asking: FollowerFetch,
        request: FetchRequestFlat,
        max_bytes: int,
    ) -> None:
        self._raft = raft
        self._line = ctx.connection.line
        self._ctx = ctx
        self._topic = topic
        self._asking = asking
        self._max_bytes = min(max_bytes, request.max_bytes)
        self._wait = min(request.max_wait_ms, MAX_WAIT_MS) / 1000
        self._deadline: Deadline | None = None
        self._expired = False
        self._done = False

    def begin(self) -> None:
        self._line.join(self)

    def hang_up(self) -> None:
        self._done = True
        self._raft.forget_news(self.look)
        if self._deadline is not None:
            self._deadline.cancel()

    def look(self, at_once: bool = False) -> None:
        if not self._done:
            self._expired = self._expired or at_once
            caller = Caller(self._ctx.version, self._ctx.listener)
            asking = self._asking
            if not asking.waited:
                self._asking = replace(asking, waited=True)
            self._raft.requested(asking, caller, self._answered, self._give_up)

    def _give_up(self) -> None:
        """This fetch may be in the queue twice: because of news, and because it expired. Only the first call counts."""
        if not self._done:
            self.hang_up()
            self._ctx.slot.close_connection()

    def _expire(self) -> None:
        self.look(at_once=True)

    def _answered(self, answer: FetchAnswer) -> None:
        try:
            self._take(answer)
        except Exception as failed:  # noqa: BLE001 this request failed, not the quorum
            self.hang_up()
            self._ctx.failed(failed)

    def _take(self, answer: FetchAnswer) -> None:
        if self._done:
            return
        if answer.can_wait and self._wait > 0 and not self._expired:
            if self._deadline is None:
                self._deadline = self._raft.deadlines.add(self._wait, self._expire)
            self._raft.wait_for_news(self.look)
            return
        parts: list[FileSlice] = []
        if answer.serves_records:
            try:
                parts = self._raft.log.read(self._asking.offset, self._max_bytes)
            except WouldBlock as blocked:
                self._raft.log.locate_later(blocked.offset, self.look)
                return
            except KafkaError as failed:
                answer = FetchAnswer(failed.code, answer.leader_id, answer.leader_epoch)
        self._respond(answer, parts)

    def _respond(self, answer: FetchAnswer, parts: list[FileSlice]) -> None:
        self.hang_up()
        self._line.leave(self)
        if answer.error is Code.INCONSISTENT_CLUSTER_ID:
            _refuse(self._ctx, answer.error)
            return
        leader = -1 if answer.leader_id is None else answer.leader_id
        snapshot = answer.snapshot
        row: fetch.PartitionRow[FileSlice] = (
            0,
            int(answer.error),
            answer.high_watermark,
            answer.high_watermark,
            answer.log_start,
            None,
            -1,
            parts,
            None if answer.diverging is None else (answer.diverging.epoch, answer.diverging.offset),
            (leader, answer.leader_epoch),
            None if snapshot is None else (snapshot.offset, snapshot.epoch),
        )
        at = answer.leader_endpoint
        nodes = [] if at is None or leader < 0 else [(leader, at.host, at.port, None)]
        version, throttle = self._ctx.version, self._ctx.throttle_ms
        self._ctx.respond_parts(fetch.encode_response(version, throttle, 0, 0, [(self._topic, [row])], nodes))
