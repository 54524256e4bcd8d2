"""Copies partitions from one leader broker, on a connection of its own. `Conversation` and `Follower` decide."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from highwater.errors import KafkaError, code_of
from highwater.kernel import BadRecords
from highwater.log.store import LogStore
from highwater.model import Endpoint, NodeId, Offset, Uuid
from highwater.net.client import CallFailed, ClientConnection, Gone
from highwater.net.deadlines import DeadlineQueue
from highwater.partition.followed import Followed
from highwater.partition.leader_ends import ask_for_ends
from highwater.partition.partition import Partition
from highwater.partition.throttle import Throttle
from highwater.replication.conversation import Conversation
from highwater.replication.follower import Ends, Ready, Row
from highwater.wire import records
from highwater.wire.messages.fetch_request import FetchRequest, FetchTopic, ForgottenTopic, ReplicaState
from highwater.wire.messages.fetch_response import FetchResponse, PartitionData
from highwater.wire.records import Header
from highwater.world import World

CONNECT_SECONDS = 5.0
EPOCHS_FROM = 15
"""The first version of Fetch that carries the follower's broker epoch (KIP-903)."""
Key = tuple[Uuid, int]
_log = logging.getLogger(__name__)


class Limits(NamedTuple):
    """The values of replica.fetch.* that are in force."""

    wait_ms: int
    min_bytes: int
    partition_bytes: int
    response_bytes: int
    backoff: float
    timeout: float


