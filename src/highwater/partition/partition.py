"""One hosted replica: its role, its appends, and the requests that wait for its high watermark or its next record."""

from __future__ import annotations

import logging
from asyncio import Task
from collections import deque
from collections.abc import Callable, Sequence

from highwater.config import LogConfig
from highwater.errors import Code, KafkaError
from highwater.log.appended import Appended, Origin
from highwater.log.log import Log
from highwater.model import NO_NODE, Epoch, NodeId, Offset, TopicPartition, Uuid
from highwater.partition.in_sync import InSync
from highwater.partition.rules import rules_of
from highwater.partition.watcher import Watcher
from highwater.replication.alter_partition import Answer, Proposal
from highwater.replication.follower import Ready
from highwater.replication.follower_progress import Contact
from highwater.replication.leader import COMMITTED, PROPOSAL, SHRANK, STALE, BrokerEpochs, Leader, Terms
from highwater.replication.refusals import Batch, Refusals
from highwater.replication.serving import check_epoch
from highwater.wire.compression import Codec
from highwater.wire.records import read_header
from highwater.wire.records.append import Validated, validate_append

_ZSTD_FROM_PRODUCE = 7
REMEMBERED = 8
_state_change_log = logging.getLogger("highwater.state_change")


Waiting = Callable[[Code], None]
"""Called once: with NONE when the offset is committed, or with the reason why it never will be by this leader."""


