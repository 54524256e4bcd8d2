"""One partition as a fetcher follows it."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from highwater.log.store import LogStore
from highwater.model import Offset
from highwater.partition.partition import Partition
from highwater.replication.follower import first_batch
from highwater.wire import records
from highwater.wire.messages.fetch_request import FetchPartition
from highwater.world.boundary import Boundary

FIRST_PAUSE = 0.01
NEVER = 2**63


class State(Enum):
    FETCHING = "fetching"
    TRUNCATING = "truncating"
    """Its log is being cut, or it is being found out where to."""
    PAUSED = "paused"
    """After an error, for the backoff."""
    PARKED = "parked"
    """Fenced: only newer metadata can help."""
    STOPPED = "stopped"


class Followed:
    __slots__ = ("_boundary", "asked_first", "asked_last", "epoch", "partition", "pause", "state")

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.epoch = partition.epoch
        self.state = State.FETCHING
        self.pause = 0.0
        self._boundary: Boundary | None = None
        self.asked_first = self.asked_last = NEVER
        """The numbers of the first fetch that named it, since it is fetched, and of the last one."""

    def unasked(self) -> None:
        """Whatever is under way is no answer to what will be asked next."""
        self.asked_first = self.asked_last = NEVER

    def asked_in(self, fetch: int) -> None:
        self.asked_first = min(self.asked_first, fetch)
        self.asked_last = fetch

    def boundary(self, again: Callable[[Followed], None]) -> Boundary:
        """Around its part of an answer: it is fetched again later, and the others have theirs. Made once for all."""
        if self._boundary is None:
            partition = self.partition
            self._boundary = partition.log.failures.boundary("partition", str(partition.tp), lambda _: again(self))
        return self._boundary

    def next_pause(self, longest: float) -> float:
        """A new leader often learns of its role some milliseconds after its followers: the first pauses are short."""
        self.pause = min(max(FIRST_PAUSE, self.pause * 2), longest)
        return self.pause

    @property
    def fetches(self) -> bool:
        return self.state is State.FETCHING

    def place(self, store: LogStore, max_bytes: int) -> FetchPartition:
        """Where our log ends, which acknowledges all below; and the epoch of its last record, by which the leader sees
        whether our history is its own (KIP-595)."""
        partition, log = self.partition, self.partition.log
        return FetchPartition(
            partition=partition.tp.partition,
            current_leader_epoch=partition.epoch,
            fetch_offset=log.log_end,
            last_fetched_epoch=log.epoch_cache.latest,
            log_start_offset=store.told_start(log),
            partition_max_bytes=max_bytes,
        )

    def acceptable(self, data: memoryview) -> memoryview:
        """The whole batches that follow our log. One of a later epoch than ours is left for the next fetch: the
        leader may have changed while it read (KAFKA-18723)."""
        end = 0
        for position, size, header in records.walk(data):
            if header.leader_epoch > self.partition.epoch:
                break
            end = position + size
        return data[:end]

    def begins_amid(self, data: memoryview) -> Offset | None:
        """Where the log must begin for the first batch of `data` to fit, if it does not: see `first_batch`."""
        if not len(data):
            return None
        header, log = records.read_header(data), self.partition.log
        return first_batch(log.log_start, log.log_end, header.base_offset, header.last_offset)

    @property
    def is_unsynced(self) -> bool:
        """In flush mode a fetch at the log's end would acknowledge what a power cut may still take."""
        log = self.partition.log
        return log.flush_each_append and log.durable_end < log.log_end and log.offline is None

    def when_durable(self, done: Callable[[], None]) -> None:
        """`done` once all that is written now is synced, or never will be."""
        self.partition.when_durable(self.partition.log.log_end, done)

    def cut_told(self, offset: Offset, why: str) -> str:
        """Below the high watermark there was what consumers may have seen: an unclean election can take it away."""
        log = self.partition.log
        committed = max(log.high_watermark - offset, 0)
        lost = f", {committed} of them committed" if committed else ""
        return f"cut from {log.log_end} to {offset}, {log.log_end - offset} records{lost}: {why}"
