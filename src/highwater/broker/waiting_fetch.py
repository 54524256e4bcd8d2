"""One fetch until it is answered: at once if there is enough, else when there is, or when its time is over."""

from __future__ import annotations

from collections.abc import Iterator

from highwater.broker.broker import Broker
from highwater.broker.nearby_reads import NearbyReads
from highwater.errors import Code, KafkaError
from highwater.log.peek import WouldBlock
from highwater.net.context import RequestContext
from highwater.net.deadlines import Deadline
from highwater.net.line import MAX_WAIT_MS
from highwater.net.turns import Work
from highwater.partition.fetch_session import FetchEntry, FetchSession, Topic
from highwater.partition.fetching import FetchRow, Reader, read
from highwater.partition.partition import Partition
from highwater.wire import fetch
from highwater.wire.fetch import FetchRequestFlat
from highwater.world import FileSlice

_LEADER_HINTS_FROM = 16
AT_ONCE = 200
"""If a fetch names at most this many partitions, it is answered in one turn of the loop."""
PER_PIECE = 50
MOST_LOCATING = 16
"""The most positions of one fetch that are looked up on disk at a time."""


def refuse(ctx: RequestContext, code: Code) -> None:
    ctx.respond_parts(fetch.encode_response(ctx.version, ctx.throttle_ms, int(code), 0, [], []))


