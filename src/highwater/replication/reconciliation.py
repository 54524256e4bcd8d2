"""Where a follower's log and its leader's log diverge, and where the follower continues. Pure."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from highwater.model import Epoch, Offset


class EpochHistory(Protocol):
    def end_of(self, epoch: Epoch, log_end: Offset) -> tuple[Epoch, Offset]: ...


def cut_for_divergence(history: EpochHistory, log_end: Offset, epoch: Epoch, leader_end: Offset) -> Offset:
    """Where to truncate when the leader says that its `epoch` ended at `leader_end` (KIP-101, KIP-279, KIP-595).

    The epochs decide, never the high watermark. If our own history does not have this epoch, its largest smaller epoch
    decides, and the next fetch asks again.
    """
    own_epoch, own_end = history.end_of(epoch, log_end)
    if own_epoch < 0:
        return min(leader_end, log_end)
    if own_epoch != epoch:
        return min(own_end, log_end)
    return min(own_end, leader_end, log_end)


def first_batch(log_start: Offset, log_end: Offset, base: Offset, last: Offset) -> Offset | None:
    """Where an empty log has to restart if its end lies inside the first fetched batch: at the base offset of that
    batch. A batch is copied whole, even if the leader has deleted some of its records. None if the batch begins at the
    log end or does not contain it."""
    return base if log_start == log_end and base < log_end <= last else None


class Reset(NamedTuple):
    """What to do before the next fetch. If no field is set, our log end is within the leader's log by now: fetch from
    there."""

    is_damaged: bool = False
    truncate_to: Offset | None = None
    restart_at: Offset | None = None


def out_of_range(
    log_start: Offset, log_end: Offset, last_epoch: Epoch, leader_start: Offset, leader_end: Offset, leader_epoch: Epoch
) -> Reset:
    """What to do after the leader said OFFSET_OUT_OF_RANGE.

    If our end is beyond the leader's end (an unclean election, KAFKA-7414), cut to the leader's end. If our whole log
    is beyond it, or our end is below the leader's start, begin again at the leader's start. If our last epoch is above
    the leader's, no controller has given it out and the log is damaged: no checksum covers the epoch of a batch.
    """
    if last_epoch > leader_epoch:
        return Reset(is_damaged=True)
    if leader_end < log_start:
        return Reset(restart_at=leader_start)  # nothing of ours is in its log
    if leader_end < log_end:
        return Reset(truncate_to=leader_end)
    if leader_start > log_end:
        return Reset(restart_at=leader_start)
    return Reset()
