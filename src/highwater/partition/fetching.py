"""How one partition is read for a fetch: the checks in Kafka's order, and the records that may be sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from highwater.errors import Code, KafkaError
from highwater.log import peek
from highwater.log.log import Log
from highwater.model import Epoch, NodeId, Offset
from highwater.partition.fetch_session import FetchEntry
from highwater.partition.partition import Partition
from highwater.partition.throttle import Throttle
from highwater.replication.leader import Leader
from highwater.replication.serving import check_epoch, check_range, divergence
from highwater.world import FileSlice

READ_COMMITTED = 1


class Nearby(Protocol):
    """What there is to know of a consumer with a rack (KIP-392)."""

    def preferred(self, leader: Leader, offset: Offset) -> NodeId | None:
        """The follower from which the consumer should read, if not from this leader."""
        ...

    def may_read(self, partition: Partition) -> bool:
        """Whether this follower may serve consumers."""
        ...


class Reader(NamedTuple):
    """The sender of a fetch: a consumer (replica -1) with its isolation level, or a follower with its broker epoch."""

    replica: int
    isolation: int
    broker_epoch: int
    nearby: Nearby | None = None
    """None for a follower and for a consumer without a rack: only the leader serves them."""
    throttle: Throttle | None = None
    """For a follower, if a throttle is set."""


class FetchRow(NamedTuple):
    """The response for one partition."""

    error: Code
    high_watermark: Offset = -1
    last_stable: Offset = -1
    log_start: Offset = -1
    aborted: list[tuple[int, Offset]] | None = None
    parts: Sequence[FileSlice] = ()
    diverging: tuple[Epoch, Offset] | None = None
    size: int = 0
    has_no_room: bool = False
    """There are records, but the first batch of them does not fit into this response."""
    preferred: int = -1
    """The follower from which the consumer should read."""
    is_passing: bool = False
    """The next fetch must read the partition again, even if it has not changed: time alone may change the result."""
    ends_early: bool = False
    """There are more records in the next segment. A response holds records of one segment only."""


def read(entry: FetchEntry, partition: Partition, reader: Reader, max_bytes: int, at_least_one: bool) -> FetchRow:
    """Raises KafkaError, or `peek.WouldBlock` if a job must look the position up on disk first."""
    leader = partition.leader
    if leader is None and reader.nearby is not None:
        return _read_follower(entry, partition, reader, reader.nearby, max_bytes, at_least_one)
    leader = partition.require_leader()
    partition.check_epoch(entry.epoch)
    if reader.nearby is not None:
        preferred = reader.nearby.preferred(leader, entry.offset)
        if preferred is not None:
            log = partition.log
            ends = (log.high_watermark, log.last_stable_offset, log.log_start)
            return FetchRow(Code.NONE, *ends, preferred=preferred, is_passing=True)
    if reader.replica >= 0 and reader.replica not in leader.followers:
        raise KafkaError(Code.UNKNOWN_LEADER_EPOCH, f"replica {reader.replica} is not assigned here")
    log = partition.log
    log_start = log.log_start
    diverging = divergence(log.epoch_cache, log_start, log.log_end, entry.offset, entry.last_fetched_epoch)
    if diverging is not None:
        return FetchRow(Code.NONE, log.high_watermark, log.last_stable_offset, log_start, diverging=diverging)
    if reader.replica >= 0 and entry.is_fresh:
        entry.is_fresh = False
        check_range(log_start, log.log_end, entry.offset)
        partition.follower_fetched(
            NodeId(reader.replica), entry.offset, entry.log_start, reader.broker_epoch, entry.session.contact
        )
    if reader.throttle is not None and reader.throttle.holds(partition, NodeId(reader.replica)):
        return FetchRow(Code.NONE, log.high_watermark, log.last_stable_offset, log.log_start, is_passing=True)
    return _records(entry, log, reader, max_bytes, at_least_one)


def _read_follower(
    entry: FetchEntry, partition: Partition, reader: Reader, nearby: Nearby, max_bytes: int, at_least_one: bool
) -> FetchRow:
    """A consumer reads a follower up to the follower's own high watermark. Every error that it gets here sends it back
    to the leader."""
    log = partition.log
    if log.offline is not None:
        raise KafkaError(Code.KAFKA_STORAGE_ERROR, f"the log is offline: {log.offline}")
    check_epoch(entry.epoch, partition.epoch)
    if partition.is_being_cut or not nearby.may_read(partition):
        raise KafkaError(Code.NOT_LEADER_OR_FOLLOWER)
    diverging = divergence(log.epoch_cache, log.log_start, log.log_end, entry.offset, entry.last_fetched_epoch)
    if diverging is not None:
        ends = (log.high_watermark, log.last_stable_offset, log.log_start)
        return FetchRow(Code.NONE, *ends, diverging=diverging)
    return _records(entry, log, reader, max_bytes, at_least_one)._replace(is_passing=True)


def _records(entry: FetchEntry, log: Log, reader: Reader, max_bytes: int, at_least_one: bool) -> FetchRow:
    high_watermark, last_stable = log.high_watermark, log.last_stable_offset
    committed_only = reader.isolation == READ_COMMITTED and reader.replica < 0
    limit = log.log_end if reader.replica >= 0 else last_stable if committed_only else high_watermark
    parts = log.read(entry.offset, min(entry.max_bytes, max_bytes), limit, at_least_one, peek.cached)
    size = sum(part.size for part in parts)
    aborted = None
    if committed_only:
        found = log.aborted_transactions(entry.offset, limit) if parts else []
        aborted = [(each.producer_id, each.first_offset) for each in found]
    has_no_room = not parts and not at_least_one and entry.offset < limit
    is_old = size > 0 and entry.offset < log.active.base_offset
    return FetchRow(
        Code.NONE,
        high_watermark,
        last_stable,
        log.log_start,
        aborted,
        parts,
        size=size,
        has_no_room=has_no_room,
        ends_early=is_old and log.end_of(log.segment_of(entry.offset)) < limit,
    )
