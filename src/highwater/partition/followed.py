"""One partition that a fetcher follows: the replica with its log, and the `Follower` of this leader epoch."""

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
        """The failure boundary around this partition's part of a response: after a failure it is fetched again later,
        and other partitions are not affected. It is made once."""
        if self._boundary is None:
            partition = self.partition
            self._boundary = partition.log.failures.boundary("partition", str(partition.tp), lambda _: again(self))
        return self._boundary

    @property
    def ends(self) -> Ends:
        log = self.partition.log
        return Ends(log.log_start, log.log_end)

    def place(self, max_bytes: int) -> FetchPartition:
        """Our position for the next fetch: the log end, which acknowledges everything below it, and the epoch of the
        last record, by which the leader detects a divergence (KIP-595)."""
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
        """Whether the truncation that this `Follower` asked for is still wanted."""
        return self.machine.state is State.TRUNCATING

    def cut_failed(self) -> None:
        """The truncation failed. A truncation of an earlier term is ignored."""
        if self.is_cut:
            self.machine.log_failed()

    @property
    def is_unsynced(self) -> bool:
        """Whether a fetch at the log end would acknowledge records that a power cut may still take. Only in flush
        mode."""
        log = self.partition.log
        return log.flush_each_append and log.durable_end < log.log_end and log.offline is None

    def when_durable(self, done: Callable[[], None]) -> None:
        """Calls `done` when everything that is written now is synced, or never will be."""
        self.partition.when_durable(self.partition.log.log_end, done)

    def describe_cut(self, offset: Offset, why: str) -> str:
        """The line for the state-change log. It counts the committed records that are lost: consumers may have read
        them, and only an unclean election can take them away."""
        log = self.partition.log
        committed = max(log.high_watermark - offset, 0)
        lost = f", {committed} of them committed" if committed else ""
        return f"cut from {log.log_end} to {offset}, {log.log_end - offset} records{lost}: {why}"
