"""Produce (0): appends batches, and answers as `acks` asks: at once, or when all batches are committed.

v3 is the first with record batches of magic 2; v7 allows zstd, v8 names single records, v10 hints at the leader
(KIP-951), v13 names topics by id.
"""

from __future__ import annotations

from collections.abc import Generator

from highwater.broker.broker import Broker
from highwater.broker.internal_topics import INTERNAL
from highwater.errors import Code, KafkaError
from highwater.model import ZERO_UUID, Uuid
from highwater.net.context import RequestContext
from highwater.net.deadlines import Deadline
from highwater.net.registry import ANY_BYTES, MOST_ELEMENTS, Api
from highwater.net.turns import Pause, Work, elsewhere
from highwater.partition.partition import Partition
from highwater.wire import compression, produce
from highwater.wire.framing import CHUNK
from highwater.wire.messages.produce_request import ProduceRequest
from highwater.wire.messages.produce_response import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from highwater.wire.produce import ProduceRequestFlat
from highwater.wire.records.append import AT_ONCE, Laborious, Refused, Rules, Validated, validate_append
from highwater.world import Buffer, Disk, Step


def _all_refused(request: ProduceRequestFlat, code: Code, version: int) -> ProduceResponse | None:
    if request.acks == 0:
        return None
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic if isinstance(topic, str) else "",
                topic_id=ZERO_UUID if isinstance(topic, str) else topic,
                partition_responses=[
                    PartitionProduceResponse(index=index, error_code=code, base_offset=-1) for index, _ in partitions
                ],
            )
            for topic, partitions in request.topics
        ]
    )


API = Api(
    0,
    (3, 13),
    ProduceRequest,
    advertised_min=0,
    decode=produce.decode_request,
    most_elements=MOST_ELEMENTS,
    most_bytes=ANY_BYTES,
    refuse=_all_refused,
)
ADMIN_CLIENT = "__admin_client"
"""The client id that may write to the internal topics of coordinators, as in Kafka."""
_LEADER_HINTS_FROM = 10
_NO_RECORDS = memoryview(b"")

Row = tuple[int, int, int, int, int, list[tuple[int, str]] | None, str | None, tuple[int, int] | None]


def handle(broker: Broker, ctx: RequestContext, request: ProduceRequestFlat) -> Work | None:
    """Nearly always done in the first slice, which avoids the cost of resumed work."""
    work, monotonic = _appended(broker, ctx, request), broker.world.clock.monotonic
    until = ctx.connection.until
    for pause in work:
        if pause is not None or monotonic() >= until:
            return _resumed(pause, work)
    return None


def _resumed(pause: Pause | None, work: Work) -> Work:
    yield pause
    yield from work


def _appended(broker: Broker, ctx: RequestContext, request: ProduceRequestFlat) -> Work:
    acks = request.acks
    answer = _Answer(broker, ctx, acks)
    now_ms = broker.world.clock.wall_ms()
    seen: set[tuple[str | Uuid, int]] = set()
    for topic, partitions in request.topics:
        rows: list[Row] = []
        answer.topics.append((topic, rows))
        name = broker.metadata.topic_name(topic) or ""
        allowed = ctx.authorize("Write", "Topic", name)
        writable = name not in INTERNAL or ctx.client_id == ADMIN_CLIENT
        for index, records in partitions:
            if acks not in (-1, 0, 1):
                rows.append(_failed(index, Code.INVALID_REQUIRED_ACKS))
            elif not allowed:
                rows.append(_failed(index, Code.TOPIC_AUTHORIZATION_FAILED))
            elif not writable:
                rows.append(_failed(index, Code.INVALID_TOPIC_EXCEPTION))
            elif (topic, index) in seen:
                rows.append(_failed(index, Code.INVALID_REQUEST, message="the partition is named twice"))
            else:
                seen.add((topic, index))
                try:
                    _append(answer, topic, index, records or _NO_RECORDS, now_ms)
                except Laborious:
                    yield from _append_later(answer, topic, index, records or _NO_RECORDS, now_ms)
            yield None
    answer.begin(request.timeout_ms)


def _append_later(answer: _Answer, topic: str | Uuid, index: int, records: memoryview, now_ms: int) -> Work:
    """Checks the batch off the event loop first. Later requests of the connection wait, so that batches keep their
    order. Batches for coordinators may not inflate to much: they would have to hold them again at each start."""
    partition = answer.broker.hosted.find(topic, index)
    assert partition is not None, "it was there a moment ago"
    rules = partition.rules
    if partition.tp.topic in INTERNAL:
        rules = rules._replace(inflate_limit=min(rules.inflate_limit, AT_ONCE))
    checked = yield from elsewhere(answer.broker.world, _check, _kept(records), rules, now_ms, where="inflating")
    if isinstance(checked, Refused):
        answer.topics[-1][1].append(_refused(index, checked))
    elif isinstance(checked, Exception):
        raise checked
    else:
        _append(answer, topic, index, checked, now_ms)


def _kept(records: memoryview) -> Buffer:
    """The batch as it is kept while it waits. A slice of a small frame would keep its whole chunk in memory, so it is
    copied. A large frame has its memory to itself."""
    return bytes(records) if len(records) < CHUNK else records


