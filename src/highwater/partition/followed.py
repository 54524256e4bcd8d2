"""One partition as a fetcher follows it: the replica with its log, and the machine of this term."""

from __future__ import annotations

from collections.abc import Callable

from highwater.model import Offset
from highwater.partition.partition import Partition
from highwater.replication.follower import Ends, Follower, State
from highwater.wire.messages.fetch_request import FetchPartition
from highwater.world.boundary import Boundary


class Followed:
    __slots__ = ("_boundary", "machine", "partition")

    def __init__(self, partition: Partition, longest_pause: float) -> None:
        self.partition = partition
        self.machine = Follower(partition.epoch, longest_pause, is_being_cut=partition.is_being_cut)
        self._boundary: Boundary | None = None

    def boundary(self, again: Callable[[Followed], None]) -> Boundary:
        """Around its part of an answer: it is fetched again later, and the others have theirs. Made once for all."""
        if self._boundary is None:
            partition = self.partition
            self._boundary = partition.log.failures.boundary("partition", str(partition.tp), lambda _: again(self))
        return self._boundary

    @property
    def ends(self) -> Ends:
        log = self.partition.log
        return Ends(log.log_start, log.log_end)

    def place(self, max_bytes: int) -> FetchPartition:
        """Where our log ends, which acknowledges all below; and the epoch of its last record, by which the leader sees
        whether our history is its own (KIP-595)."""
        partition, log = self.partition, self.partition.log
        return FetchPartition(
            partition=partition.tp.partition,
            current_leader_epoch=partition.epoch,
            fetch_offset=log.log_end,
            last_fetched_epoch=log.epoch_cache.latest,
            log_start_offset=log.durability.log_start,
            partition_max_bytes=max_bytes,
        )

    @property
    def is_cut(self) -> bool:
        """Whether the truncation that its machine asked for is still meant."""
        return self.machine.state is State.TRUNCATING

    def cut_failed(self) -> None:
        """Where it is still meant. What was cut for an earlier role says nothing of this one."""
        if self.is_cut:
            self.machine.log_failed()

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