class WaitingFetch:
    """One request until it is answered. While it waits, the session's marks wake it, once per loop turn."""

    __slots__ = (
        "_again",
        "_deadline",
        "_full",
        "_hurried",
        "_late",
        "_line",
        "_locating",
        "_max_bytes",
        "_min_bytes",
        "_reading",
        "_resting",
        "_since",
        "_woken",
        "broker",
        "ctx",
        "reader",
        "request",
        "session",
    )

    def __init__(
        self, broker: Broker, ctx: RequestContext, request: FetchRequestFlat, session: FetchSession, full: bool
    ) -> None:
        self.broker = broker
        self.ctx = ctx
        self.request = request
        self.session = session
        nearby = (
            NearbyReads(broker, ctx.listener, request.rack_id) if request.rack_id and request.replica_id < 0 else None
        )
        throttle = broker.throttles.leader if request.replica_id >= 0 and broker.throttles.leader.is_set else None
        self.reader = Reader(request.replica_id, request.isolation_level, request.replica_epoch, nearby, throttle)
        self._full = full
        self._max_bytes = min(request.max_bytes, broker.metadata.fetch_max_bytes)
        self._min_bytes = min(request.min_bytes, self._max_bytes)
        self._line = ctx.connection.line
        self._deadline: Deadline | None = None
        self._woken = False
        self._hurried = False
        """The fetch waits only for positions that are being looked up."""
        self._locating = 0
        self._resting = False
        """It looks again when its throttle lets more bytes pass."""
        self._since: float | None = None
        """Since when it could be answered. None while it waits for records."""
        self._reading = self._again = self._late = False
        """A long read takes several turns (`_reading`). Meanwhile there may be news (`_again`), or its time may be over
        (`_late`)."""

    def after(self, updates: Iterator[None]) -> Work:
        try:
            yield from updates
        except KafkaError as refused:
            self.refuse(refused.code)
        except GeneratorExit:  # the connection is gone
            self.broker.sessions.waits_no_more(self.session)
            raise
        else:
            self.begin()

    def refuse(self, code: Code) -> None:
        """The session may not grow, so the client must begin a new one."""
        self.broker.sessions.waits_no_more(self.session)
        self.broker.sessions.remove(self.session)
        refuse(self.ctx, code)

    def begin(self) -> None:
        self._line.join(self)

    def look(self, at_once: bool) -> None:
        self._hurried = at_once
        if self._since is None:
            self._since = self.broker.latencies.now()
        if self._reading:
            self._again = True
        else:
            self._attempt(False)

    def _attempt(self, at_once: bool) -> None:
        """Answers if there is enough, an error or nothing to wait for. Otherwise the fetch waits."""
        entries = self.session.entries if self._full else self.session.dirty
        if len(entries) <= AT_ONCE:
            try:
                for _ in self._try(at_once):
                    """They are few."""
            except Exception as failed:  # noqa: BLE001 the boundary of this request, even if a callback runs it
                self.hang_up()
                self.ctx.failed(failed)
        else:
            self._reading, self._again = True, False
            self._await()
            self.ctx.carry_out(self._try(at_once))

    def _await(self) -> None:
        self.session.on_mark = self._wake
        self.session.on_overtaken = self._expire
        if self._deadline is None and self.request.max_wait_ms > 0:
            wait_ms = min(self.request.max_wait_ms, MAX_WAIT_MS)
            self._deadline = self.broker.deadlines.add(wait_ms / 1000, self._expire)

    def _await_news(self) -> None:
        self._await()
        if not self._locating:
            self._since = None

    def hang_up(self) -> None:
        if self.session.on_mark == self._wake:
            self.session.abandon()
        if self._deadline is not None:
            self._deadline.cancel()
        if self.session.id == 0:
            self.broker.sessions.waits_no_more(self.session)
            self.session.close()

    def _try(self, at_once: bool) -> Work:
        rows: dict[FetchEntry, FetchRow] = {}
        total = left_out = 0
        urgent = at_once or self.request.max_wait_ms <= 0 or not self.session.entries
        for at, entry in enumerate(list(self.session.dirty), 1):
            if not at % PER_PIECE:
                yield None
            if entry.is_forgotten:  # by a further request, since this one was begun
                self.session.dirty.pop(entry, None)
                continue
            room = self._max_bytes - total
            try:
                row = self._read(entry, room, total == 0)
            except WouldBlock as blocked:
                if self._locating == MOST_LOCATING:
                    break  # this entry has its turn when another position is found
                self._locate(entry, blocked.offset)
                continue
            if not entry.is_watching:
                entry.bind(entry.partition)  # reading it has notified it of a change
            rows[entry] = row
            total += row.size
            if row.has_no_room:
                left_out += max(min(entry.max_bytes, room), 0)
            urgent = urgent or row.error is not Code.NONE or row.diverging is not None or row.preferred >= 0
            urgent = urgent or row.ends_early
            if not row.size and row.error is Code.NONE and room > 0 and not row.has_no_room and not row.is_passing:
                self.session.dirty.pop(entry, None)
        self._reading = False
        urgent = urgent or self._late or (self._hurried and not self._locating)
        # Records that are there and do not fit count, too: to wait for more of them would be in vain.
        waits = not urgent and (total + left_out < self._min_bytes or (self._locating > 0 and total == 0))
        if waits and self.broker.sessions.may_wait(self.session):
            for entry, row in rows.items():
                if self._is_news(entry, row):
                    self.session.dirty[entry] = None
            self._await_news()
            if self.reader.throttle is not None and any(row.is_passing for row in rows.values()):
                self._look_after(self.reader.throttle.seconds_left)
            if self._again:
                self._wake()
        else:
            yield from self._respond(rows)

    def _read(self, entry: FetchEntry, room: int, first: bool) -> FetchRow:
        partition = self.broker.hosted.find(entry.topic, entry.index)
        entry.bind(partition)
        if partition is None:
            return FetchRow(self.broker.metadata.not_hosted(entry.topic, entry.index))
        if not self.ctx.authorize("Read", "Topic", partition.tp.topic):
            return FetchRow(Code.TOPIC_AUTHORIZATION_FAILED)
        try:
            return read(entry, partition, self.reader, max(room, 0), first)
        except KafkaError as failed:
            log = partition.log
            if failed.code is Code.OFFSET_OUT_OF_RANGE:
                return FetchRow(failed.code, log.high_watermark, log.last_stable_offset, log.log_start)
            return FetchRow(failed.code)

    def _locate(self, entry: FetchEntry, offset: int) -> None:
        """The position is not in memory. A job looks it up while this fetch waits."""
        assert entry.partition is not None
        self.session.dirty.pop(entry, None)
        self._locating += 1

        def located() -> None:
            self._locating -= 1
            entry.mark()

        entry.partition.log.reads.locate_later(offset, located)

    def _wake(self) -> None:
        if not self._woken:
            self._woken = True
            if self._since is None:
                self._since = self.broker.latencies.now()
            self.broker.world.clock.call_soon(self._retry)

    def _retry(self) -> None:
        self._woken = False
        self._go_on(False)

    def _look_after(self, seconds: float) -> None:
        """A throttle holds the follower back for less time than this fetch may wait."""
        if not self._resting and seconds * 1000 < self.request.max_wait_ms:
            self._resting = True
            self.broker.world.clock.call_later(seconds, self._rested)

    def _rested(self) -> None:
        self._resting = False
        self._go_on(False)

    def _expire(self) -> None:
        self._go_on(True)

    def _go_on(self, at_once: bool) -> None:
        if self._reading:
            self._again = True
            self._late = self._late or at_once
        elif self.session.on_mark == self._wake:
            self._attempt(at_once)

    def _respond(self, rows: dict[FetchEntry, FetchRow]) -> Work:
        session = self.session
        session.on_mark = session.on_overtaken = None
        if self._deadline is not None:
            self._deadline.cancel()
        if self._full:
            for at, entry in enumerate(list(session.entries.values()), 1):
                if entry not in rows:
                    rows[entry] = self._empty(entry)
                if not at % PER_PIECE:
                    yield None
        topics: dict[Topic, list[fetch.PartitionRow[FileSlice]]] = {}
        hinted: list[int] = []
        watching = self.reader.replica >= 0 and bool(self.broker.follower_fetches.watched)
        for at, (entry, row) in enumerate(rows.items(), 1):
            if not at % PER_PIECE:
                yield None
            if row.size and entry.partition is not None:
                self._count(entry.partition, row.size)
                # A partition that filled this response comes last in the next one, or others would starve
                # (KAFKA-12330).
                session.dirty.pop(entry, None)
                session.dirty[entry] = None
            if self._full or self._is_news(entry, row):
                leader = self._leader_hint(entry, row.error)
                if leader is not None:
                    hinted.append(leader[0])
                topics.setdefault(entry.topic, []).append(_encoded(entry, row, leader))
                if watching and entry.partition is not None:
                    self._note(entry.partition, entry, row)
            failed = row.error is not Code.NONE
            entry.sent_high_watermark = -1 if failed else row.high_watermark
            entry.sent_log_start = -1 if failed else row.log_start
        version = self.ctx.version
        nodes = self.broker.metadata.node_endpoints(hinted, self.ctx.listener) if version >= _LEADER_HINTS_FROM else []
        session_id = session.id
        rows_by_topic = list(topics.items())
        self.ctx.respond_parts(
            (yield from fetch.encode_by_turns(version, self.ctx.throttle_ms, 0, session_id, rows_by_topic, nodes))
        )
        if self.reader.replica < 0 and self._since is not None:
            latencies = self.broker.latencies
            latencies.fetch.note(latencies.now() - self._since)
        if session_id == 0:
            self.broker.sessions.waits_no_more(session)
            session.close()
        self._line.leave(self)

    def _count(self, partition: Partition, size: int) -> None:
        if self.reader.replica >= 0:
            partition.replication_bytes_out += size
            if self.reader.throttle is not None:
                self.reader.throttle.passed(partition, size)
        else:
            partition.bytes_out += size

    def _note(self, partition: Partition, entry: FetchEntry, row: FetchRow) -> None:
        self.broker.follower_fetches.note(partition, self.reader.replica, entry.offset, row.high_watermark, row.size)

    def _empty(self, entry: FetchEntry) -> FetchRow:
        """A full response names every partition, even one without news or one that is still being looked up."""
        partition = entry.partition
        if partition is None:
            return FetchRow(Code.NONE)
        log = partition.log
        return FetchRow(Code.NONE, log.high_watermark, log.last_stable_offset, log.log_start)

    def _is_news(self, entry: FetchEntry, row: FetchRow) -> bool:
        return (
            row.size > 0
            or row.error is not Code.NONE
            or row.diverging is not None
            or row.preferred >= 0
            or row.high_watermark != entry.sent_high_watermark
            or row.log_start != entry.sent_log_start
        )

    def _leader_hint(self, entry: FetchEntry, error: Code) -> tuple[int, int] | None:
        if error not in (Code.NOT_LEADER_OR_FOLLOWER, Code.FENCED_LEADER_EPOCH):
            return None
        image = self.broker.metadata.partition_image(entry.topic, entry.index)
        return None if image is None else (image.leader, image.leader_epoch)


def _encoded(entry: FetchEntry, row: FetchRow, leader: tuple[int, int] | None) -> fetch.PartitionRow[FileSlice]:
    return (
        entry.index,
        int(row.error),
        row.high_watermark,
        row.last_stable,
        row.log_start,
        row.aborted,
        row.preferred,
        row.parts,
        row.diverging,
        leader,
        None,
    )
