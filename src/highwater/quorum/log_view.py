"""The metadata log as the quorum sees it: read-only, and only its durable part counts.

A follower's fetch offset is its acknowledgement and the leader counts itself like any voter, so both may name only
what a power cut leaves (KAFKA-10533). Of records that are written and not yet synced the quorum knows one thing: that
they are there, because no fetch may be sent and no epoch may begin in front of them.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from highwater.model import Epoch, Offset


class LogPosition(NamedTuple):
    """An end offset in an epoch, ordered as Raft orders logs; also a snapshot's id. The offset is exclusive."""

    epoch: Epoch
    offset: Offset


BOOTSTRAP_SNAPSHOT = LogPosition(0, 0)
"""The checkpoint that formatting writes: it holds the first voters and no metadata, so nobody needs to fetch it."""


class LogView(Protocol):
    @property
    def start_offset(self) -> Offset: ...

    @property
    def written_end(self) -> Offset:
        """The next offset to be written."""
        ...

    @property
    def durable_end(self) -> Offset:
        """The end of what is written and synced."""
        ...

    @property
    def last_epoch(self) -> Epoch:
        """Of the last durable record; of the latest snapshot if the log is empty; else 0."""
        ...

    @property
    def earliest_snapshot(self) -> LogPosition | None: ...

    @property
    def latest_snapshot(self) -> LogPosition | None: ...

    def end_of_epoch(self, epoch: Epoch) -> LogPosition:
        """The largest epoch in the durable log that is at most `epoch`, and where it ends.

        Asked for an epoch below all that are known: that epoch itself, ending at the first known one's start.
        An empty log answers its last epoch and its end.
        """
        ...


def durable_position(log: LogView) -> LogPosition:
    return LogPosition(log.last_epoch, log.durable_end)


class Verdict(NamedTuple):
    """On a replica's fetch position. Both absent: it is a prefix of the log and can be served from there."""

    diverging: LogPosition | None = None
    snapshot: LogPosition | None = None


VALID = Verdict()


def judge_fetch(log: LogView, offset: Offset, last_fetched_epoch: Epoch) -> Verdict:
    """Whether a replica at this position holds a prefix of this log, must truncate, or needs a snapshot."""
    latest, earliest = log.latest_snapshot, log.earliest_snapshot
    if offset == 0 and latest is not None and latest != BOOTSTRAP_SNAPSHOT:
        return Verdict(snapshot=latest)  # an empty replica catches up faster from a snapshot than from the log
    if offset == 0 and log.start_offset == 0:
        return VALID
    if earliest is not None and (
        offset < log.start_offset
        or (offset == log.start_offset and last_fetched_epoch != earliest.epoch)
        or last_fetched_epoch < earliest.epoch
    ):
        return Verdict(snapshot=latest)
    end = _end_of_epoch(log, last_fetched_epoch)
    if end.epoch != last_fetched_epoch or end.offset < offset:
        return Verdict(diverging=end)
    return VALID


def truncation_point(log: LogView, diverging: LogPosition) -> Offset:
    """Where a replica must cut its log after the leader told it the end of the last epoch they may share.

    By epoch and never by high watermark (KIP-101, KIP-279); if the replica's own epoch ends earlier, the next fetch
    names that earlier epoch and the leader answers again.
    """
    if diverging.epoch == 0:
        return min(diverging.offset, log.durable_end)
    mine = _end_of_epoch(log, diverging.epoch)
    return min(mine.offset, diverging.offset) if mine.epoch == diverging.epoch else mine.offset


def _end_of_epoch(log: LogView, epoch: Epoch) -> LogPosition:
    end, earliest = log.end_of_epoch(epoch), log.earliest_snapshot
    if earliest is not None and end.epoch == epoch and end.offset == earliest.offset:
        return earliest  # what lies before the log's start is known by the snapshot's epoch
    return end