def _check(disk: Disk, records: Buffer, rules: Rules, now_ms: int) -> Generator[Step, None, Validated | Refused]:
    """Returns a refusal instead of raising it, and without its traceback. The frames of a traceback would keep the
    decompressed data alive until the next garbage collection."""
    yield Step()
    try:
        with compression.ALONE:
            return validate_append(records, rules, now_ms)
    except Refused as refused:
        refused.__traceback__ = refused.__cause__ = refused.__context__ = None
        return refused


def _append(answer: _Answer, topic: str | Uuid, index: int, records: memoryview | Validated, now_ms: int) -> None:
    rows = answer.topics[-1][1]
    partition = answer.broker.hosted.find(topic, index)
    if partition is None:
        code = answer.broker.metadata.not_hosted(topic, index)
        rows.append(_failed(index, code, leader=answer.leader_hint(topic, index, code)))
        return
    try:
        appended = partition.append(records, answer.acks, answer.ctx.version, now_ms)
    except Refused as refused:
        rows.append(_refused(index, refused))
        return
    except KafkaError as failed:
        hint = answer.leader_hint(topic, index, failed.code)
        rows.append(_failed(index, failed.code, None, failed.message, hint))
        return
    log = partition.log
    append_time = appended.append_time if log.config.log_append_time else -1
    rows.append((index, 0, appended.base_offset, append_time, log.log_start, None, None, None))
    if answer.acks == -1 and log.high_watermark <= appended.last_offset:
        answer.wait_for_commit(partition, appended.last_offset + 1, rows, len(rows) - 1)
    elif answer.acks == 1 and log.flush_each_append and log.durable_end <= appended.last_offset:
        answer.wait_for_sync(partition, appended.last_offset + 1, rows, len(rows) - 1)


def _refused(index: int, refused: Refused) -> Row:
    errors = [(error.batch_index, error.message) for error in refused.records]
    return _failed(index, refused.code, errors or None, refused.message)


def _failed(
    index: int,
    code: Code,
    errors: list[tuple[int, str]] | None = None,
    message: str | None = None,
    leader: tuple[int, int] | None = None,
) -> Row:
    return (index, int(code), -1, -1, -1, errors, message, leader)


class _Answer:
    """One response. It is sent when all its partitions have committed, or when its time is over."""

    __slots__ = ("_begun", "_deadline", "_left", "_sent", "_since", "acks", "broker", "ctx", "topics")

    def __init__(self, broker: Broker, ctx: RequestContext, acks: int) -> None:
        self.broker = broker
        self.ctx = ctx
        self.acks = acks
        self._since = broker.latencies.now()
        self.topics: list[tuple[str | Uuid, list[Row]]] = []
        self._left: dict[tuple[int, int], list[Row]] = {}
        self._deadline: Deadline | None = None
        self._begun = False
        """All batches are appended. Before that, some partitions may commit while others are not appended yet."""
        self._sent = False

    def wait_for_commit(self, partition: Partition, end: int, rows: list[Row], at: int) -> None:
        key = (id(rows), at)
        self._left[key] = rows
        partition.when_committed(end, lambda code: self._settle(key, code))

    def wait_for_sync(self, partition: Partition, end: int, rows: list[Row], at: int) -> None:
        """flush.messages=1 applies to every acknowledgement, also to acks=1."""
        key = (id(rows), at)
        self._left[key] = rows
        partition.when_durable(end, lambda: self._synced(key, partition))

    def _synced(self, key: tuple[int, int], partition: Partition) -> None:
        self._settle(key, Code.NONE if partition.log.offline is None else Code.KAFKA_STORAGE_ERROR)

    def _settle(self, key: tuple[int, int], code: Code) -> None:
        rows = self._left.pop(key, None)
        if rows is None:
            return
        if code is not Code.NONE:
            rows[key[1]] = _failed(rows[key[1]][0], code)
        if self._begun and not self._left:
            self._send()

    def begin(self, timeout_ms: int) -> None:
        self._begun = True
        if not self._left:
            self._send()
        else:
            self._deadline = self.broker.deadlines.add(max(timeout_ms, 0) / 1000, self._expire)

    def _expire(self) -> None:
        for (_, at), rows in self._left.items():
            rows[at] = _failed(rows[at][0], Code.REQUEST_TIMED_OUT)
        self._left.clear()
        self._send()

    def leader_hint(self, topic: str | Uuid, index: int, code: Code) -> tuple[int, int] | None:
        if code is not Code.NOT_LEADER_OR_FOLLOWER:
            return None
        image = self.broker.metadata.partition_image(topic, index)
        return None if image is None else (image.leader, image.leader_epoch)

    def _send(self) -> None:
        if self._sent:
            return
        self._sent = True
        if self._deadline is not None:
            self._deadline.cancel()
        latencies = self.broker.latencies
        latencies.produce.note(latencies.now() - self._since)
        if self.acks == 0:
            if any(row[1] for _, rows in self.topics for row in rows):
                self.ctx.slot.close_connection()
            else:
                self.ctx.slot.skip()
            return
        version = self.ctx.version
        hinted = [row[7][0] for _, rows in self.topics for row in rows if row[7] is not None]
        nodes = self.broker.metadata.node_endpoints(hinted, self.ctx.listener) if version >= _LEADER_HINTS_FROM else []
        self.ctx.respond_parts([produce.encode_response(version, self.topics, self.ctx.throttle_ms, nodes)])
