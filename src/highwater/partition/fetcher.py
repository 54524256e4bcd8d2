"""A follower at work: one conversation with one leader broker, over all partitions that it leads and we follow.

The fetch session keeps both sides' costs to what changed. The next fetch is the acknowledgement of the last one's
records, so in flush mode it leaves only after they are synced. A fetch that waits at the leader is overtaken by another
as soon as there is a partition that it does not name: a new leader's first write waits for that.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

from highwater.errors import Code, KafkaError, code_of
from highwater.kernel import BadRecords
from highwater.log.store import LogStore
from highwater.model import Endpoint, NodeId, Offset, Uuid
from highwater.net.client import CallFailed, ClientConnection, Gone
from highwater.net.deadlines import DeadlineQueue
from highwater.partition.fetch_session import next_epoch
from highwater.partition.followed import Followed, State
from highwater.partition.leader_ends import LeaderEnds, ask_for_ends
from highwater.partition.partition import Partition
from highwater.replication.follower import Then, after_error, cut_for_divergence, out_of_range
from highwater.wire.messages.fetch_request import FetchRequest, FetchTopic, ForgottenTopic, ReplicaState
from highwater.wire.messages.fetch_response import FetchResponse, PartitionData
from highwater.world import World

CONNECT_SECONDS = 5.0
EPOCHS_FROM = 15
"""The first version of Fetch that tells the follower's broker epoch (KIP-903)."""
_SESSION_LOST = (Code.FETCH_SESSION_ID_NOT_FOUND, Code.INVALID_FETCH_SESSION_EPOCH, Code.FETCH_SESSION_TOPIC_ID_ERROR)
_log = logging.getLogger(__name__)


class Limits(NamedTuple):
    """replica.fetch.* as they are in force."""

    wait_ms: int
    min_bytes: int
    partition_bytes: int
    response_bytes: int
    backoff: float
    timeout: float


