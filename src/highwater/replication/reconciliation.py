"""Where a follower's log and that of its leader part, and where the follower goes on. Pure."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from highwater.model import Epoch, Offset


class EpochHistory(Protocol):
    def end_of(self, epoch: Epoch, log_end: Offset) -> tuple[Epoch, Offset]: ...


def cut_for_divergence(history: EpochHistory, log_end: Offset, epoch: Epoch, leader_end: Offset) -> Offset:
    """Where to truncate when the leader says that its `epoch` ended at `leader_end` (KIP-101, KIP-279, KIP-595).

    By epoch, never by high watermark. If our own history has no such epoch, its largest smaller one decides and the
    next fetch asks again.
    """
    own_epoch, own_end = history.end_of(epoch, log_end)
    if own_epoch < 0:
        return min(leader_end, log_end)
    if own_epoch != epoch:
        return min(own_end, log_end)
    return min(own_end, leader_end, log_end)


def first_batch(log_start: Offset, log_end: Offset, base: Offset, last: Offset) -> Offset | None:
    """Where a log begins anew that is empty, and gets a batch around its end: at that batch's base. Records of it may
    be deleted at the leader; a batch is copied whole. None where the batch follows the log, or does not fit it."""
    return base if log_start == log_end and base < log_end <= last else None


class Reset(NamedTuple):
    """What to do first. Nothing: our end is within the leader's log by now, and the next fetch is from there."""

    is_damaged: bool = False
    truncate_to: Offset | None = None
    restart_at: Offset | None = None


def out_of_range(
    log_start: Offset, log_end: Offset, last_epoch: Epoch, leader_start: Offset, leader_end: Offset, leader_epoch: Epoch
) -> Reset:
    """Our end is beyond the leader's (an unclean election, KAFKA-7414): cut to it. All of our log is, or our end lies
    below its start: begin where the leader does. A last epoch above the leader's was never given by a controller: no
    checksum covers the one in a batch."""
    if last_epoch > leader_epoch:
        return Reset(is_damaged=True)
    if leader_end < log_start:
        return Reset(restart_at=leader_start)  # nothing of ours is in its log
    if leader_end < log_end:
        return Reset(truncate_to=leader_end)
    if leader_start > log_end:
        return Reset(restart_at=leader_start)
    return Reset()
