"""The checks of a leader before it counts or answers a fetch, in Kafka's order. Each raises KafkaError. Pure."""

from __future__ import annotations

from highwater.errors import Code, KafkaError
from highwater.model import Epoch, Offset
from highwater.replication.reconciliation import EpochHistory


def check_epoch(believed: Epoch, epoch: Epoch) -> None:
    """Compare the leader epoch that a client or follower believes in with ours; -1 is not checked (KIP-320)."""
    if believed >= 0 and believed != epoch:
        raise KafkaError(Code.FENCED_LEADER_EPOCH if believed < epoch else Code.UNKNOWN_LEADER_EPOCH)


def divergence(
    history: EpochHistory, log_start: Offset, log_end: Offset, offset: Offset, last_epoch: Epoch
) -> tuple[Epoch, Offset] | None:
    """Where a reader's log diverges from ours; None if it does not (KIP-595). The reader has everything below `offset`,
    and `last_epoch` is the epoch of its last record."""
    if last_epoch < 0:
        return None
    epoch, end = history.end_of(last_epoch, log_end)
    if epoch < 0:
        raise KafkaError(Code.OFFSET_OUT_OF_RANGE, f"epoch {last_epoch} is not known here")
    if offset < log_start:
        raise KafkaError(Code.OFFSET_OUT_OF_RANGE, f"offset {offset} is below {log_start}")
    return (epoch, end) if epoch < last_epoch or end < offset else None


def check_range(log_start: Offset, log_end: Offset, offset: Offset) -> None:
    """A fetch outside of our log acknowledges nothing."""
    if not log_start <= offset <= log_end:
        raise KafkaError(Code.OFFSET_OUT_OF_RANGE, f"offset {offset} is not in [{log_start}, {log_end}]")