class Fetcher:
    """Runs while it follows anything; `doubt` is told of a lost connection: a hint that the leader died."""

    def __init__(
        self,
        world: World,
        deadlines: DeadlineQueue,
        local: NodeId,
        leader: NodeId,
        endpoint: Endpoint,
        broker_epoch: Callable[[], int],
        limits: Callable[[], Limits],
        doubt: Callable[[NodeId], None],
        store: Callable[[], LogStore],
    ) -> None:
        self._world = world
        self._deadlines = deadlines
        self._local = local
        self._doubt = doubt
        self._store = store
        self.leader = leader
        self.endpoint = endpoint
        self._broker_epoch = broker_epoch
        self._limits = limits
        self._followed: dict[tuple[Uuid, int], Followed] = {}
        self._fetching: dict[Followed, None] = {}
        """Those that are not being cut, nor waiting after an error: without one there is nothing to ask for."""
        self._changed: dict[Followed, None] = {}
        self._forgotten: dict[tuple[Uuid, int], None] = {}
        self._connection: ClientConnection | None = None
        self._open = False
        self._in_flight = 0
        self._made = 0
        self._unnamed = False
        """Whether there is a partition that no fetch of this session has named."""
        self._has_sessions = True
        """Until the leader has given none: asking for one without waiting, each time, would be no end of fetches."""
        self._syncing: dict[Followed, None] = {}
        """Whose records are not synced yet: the next fetch would acknowledge them."""
        self._session_id = 0
        self._session_epoch = 0
        name = f"fetches from broker {leader}"
        self._guarded_turn = world.failures.guarded("periodic", name, self._turn, self._rest)
        self._scheduled = False
        self._closed = False

    def __len__(self) -> int:
        return len(self._followed)

    # What is followed

    def follow(self, partition: Partition) -> None:
        """Begin at the log's end, in the partition's present epoch. Also after a change of epoch with the same
        leader: what was fetched under the old one is checked anew (KAFKA-7164)."""
        key = (partition.topic_id, partition.tp.partition)
        self._stop(key)
        followed = self._followed[key] = Followed(partition)
        self._forgotten.pop(key, None)
        if self._store().told_start(partition.log) < partition.log.log_start:
            self._keep_log_start(followed, partition.log.log_start)
        if partition.is_being_cut:
            # Whoever began it: nothing is fetched before the log is what it will be.
            followed.state = State.TRUNCATING
            partition.when_cut(lambda: self._resume(followed, State.TRUNCATING))
            return
        self._fetching[followed] = self._changed[followed] = None
        self._unnamed = True
        self._soon()

    def follows(self, partition: Partition) -> bool:
        """In the partition's present epoch."""
        followed = self._followed.get((partition.topic_id, partition.tp.partition))
        return followed is not None and followed.partition is partition and followed.epoch == partition.epoch

    def feeds(self, partition: Partition) -> bool:
        return (partition.topic_id, partition.tp.partition) in self._followed

    def unfollow(self, topic_id: Uuid, index: int) -> None:
        """Nothing of a fetch under way is taken in for it any more (KAFKA-13207)."""
        key = (topic_id, index)
        if self._stop(key):
            self._forgotten[key] = None

    def _stop(self, key: tuple[Uuid, int]) -> bool:
        followed = self._followed.pop(key, None)
        if followed is None:
            return False
        followed.state = State.STOPPED
        self._fetching.pop(followed, None)
        self._changed.pop(followed, None)
        self._synced(followed)
        return True

    def registered(self) -> None:
        self._soon()

    def close(self) -> None:
        self._closed = True
        for followed in self._followed.values():
            followed.state = State.STOPPED
        self._followed.clear()
        if self._connection is not None:
            self._connection.close()

    # The conversation

    def _soon(self) -> None:
        if not self._scheduled and not self._closed:
            self._scheduled = True
            self._world.clock.call_soon(self._guarded_turn)

    def _rest(self, failed: Exception) -> None:
        self._world.clock.call_later(self._limits().backoff, self._soon)

    def _turn(self) -> None:
        self._scheduled = False
        if self._closed or self._broker_epoch() < 0 or (self._in_flight and not self._may_overtake()):
            return
        if self._connection is None:
            if self._followed:
                self._dial()
        elif self._open and self._all_synced() and self._fetching:
            self._fetch(self._connection)

    def _may_overtake(self) -> bool:
        """The leader answers the one that waits at once. One such at a time, and not before there is a session."""
        return self._unnamed and self._in_flight == 1 and self._session_id != 0

    def _dial(self) -> None:
        client_id = f"broker-{self._local}-fetcher"
        connection = ClientConnection(self._world, self.endpoint, client_id, self._deadlines, self._lost)
        self._connection = connection
        connection.open(self._opened, CONNECT_SECONDS)

    def _opened(self) -> None:
        self._open = True
        self._new_session()
        self._turn()

    def _new_session(self) -> None:
        self._session_id = self._session_epoch = 0
        self._forgotten.clear()
        self._changed = dict(self._fetching)
        self._unnamed = True

    def _lost(self, reason: Gone) -> None:
        self._connection = None
        self._open = False
        self._in_flight = 0
        if not self._closed:
            if reason in (Gone.LOST, Gone.REFUSED):
                self._doubt(self.leader)
            self._world.clock.call_later(self._pause(reason), self._soon)

    def _pause(self, reason: Gone) -> float:
        """A leader that restarts is back soon; only one that does not answer is left alone for the whole backoff."""
        return 0.05 if reason in (Gone.REFUSED, Gone.LOST) else self._limits().backoff

    def _fetch(self, connection: ClientConnection) -> None:
        limits = self._limits()
        version = connection.pick(FetchRequest.API_KEY, FetchRequest.VERSIONS)
        if version is None or version < EPOCHS_FROM:
            _log.error("broker %d does not know Fetch v%d: it is not followed", self.leader, EPOCHS_FROM)
            connection.close()
            return
        self._made = fetch = self._made + 1
        # One that begins a session cannot be overtaken, so it does not wait.
        wait_ms = 0 if self._session_id == 0 and self._has_sessions else limits.wait_ms
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=self._local, replica_epoch=self._broker_epoch()),
            max_wait_ms=wait_ms,
            min_bytes=limits.min_bytes,
            max_bytes=limits.response_bytes,
            session_id=self._session_id,
            session_epoch=next_epoch(self._session_epoch, self._in_flight),
            topics=self._wanted(limits, fetch),
            forgotten_topics_data=self._unwanted(),
        )
        self._in_flight += 1
        timeout = wait_ms / 1000 + limits.timeout
        connection.send(
            request, version, FetchResponse, lambda answer: self._answered(connection, answer, fetch), timeout
        )

    def _wanted(self, limits: Limits, fetch: int) -> list[FetchTopic]:
        topics: dict[Uuid, FetchTopic] = {}
        for followed in self._changed:
            followed.asked_in(fetch)
            topic_id = followed.partition.topic_id
            topic = topics.setdefault(topic_id, FetchTopic(topic_id=topic_id, partitions=[]))
            topic.partitions.append(followed.place(self._store(), limits.partition_bytes))
        self._changed.clear()
        self._unnamed = False
        return list(topics.values())

    def _unwanted(self) -> list[ForgottenTopic]:
        topics: dict[Uuid, ForgottenTopic] = {}
        for topic_id, index in self._forgotten:
            topics.setdefault(topic_id, ForgottenTopic(topic_id=topic_id, partitions=[])).partitions.append(index)
        self._forgotten.clear()
        return list(topics.values())

    def _answered(self, connection: ClientConnection, answer: FetchResponse | CallFailed, fetch: int) -> None:
        if self._closed or connection is not self._connection or isinstance(answer, CallFailed):
            return
        self._in_flight -= 1
        if answer.error_code:
            code = code_of(answer.error_code)
            if code not in _SESSION_LOST:
                _log.warning("fetch from broker %d: %s", self.leader, code.name)
                self._world.clock.call_later(self._limits().backoff, self._soon)
            self._new_session()
            if code in _SESSION_LOST:
                self._soon()
            return
        self._session_id = answer.session_id
        self._session_epoch = next_epoch(self._session_epoch)
        self._has_sessions = answer.session_id != 0
        for topic in answer.responses:
            for row in topic.partitions:
                followed = self._followed.get((topic.topic_id, row.partition_index))
                if followed is not None and followed.fetches:
                    try:
                        self._take(followed, row, fetch)
                    except Exception as failed:  # noqa: BLE001 the boundary of one partition
                        followed.boundary(self._later).stop(failed)
        if answer.session_id == 0:
            self._new_session()
        self._soon()

    # One partition's answer

    def _take(self, followed: Followed, row: PartitionData, fetch: int) -> None:
        code = code_of(row.error_code)
        if followed in self._changed or followed.asked_last > fetch:
            # It is about a place where we no longer are, of an older epoch perhaps: a later fetch asks from here. But
            # what this leader has committed is told only once.
            if followed.asked_first <= fetch and code is Code.NONE and row.diverging_epoch.end_offset < 0:
                followed.partition.append_fetched(memoryview(b""), row.high_watermark, -1)
        elif code is not Code.NONE:
            self._failed(followed, code)
        elif row.diverging_epoch.end_offset >= 0:
            self._diverged(followed, row.diverging_epoch.epoch, row.diverging_epoch.end_offset)
        else:
            self._append(followed, row)

    def _append(self, followed: Followed, row: PartitionData) -> None:
        partition = followed.partition
        log = partition.log
        before = log.log_start, log.log_end
        try:
            data = followed.acceptable(memoryview(row.records or b""))
            if row.records and not data:
                raise KafkaError(Code.UNKNOWN_LEADER_EPOCH, f"they are of a later epoch than {partition.epoch}")
            begin = followed.begins_amid(data)
            if begin is not None:
                self._restart(followed, begin, "the leader's log begins amid a batch", data)
                return
            partition.append_fetched(data, row.high_watermark, row.log_start_offset)
        except (KafkaError, BadRecords) as bad:
            _log.warning("%s: fetched records are refused: %s", partition.tp, bad)
            self._later(followed)
            return
        followed.pause = 0.0
        if (log.log_start, log.log_end) == before:
            return
        self._changed[followed] = None
        if log.log_start > before[0]:
            self._keep_log_start(followed, before[0])

    def _keep_log_start(self, followed: Followed, before: Offset) -> None:
        """The leader hears of it by a fetch after that. Nothing else waits for it: a disk may be full for hours."""

        def kept() -> None:
            if followed.fetches:
                self._changed[followed] = None
                self._unnamed = True
                self._soon()

        self._store().keep_raised_start(followed.partition.log, before, kept)

    def _all_synced(self) -> bool:
        """Whether the next fetch may acknowledge the ends of all logs that it names. In flush mode they are synced
        first, whoever wrote them: this leader, an earlier one, an earlier life. A log that has failed is not named."""
        for followed in list(self._changed):
            if followed.partition.log.offline is not None:
                followed.state = State.PARKED
                self._drop(followed)
            elif followed.is_unsynced and followed not in self._syncing:
                self._syncing[followed] = None
                followed.when_durable(lambda each=followed: self._synced(each))  # type: ignore[misc]
        return not self._syncing

    def _synced(self, followed: Followed) -> None:
        if followed in self._syncing:
            del self._syncing[followed]
            self._soon()

    def _failed(self, followed: Followed, code: Code) -> None:
        then = after_error(code)
        if then is Then.RESET:
            self._reset(followed)
        elif then is Then.WAIT:
            followed.state = State.PARKED
            self._drop(followed)
        else:
            self._later(followed)

    def _drop(self, followed: Followed) -> None:
        """Out of the session, until something brings it back."""
        followed.unasked()
        self._fetching.pop(followed, None)
        self._changed.pop(followed, None)
        self._forgotten[followed.partition.topic_id, followed.partition.tp.partition] = None

    def _later(self, followed: Followed) -> None:
        followed.state = State.PAUSED
        self._drop(followed)
        pause = followed.next_pause(self._limits().backoff)
        self._world.clock.call_later(pause, self._resume, followed, State.PAUSED)

    def _resume(self, followed: Followed, only: State) -> None:
        if followed.state is only:
            followed.state = State.FETCHING
            self._forgotten.pop((followed.partition.topic_id, followed.partition.tp.partition), None)
            self._fetching[followed] = self._changed[followed] = None
            self._unnamed = True
            self._soon()

    def _diverged(self, followed: Followed, epoch: int, leader_end: Offset) -> None:
        partition = followed.partition
        log = partition.log
        cut = cut_for_divergence(log.epoch_cache, log.log_end, epoch, leader_end)
        if cut < log.high_watermark:
            _log.warning("%s: cut to %d, below its high watermark %d", partition.tp, cut, log.high_watermark)
        self._cut(followed, cut, f"epoch {epoch} of leader {self.leader} ends at {leader_end}")

    def _cut(self, followed: Followed, offset: Offset, why: str) -> None:
        followed.state = State.TRUNCATING
        self._drop(followed)

        async def cut() -> None:
            log = followed.partition.log
            still_meant = lambda: followed.state is State.TRUNCATING  # noqa: E731
            if await self._store().truncate(log, max(offset, log.log_start), still_meant):
                self._resume(followed, State.TRUNCATING)

        followed.partition.tell(followed.cut_told(offset, why))
        self._spawn("truncate", followed, cut())

    def _restart(self, followed: Followed, offset: Offset, why: str, batches: memoryview | None = None) -> None:
        """Begin anew at `offset`, with the batches that made it necessary, if there are: where the leader's log begins
        amid a batch, nothing below that may be asked for, and the batch comes whole."""
        followed.state = State.TRUNCATING
        self._drop(followed)

        async def restart() -> None:
            log = followed.partition.log
            if not await self._store().restart(log, offset, batches) or followed.state is not State.TRUNCATING:
                return
            if batches is not None and log.log_end == log.log_start:
                self._later(followed)  # there was no room for them
                return
            self._resume(followed, State.TRUNCATING)

        followed.partition.tell(f"begins anew at {offset}: {why}")
        self._spawn("restart", followed, restart())

    def _spawn(self, what: str, followed: Followed, cutting: Coroutine[Any, Any, None]) -> None:
        partition = followed.partition
        assert not partition.is_being_cut, "one truncation of a log at a time"
        partition.cutting = self._world.spawn(f"{what} {partition.tp}", cutting, partition.log.storage_failed)

    def _reset(self, followed: Followed) -> None:
        """Our end is not in the leader's log: ask where its log begins and ends."""
        followed.state = State.TRUNCATING
        self._drop(followed)
        connection = self._connection
        if connection is None:
            self._resume(followed, State.TRUNCATING)
            return

        def found(ends: LeaderEnds | None) -> None:
            if followed.state is State.TRUNCATING and ends is None:
                self._later(followed)
            elif followed.state is State.TRUNCATING and ends is not None:
                self._apply_reset(followed, ends.start, ends.end)

        ask_for_ends(connection, followed.partition, self._local, self._limits().timeout, found)

    def _apply_reset(self, followed: Followed, leader_start: Offset, leader_end: Offset) -> None:
        log = followed.partition.log
        last = log.epoch_cache.latest
        reset = out_of_range(log.log_start, log.log_end, last, leader_start, leader_end, followed.epoch)
        if reset.is_damaged:
            followed.state = State.PARKED
            log.has_strange_epoch(last, followed.epoch)
        elif reset.truncate_to is not None:
            _log.warning("%s: leader ends at %d, we at %d: the tail is dropped", log.partition, leader_end, log.log_end)
            self._cut(followed, reset.truncate_to, f"leader {self.leader} ends at {leader_end}")
        elif reset.restart_at is not None:
            self._restart(followed, reset.restart_at, f"leader {self.leader} has nothing before it any more")
        else:
            self._resume(followed, State.TRUNCATING)