class Partition:
    __slots__ = (
        "_boundary",
        "_followers",
        "_in_sync",
        "_readers",
        "_refusals",
        "_unsynced",
        "bytes_in",
        "bytes_out",
        "changes",
        "cutting",
        "epoch",
        "leader",
        "leader_high_watermark",
        "leader_id",
        "log",
        "partition_epoch",
        "records_in",
        "replicas",
        "replication_bytes_in",
        "replication_bytes_out",
        "rules",
        "topic_id",
        "tp",
    )

    def __init__(self, log: Log, in_sync: InSync) -> None:
        self.tp: TopicPartition = log.partition
        self.topic_id: Uuid = log.topic_id
        self.log = log
        self._in_sync = in_sync
        self._boundary = log.failures.boundary("connection", f"a request that waited for {log.partition}")
        """Around each callback: a callback runs within another client's request, and others wait behind it."""
        self.leader: Leader | None = None
        self.leader_id = NO_NODE
        self.epoch: Epoch = -1
        self.partition_epoch = -1
        self.replicas: tuple[NodeId, ...] = ()
        self.rules = rules_of(log.config)
        self.records_in = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.replication_bytes_in = 0
        self.replication_bytes_out = 0
        self.leader_high_watermark: Offset = -1
        """The leader's high watermark by its last fetch response in this epoch; -1 before the first."""
        self.cutting: Task[None] | None = None
        """A truncation under way: nothing may be appended, and no role taken, before it has ended."""
        self.changes: deque[tuple[float, str]] = deque(maxlen=REMEMBERED)
        """The last changes of this replica's state, each with its time."""
        self._readers: dict[Watcher, None] = {}
        """Consumers that are to be notified: they read up to the high watermark."""
        self._followers: dict[Watcher, None] = {}
        """Replicas that are to be notified: they read up to the log end."""
        self._unsynced: list[tuple[Offset, Callable[[], None]]] = []
        self._refusals = Refusals()
        log.durable_listener = self._synced
        log.is_only_copy = self._is_only_copy

    # Roles

    def lead(
        self,
        local: NodeId,
        epoch: Epoch,
        partition_epoch: Epoch,
        replicas: Sequence[NodeId],
        isr: Sequence[NodeId],
        brokers: BrokerEpochs,
        why: str = "the controller decided it",
        elr: Sequence[NodeId] = (),
    ) -> None:
        """Become leader in `epoch`, or apply a change of metadata within the same epoch."""
        now = self._in_sync.now()
        self.leader_id = local
        if self.leader is not None and self.epoch == epoch:
            leader, before = self.leader, self.leader.isr
            flags = leader.assigned(replicas, isr, partition_epoch, brokers, now, elr)
            self._log_isr_change(before, leader, why)
        else:
            self.epoch = epoch
            log = self.log
            log.assign_epoch(epoch, log.log_end)
            self._sync_what_counts()
            leader = Leader(
                local,
                epoch,
                *(log.log_end, log.durable_end, log.high_watermark),
                replicas,
                isr,
                partition_epoch,
                brokers,
                self._terms(),
                now,
                elr,
            )
            if log.offline is not None:
                leader.freeze()
            if self.leader is not None:
                leader.take_over(self.leader)
            self.leader = leader
            self.log_change(f"leads in epoch {epoch} from offset {log.log_end} on, ISR {_ids(isr)}: {why}")
            flags = leader.begin(now)
        self.partition_epoch = leader.partition_epoch
        self.replicas = leader.replicas
        self._carry_out(leader, flags)
        self._notify_readers()
        self._mark(self._followers)

    def _terms(self) -> Terms:
        log = self.log
        return Terms(log.config.min_insync_replicas, log.flush_each_append, self._in_sync.lag_seconds())

    def _carry_out(self, leader: Leader, flags: int) -> None:
        """Carries out the flags of a leader's input, in the order that `replication.leader` describes."""
        if flags & SHRANK:
            # A caught-up follower does not name the partition in its fetches. Its next fetch must count for it, too.
            for follower in self._followers:
                follower.restate()
        if flags & COMMITTED:
            self._committed(leader)
        if flags & PROPOSAL and leader.proposal is not None:
            self._in_sync.ask(self, leader, leader.proposal)

    def _committed(self, leader: Leader) -> None:
        self.log.move_high_watermark(leader.high_watermark)
        if leader.released:
            released, leader.released = leader.released, []
            for callback in released:
                try:
                    callback(Code.NONE)
                except Exception as failed:  # noqa: BLE001 the boundary of one callback
                    self._boundary.stop(failed)
        if self._readers:
            self._notify_readers()
        for follower in self._followers:
            follower.note()  # else a caught-up follower would learn the high watermark only with the next record

    def isr_answered(self, leader: Leader, proposal: Proposal, answer: Answer) -> None:
        """The controller's answer to a proposal. An answer to an earlier term's proposal is ignored."""
        if self.leader is leader:
            self._carry_out(leader, leader.answered(proposal, answer, self._in_sync.now()))

    def _log_isr_change(self, before: Sequence[NodeId], leader: Leader, why: str) -> None:
        """The reason is the leader's own if it proposed the change, else `why`."""
        if leader.isr != before:
            self.log_change(f"ISR {_ids(before)} -> {_ids(leader.isr)}: {leader.reason or why}")

    def log_change(self, change: str) -> None:
        """Record a change of this replica's state, with its reason: in the state-change log and in `changes`."""
        self.changes.append((self._in_sync.now(), change))
        _state_change_log.info("%s %s", self.tp, change)

    def step_down(
        self,
        leader: NodeId,
        epoch: Epoch,
        partition_epoch: int,
        replicas: Sequence[NodeId],
        why: str = "the controller decided it",
    ) -> None:
        """Another replica leads, or none does. Waiting requests are answered with NOT_LEADER_OR_FOLLOWER."""
        role = "has no leader" if leader == NO_NODE else f"follows {leader}"
        ends = f"end {self.log.log_end}, high watermark {self.log.high_watermark}"
        self.log_change(f"{role} in epoch {epoch}, {ends}: {why}")
        self.leader_id = leader
        self.leader_high_watermark = -1
        self.epoch = epoch
        self.partition_epoch = partition_epoch
        self.replicas = tuple(replicas)
        self._end_term(Code.NOT_LEADER_OR_FOLLOWER)

    @property
    def is_being_cut(self) -> bool:
        return self.cutting is not None and not self.cutting.done()

    def when_cut(self, callback: Callable[[], None]) -> None:
        """Calls `callback` when the truncation that is under way has ended, even if it failed."""
        assert self.cutting is not None
        self.cutting.add_done_callback(lambda _: callback())

    def close(self, is_deleted: bool = False) -> None:
        """This broker no longer hosts the replica: its topic `is_deleted`, or the replica was moved or is made anew. If
        the partition still exists, NOT_LEADER_OR_FOLLOWER makes clients look for its leader. With the other error an
        idempotent producer would number its records anew, and the new leader could store some of them twice."""
        self._end_term(Code.UNKNOWN_TOPIC_OR_PARTITION if is_deleted else Code.NOT_LEADER_OR_FOLLOWER)

    def failed(self) -> None:
        """The log has gone offline. Waiting requests are answered with KAFKA_STORAGE_ERROR."""
        leader = self.leader
        if leader is not None:
            leader.freeze()
        self._release(leader, Code.KAFKA_STORAGE_ERROR)

    def _end_term(self, why: Code) -> None:
        leader, self.leader = self.leader, None
        self._release(leader, why)

    def _release(self, leader: Leader | None, why: Code) -> None:
        for callback in [] if leader is None else leader.step_down():
            with self._boundary:
                callback(why)
        self._notify_synced()
        self._notify_readers()
        self._mark(self._followers)

    def reconfigure(self, config: LogConfig, leads: bool = True) -> None:
        """Apply new topic settings. If this replica no longer leads in the metadata that has them (not `leads`), it
        must not commit under them: a lower min.insync.replicas is for the next leader."""
        self.log.config = config
        self.rules = rules_of(config)
        self._sync_what_counts()
        leader = self.leader
        if leader is not None and not leads:
            leader.freeze()
        elif leader is not None:
            self._carry_out(leader, leader.settings_changed(self._terms(), self._in_sync.now()))

    def _sync_what_counts(self) -> None:
        """In flush mode only synced records count, and no further append may come that syncs the earlier ones."""
        if self.log.flush_each_append:
            self.log.flush()

    def _is_only_copy(self) -> bool:
        """Whether this leader is the only member of its ISR: it may have the only copy of committed records."""
        return self.leader is not None and len(self.leader.isr) == 1

    def require_leader(self) -> Leader:
        if self.log.offline is not None:
            raise KafkaError(Code.KAFKA_STORAGE_ERROR, f"the log is offline: {self.log.offline}")
        if self.leader is None:
            raise KafkaError(Code.NOT_LEADER_OR_FOLLOWER)
        return self.leader

    @property
    def has_leader_high_watermark(self) -> bool:
        """Whether this follower has caught up with its leader's high watermark in this epoch."""
        return self.leader is None and 0 <= self.leader_high_watermark <= self.log.log_end

    @property
    def knows_its_end(self) -> bool:
        """Whether the high watermark has reached the start of this epoch. Clients may have seen a higher one before."""
        return self.leader is not None and self.log.high_watermark >= self.leader.epoch_start

    def check_epoch(self, believed: Epoch) -> None:
        check_epoch(believed, self.epoch)

    # Writing

    def append(self, field: memoryview | Validated, acks: int, produce_version: int, now_ms: int) -> Appended:
        """Append one batch of a client. Raises KafkaError, `Refused` if single records are invalid, and `Laborious` if
        the batch must be validated off the event loop first."""
        try:
            leader = self.require_leader()
            if acks == -1 and not leader.enough_in_sync:
                raise KafkaError(Code.NOT_ENOUGH_REPLICAS)
            batch = field if isinstance(field, Validated) else validate_append(field, self.rules, now_ms, at_once=True)
            header = batch.header
            if header.is_transactional:
                raise KafkaError(Code.INVALID_TXN_STATE, "this broker does not support transactions")
            if header.codec == Codec.ZSTD and produce_version < _ZSTD_FROM_PRODUCE:
                raise KafkaError(Code.UNSUPPORTED_COMPRESSION_TYPE)
            if len(batch.data) > self.log.config.segment_bytes:
                raise KafkaError(Code.RECORD_LIST_TOO_LARGE)
            if self._refusals and header.producer_id not in self.log.producers.producers:  # it may begin anywhere else
                self._refusals.check(Batch.of(batch), self._in_sync.now())
            appended = self.log.append_as_leader(batch, leader.epoch, Origin.CLIENT)
            if self._refusals:
                self._refusals.appended(Batch.of(batch))
            if not appended.duplicate:
                self._appended(leader, appended, len(batch.data))
            return appended
        except KafkaError as failed:
            raise self._refusals.answer(Batch.of(field), failed, self._in_sync.now()) from None

    @property
    def most_bytes(self) -> int:
        """The largest batch that a coordinator may append. It may change at any time."""
        return min(self.log.config.max_message_bytes, self.log.config.segment_bytes)

    def append_own(self, data: bytearray) -> Appended:
        """Append one batch of a coordinator of this broker, as with acks=all. Raises KafkaError."""
        leader = self.require_leader()
        if not leader.enough_in_sync:
            raise KafkaError(Code.NOT_ENOUGH_REPLICAS)
        if len(data) > self.most_bytes:
            raise KafkaError(Code.MESSAGE_TOO_LARGE)
        batch = Validated(data, read_header(data), -1)
        appended = self.log.append_as_leader(batch, leader.epoch, Origin.COORDINATOR)
        self._appended(leader, appended, len(data))
        return appended

    def _appended(self, leader: Leader, appended: Appended, size: int) -> None:
        self.records_in += appended.last_offset - appended.base_offset + 1
        self.bytes_in += size
        if self._followers:
            self._mark(self._followers)
        flags = leader.appended(self.log.log_end, self._in_sync.now())
        if flags:
            self._carry_out(leader, flags)

    def append_fetched(self, data: memoryview) -> None:
        """Append batches from the leader, byte for byte."""
        self.log.append_as_follower(data)
        self.replication_bytes_in += len(data)

    def follow_up(self, leader_high_watermark: Offset, ready: Ready) -> None:
        """Move the high watermark and the log start as the leader's response asks for."""
        self.leader_high_watermark = leader_high_watermark
        if ready.high_watermark is not None:
            self.log.move_high_watermark(ready.high_watermark)
            self._notify_readers()
        if ready.log_start is not None:
            self.log.raise_log_start(ready.log_start)

    def when_durable(self, end: Offset, callback: Callable[[], None]) -> None:
        """Calls `callback` when everything below `end` is synced, or when the log has failed and it never will be."""
        self._unsynced.append((end, callback))
        self.log.flush()

    def _synced(self) -> None:
        leader = self.leader
        if leader is not None:
            self._carry_out(leader, leader.synced(self.log.durable_end, self._in_sync.now()))
        self._notify_synced()

    def _notify_synced(self) -> None:
        waiting, self._unsynced = self._unsynced, []
        for end, callback in waiting:
            if self.log.durable_end >= end or self.log.offline is not None:
                with self._boundary:
                    callback()
            else:
                self._unsynced.append((end, callback))

    def when_committed(self, end: Offset, callback: Waiting) -> None:
        """Calls `callback` when the high watermark has reached `end`. To be called in the order of the appends."""
        leader = self.leader
        if leader is None or leader.is_frozen:
            callback(Code.NOT_LEADER_OR_FOLLOWER if self.log.offline is None else Code.KAFKA_STORAGE_ERROR)
        else:
            leader.wait(end, callback)

    def raise_log_start(self, offset: Offset) -> bool:
        """DeleteRecords up to `offset`; -1 means up to the high watermark. True if the log start has moved."""
        self.require_leader()
        if not self.log.config.delete:
            raise KafkaError(Code.POLICY_VIOLATION, "records of a compacted topic cannot be deleted")
        offset = self.log.high_watermark if offset == -1 else offset
        if not 0 <= offset <= self.log.high_watermark:
            raise KafkaError(Code.OFFSET_OUT_OF_RANGE, f"the high watermark is {self.log.high_watermark}")
        is_news = self.log.raise_log_start(offset)
        if is_news:
            self._notify_readers()
            self._mark(self._followers)
        return is_news

    # Followers

    def follower_fetched(
        self, replica: NodeId, offset: Offset, log_start: Offset, broker_epoch: int, contact: Contact
    ) -> None:
        """A follower's fetch acknowledges everything below `offset`."""
        leader = self.require_leader()
        now, own_start = self._in_sync.now(), self.log.log_start
        flags = leader.fetched(replica, broker_epoch, offset, log_start, own_start, contact, now)
        if flags & STALE:
            raise KafkaError(Code.NOT_LEADER_OR_FOLLOWER, f"replica {replica} has a newer incarnation")
        if flags:
            self._carry_out(leader, flags)

    @property
    def low_watermark(self) -> Offset:
        """The offset below which records are deleted on all live replicas and in the ELR."""
        return self.require_leader().low_watermark(self.log.log_start)

    def brokers_changed(self, brokers: BrokerEpochs) -> None:
        """The set of brokers that may be in an ISR has changed."""
        leader = self.leader
        if leader is not None:
            self._carry_out(leader, leader.brokers_changed(brokers, self._in_sync.now()))

    def tick(self) -> None:
        """Checks whether every member of the ISR is still in sync. To be called again and again."""
        leader = self.leader
        if leader is not None:
            self._carry_out(leader, leader.tick(self._in_sync.now()))

    # Watching

    def watch(self, watcher: Watcher, follower: bool = False) -> None:
        (self._followers if follower else self._readers)[watcher] = None

    def unwatch(self, watcher: Watcher) -> None:
        self._readers.pop(watcher, None)
        self._followers.pop(watcher, None)

    def _notify_readers(self) -> None:
        """Each reader is notified once, and watches again with its next fetch: one that is gone costs nothing."""
        readers = list(self._readers)
        self._readers.clear()
        for reader in readers:
            reader.mark()

    @staticmethod
    def _mark(watchers: dict[Watcher, None]) -> None:
        for watcher in list(watchers):
            watcher.mark()


def _ids(nodes: Sequence[NodeId]) -> str:
    return ",".join(map(str, nodes)) or "(none)"
