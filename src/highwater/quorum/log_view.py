"""The metadata log as the quorum sees it: read-only, and only its durable part counts.

A follower's fetch offset is its acknowledgement, and the leader counts itself like any voter. So both may count only
what survives a power cut (KAFKA-10533). The quorum also knows whether there are unsynced records, because no fetch may
be sent before they are synced.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from highwater.model import Epoch, Offset


class LogPosition(NamedTuple):
    """An end offset (exclusive) and its epoch, in Raft's order of logs. It is also the id of a snapshot."""

    epoch: Epoch
    offset: Offset


BOOTSTRAP_SNAPSHOT = LogPosition(0, 0)
"""The checkpoint that formatting writes. It holds the first voters and no metadata, so no replica needs to fetch it."""


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
        """The epoch of the last durable record, or of the latest snapshot if the log is empty, or else 0."""
        ...

    @property
    def earliest_snapshot(self) -> LogPosition | None: ...

    @property
    def latest_snapshot(self) -> LogPosition | None: ...

    def end_of_epoch(self, epoch: Epoch) -> LogPosition:
        """The largest epoch in the durable log that is at most `epoch`, and its end.

        If `epoch` is below all epochs in the log, the result is `epoch` itself, with the start of the first known
        epoch. For an empty log, the result is its last epoch and its end.
        """
        ...


def durable_position(log: LogView) -> LogPosition:
    return LogPosition(log.last_epoch, log.durable_end)


class Verdict(NamedTuple):
    """The judgement of a replica's fetch position. If both fields are None, the replica has a prefix of this log and is
    served from there."""

    diverging: LogPosition | None = None
    snapshot: LogPosition | None = None


VALID = Verdict()


def judge_fetch(log: LogView, offset: Offset, last_fetched_epoch: Epoch) -> Verdict:
    """Whether a replica at this position has a prefix of this log, must truncate, or needs a snapshot."""
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
    """Where a replica must cut its log. `diverging` is the leader's answer: the last epoch that both may share, and its
    end in the leader's log.

    The epochs decide, never the high watermark (KIP-101, KIP-279). If the replica does not have this epoch, its next
    fetch names an earlier epoch, and the leader answers again.
    """
    if diverging.epoch == 0:
        return min(diverging.offset, log.durable_end)
    mine = _end_of_epoch(log, diverging.epoch)
    return min(mine.offset, diverging.offset) if mine.epoch == diverging.epoch else mine.offset


def _end_of_epoch(log: LogView, epoch: Epoch) -> LogPosition:
    end, earliest = log.end_of_epoch(epoch), log.earliest_snapshot
    if earliest is not None and end.epoch == epoch and end.offset == earliest.offset:
        return earliest  # the snapshot holds the epoch of the record before the log start
    return end