class Fetcher:
    """Runs while it follows any partition. It reports a lost connection to `doubt`: the leader may have died."""

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
        store: LogStore,
        throttle: Throttle,
    ) -> None:
        self._world = world
        self._deadlines = deadlines
        self._local = local
        self._doubt = doubt
        self._store = store
        self._throttle = throttle
        self.leader = leader
        self.endpoint = endpoint
        self._broker_epoch = broker_epoch
        self._limits = limits
        self._followed: dict[Key, Followed] = {}
        self._talk: Conversation[Key] = Conversation()
        self._connection: ClientConnection | None = None
        self.heard_at = world.clock.monotonic()
        """When the leader last answered a fetch, or when this fetcher began."""
        self._open = False
        name = f"fetches from broker {leader}"
        self._guarded_turn = world.failures.guarded("periodic", name, self._turn, self._rest)
        self._scheduled = False
        self._closed = False

    def __len__(self) -> int:
        return len(self._followed)

    # What is followed

    def follow(self, partition: Partition) -> None:
        """Fetch from the log end, in the partition's present leader epoch. To be called again when the epoch changes,
        even if the leader is the same."""
        key = _key(partition)
        followed = self._followed[key] = Followed(partition, self._limits().backoff)
        self._talk.follow(key, followed.machine)
        if partition.log.durability.log_start < partition.log.log_start:
            self._keep_log_start(followed)
        if followed.is_cut:
            partition.when_cut(lambda: self._cut_ended(followed))
        self._soon()

    def follows(self, partition: Partition) -> bool:
        """Whether the partition is followed in its present leader epoch."""
        followed = self._followed.get(_key(partition))
        return followed is not None and followed.partition is partition and followed.machine.epoch == partition.epoch

    def feeds(self, partition: Partition) -> bool:
        return _key(partition) in self._followed

    def unfollow(self, topic_id: Uuid, index: int) -> None:
        """Stop fetching the partition. Responses that are still on their way are ignored for it (KAFKA-13207)."""
        self._followed.pop((topic_id, index), None)
        self._talk.unfollow((topic_id, index))
        if self._open:
            self._soon()  # others may have waited for its sync

    def registered(self) -> None:
        self._soon()

    def close(self) -> None:
        self._closed = True
        for followed in self._followed.values():
            followed.machine.stop()
        if self._connection is not None:
            self._connection.close()

    # The conversation

    def _soon(self) -> None:
        if not self._scheduled and not self._closed:
            self._scheduled = True
            self._world.clock.call_soon(self._guarded_turn)

    def _rest(self, failed: Exception) -> None:
        """A turn failed. A fetch may count as sent though it was not, so the connection is closed and all begins
        anew."""
        if self._connection is not None:
            self._connection.close()
        self._world.clock.call_later(self._limits().backoff, self._soon)

    def _turn(self) -> None:
        self._scheduled = False
        if self._closed or self._broker_epoch() < 0:
            return
        if self._connection is None:
            if self._followed:
                self._dial()
        elif self._open and self._talk.is_due:
            if self._throttle.is_set:
                self._hold_throttled()
            if self._all_synced() and self._talk.is_due:
                self._fetch(self._connection)

    def _dial(self) -> None:
        client_id = f"broker-{self._local}-fetcher"
        connection = ClientConnection(self._world, self.endpoint, client_id, self._deadlines, self._lost)
        self._connection = connection
        connection.open(self._opened, CONNECT_SECONDS)

    def _opened(self) -> None:
        self._open = True
        self._talk.begin_session()
        self._turn()

    def _lost(self, reason: Gone) -> None:
        self._connection = None
        self._open = False
        self._talk.lost()
        if not self._closed:
            if reason in (Gone.LOST, Gone.REFUSED):
                self._doubt(self.leader)
            self._world.clock.call_later(self._pause(reason), self._soon)

    def _pause(self, reason: Gone) -> float:
        """A leader that restarts is back soon. Only a leader that does not answer gets the whole backoff."""
        return 0.05 if reason in (Gone.REFUSED, Gone.LOST) else self._limits().backoff

    def _hold_throttled(self) -> None:
        """The next fetch names no partition that the throttle holds back."""
        for followed in self._each_moved():
            with followed.boundary(self._later):
                if self._throttle.holds(followed.partition, self._local):
                    pause = min(self._throttle.seconds_left, self._limits().backoff)
                    self._carry_out(followed, followed.machine.held(pause))

    def _all_synced(self) -> bool:
        """Whether the next fetch may acknowledge the ends of all logs that it names. In flush mode the logs are synced
        first, even if their records came from an earlier leader or an earlier life of this broker. A log that has
        failed is not named."""
        for followed in self._each_moved():
            with followed.boundary(self._later):
                if followed.partition.log.offline is not None:
                    followed.machine.log_failed()
                    self._talk.note(_key(followed.partition))
                elif followed.is_unsynced and self._talk.sync(_key(followed.partition)) is not None:
                    followed.when_durable(lambda each=followed: self._synced(each))  # type: ignore[misc]
        return not self._talk.is_syncing

    def _each_moved(self) -> list[Followed]:
        """What the next fetch names. Each gets a boundary of its own: a mistake at one must not stop the others."""
        return [self._followed[key] for key in self._talk.moved]

    def _synced(self, followed: Followed) -> None:
        self._talk.synced(_key(followed.partition), followed.machine)
        self._soon()

    def _fetch(self, connection: ClientConnection) -> None:
        limits = self._limits()
        version = connection.pick(FetchRequest.API_KEY, FetchRequest.VERSIONS)
        if version is None or version < EPOCHS_FROM:
            _log.error("broker %d does not know Fetch v%d: it is not followed", self.leader, EPOCHS_FROM)
            connection.close()
            return
        fetch = self._talk.fetch()
        wait_ms = limits.wait_ms if fetch.waits else 0
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=self._local, replica_epoch=self._broker_epoch()),
            max_wait_ms=wait_ms,
            min_bytes=limits.min_bytes,
            max_bytes=limits.response_bytes,
            session_id=fetch.session_id,
            session_epoch=fetch.session_epoch,
            topics=self._wanted(fetch.named, limits.partition_bytes),
            forgotten_topics_data=_unwanted(fetch.forgotten),
        )
        timeout = wait_ms / 1000 + limits.timeout
        connection.send(
            request, version, FetchResponse, lambda answer: self._answered(connection, answer, fetch.number), timeout
        )

    def _wanted(self, named: list[Key], max_bytes: int) -> list[FetchTopic]:
        topics: dict[Uuid, FetchTopic] = {}
        for key in named:
            followed = self._followed[key]
            with followed.boundary(self._later):
                place = followed.place(max_bytes)
                topics.setdefault(key[0], FetchTopic(topic_id=key[0], partitions=[])).partitions.append(place)
        return list(topics.values())

    def _answered(self, connection: ClientConnection, answer: FetchResponse | CallFailed, fetch: int) -> None:
        if self._closed or connection is not self._connection or isinstance(answer, CallFailed):
            return
        if answer.error_code:
            code = code_of(answer.error_code)
            if self._talk.refused(code):
                self._soon()
            else:
                _log.warning("fetch from broker %d: %s", self.leader, code.name)
                self._world.clock.call_later(self._limits().backoff, self._soon)
            return
        self.heard_at = self._world.clock.monotonic()
        self._talk.answered(answer.session_id)
        for topic in answer.responses:
            for row in topic.partitions:
                followed = self._followed.get((topic.topic_id, row.partition_index))
                if followed is not None and followed.machine.fetches:
                    try:
                        self._take(followed, row, fetch)
                    except Exception as failed:  # noqa: BLE001 the boundary of one partition
                        followed.boundary(self._later).stop(failed)
        self._talk.taken()
        self._soon()

    # One partition's answer

    def _take(self, followed: Followed, answer: PartitionData, fetch: int) -> None:
        log, machine = followed.partition.log, followed.machine
        data = memoryview(answer.records or b"")
        try:
            found = list(records.walk(data))
            row = _row(answer, found)
            before = followed.ends
            ready = machine.answered(fetch, row, before, log.high_watermark, log.epoch_cache)
            if ready.append:
                position, size, _ = found[ready.append - 1]
                data = data[: position + size]
                self._throttle.passed(followed.partition, len(data))
                if ready.restart_at is None:
                    followed.partition.append_fetched(data)
        except (KafkaError, BadRecords) as bad:
            _log.warning("%s: fetched records are refused: %s", log.partition, bad)
            self._later(followed)
            return
        if ready.takes:
            ready = machine.appended(row, before, followed.ends, log.high_watermark)
        self._carry_out(followed, ready, data)

    def _carry_out(self, followed: Followed, ready: Ready, data: memoryview | None = None) -> None:
        """Carries out a `Ready` in the order that `replication.follower` describes."""
        partition = followed.partition
        if ready.truncate_to is not None:
            self._cut(followed, ready.truncate_to, ready.why)
        elif ready.restart_at is not None:
            self._restart(followed, ready, data if ready.append else None)
        elif ready.leader_high_watermark is not None:
            partition.follow_up(ready.leader_high_watermark, ready)
        if ready.keep_log_start:
            self._keep_log_start(followed)
        if ready.ask_ends:
            self._ask_ends(followed)
        if ready.pause is not None:
            if ready.why:
                _log.warning("%s: %s", partition.tp, ready.why)
            self._world.clock.call_later(ready.pause, self._resume, followed)
        if ready.is_damaged:
            self._contradicted(followed, ready.why)
        self._note(followed)

    def _contradicted(self, followed: Followed, why: str) -> None:
        """The two logs do not fit together. First this one is fetched again. If the new one does not fit either, it is
        the leader's log that is damaged."""
        partition = followed.partition
        is_own = partition.log.epoch_cache.latest > followed.machine.epoch  # no leader sends such a batch
        if not is_own and self._store.retired.keeps(partition.topic_id, partition.tp.partition):
            if self._world.failures.is_news(line := f"{partition.tp}: the leader's log seems to be damaged: {why}"):
                _log.error("%s", line)
            self._later(followed)
        else:
            partition.log.contradicted(why, followed.machine.epoch)

    def _note(self, followed: Followed) -> None:
        """The `Follower` got an input, so the next fetch may have to name the partition."""
        key = _key(followed.partition)
        if self._followed.get(key) is followed:
            self._talk.note(key)
            self._soon()

    def _keep_log_start(self, followed: Followed) -> None:
        """Store the log start on disk, and report it to the leader by a later fetch. Nothing else waits for this: a
        disk may be full for hours."""

        def kept() -> None:
            if self._followed.get(_key(followed.partition)) is followed:
                self.restate(followed.partition)

        self._store.keep_start(followed.partition.log, kept)

    def restate(self, partition: Partition) -> None:
        """Send the partition's position to the leader again, because its log start has changed."""
        if self.feeds(partition):
            self._talk.restate(_key(partition))
            self._soon()

    def _later(self, followed: Followed) -> None:
        self._talk.synced(_key(followed.partition), followed.machine)  # the next fetch does not name it
        self._carry_out(followed, followed.machine.failed())

    def _resume(self, followed: Followed) -> None:
        if followed.machine.resumed():
            self._note(followed)

    def _cut_ended(self, followed: Followed) -> None:
        followed.machine.truncated()
        self._note(followed)

    def _cut(self, followed: Followed, offset: Offset, why: str) -> None:
        log = followed.partition.log
        if offset < log.high_watermark:
            _log.warning("%s: cut to %d, below its high watermark %d", log.partition, offset, log.high_watermark)

        def cut() -> Awaitable[bool]:
            return self._store.truncate(log, max(offset, log.log_start), lambda: followed.is_cut)

        followed.partition.log_change(followed.describe_cut(offset, self._named(why)))
        self._spawn("truncate", followed, cut, lambda: self._cut_ended(followed))

    def _restart(self, followed: Followed, ready: Ready, batches: memoryview | None) -> None:
        offset = ready.restart_at
        assert offset is not None

        def restart() -> Awaitable[bool]:
            return self._store.restart(followed.partition.log, offset, batches, lambda: followed.is_cut)

        def restarted() -> None:
            if batches is None:
                self._cut_ended(followed)
            else:
                self._carry_out(followed, followed.machine.restarted(followed.ends))

        followed.partition.log_change(f"begins anew at {offset}: {self._named(ready.why)}")
        self._spawn("restart", followed, restart, restarted)

    def _named(self, why: str) -> str:
        return why.replace("the leader", f"leader {self.leader}")

    def _spawn(
        self, what: str, followed: Followed, cutting: Callable[[], Awaitable[bool]], done: Callable[[], None]
    ) -> None:
        async def cut() -> None:
            if await cutting():
                done()
            else:
                followed.cut_failed()

        partition = followed.partition
        assert not partition.is_being_cut, "one truncation of a log at a time"
        partition.cutting = self._world.spawn(f"{what} {partition.tp}", cut(), partition.log.storage_failed)

    def _ask_ends(self, followed: Followed) -> None:
        def found(ends: Ends | None) -> None:
            log = followed.partition.log
            self._carry_out(followed, followed.machine.ends_found(ends, followed.ends, log.epoch_cache.latest))

        self.ask_for_ends(followed.partition, found)

    def ask_for_ends(self, partition: Partition, done: Callable[[Ends | None], None]) -> None:
        """Calls `done` once: with both ends of the leader's log, or with None if the leader does not answer."""
        if self._connection is None or not self._open:
            done(None)
        else:
            ask_for_ends(self._connection, partition, self._local, self._limits().timeout, done)


def _key(partition: Partition) -> Key:
    return partition.topic_id, partition.tp.partition


def _unwanted(keys: list[Key]) -> list[ForgottenTopic]:
    topics: dict[Uuid, ForgottenTopic] = {}
    for topic_id, index in keys:
        topics.setdefault(topic_id, ForgottenTopic(topic_id=topic_id, partitions=[])).partitions.append(index)
    return list(topics.values())


def _row(answer: PartitionData, found: list[tuple[int, int, Header]]) -> Row:
    diverging = answer.diverging_epoch
    return Row(
        code_of(answer.error_code),
        answer.high_watermark,
        answer.log_start_offset,
        (diverging.epoch, diverging.end_offset) if diverging.end_offset >= 0 else None,
        [header for _, _, header in found],
        bool(answer.records),
    )
