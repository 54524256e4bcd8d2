"""What became of records that were to be read and are no longer there. Gaps of compaction and markers are no loss."""

from __future__ import annotations

import logging
from enum import Enum

from highwater.model import TopicPartition

_log = logging.getLogger(__name__)


class Kind(Enum):
    DELETED = "the topic or the partition was deleted"
    RECREATED = "the topic was deleted and created again under the same name"
    TRUNCATED = "the log was cut back by an unclean leader election"
    EXPIRED = "retention or DeleteRecords removed them before they were read"


class DataLoss(Exception):
    """Offsets [start, end) of a partition cannot be read any more. The bounds are as exact as can be known."""

    def __init__(self, kind: Kind, partition: TopicPartition, start: int, end: int, detail: str) -> None:
        super().__init__(kind, partition, start, end, detail)
        self.kind = kind
        self.partition = partition
        self.start = start
        self.end = end
        self.detail = detail

    def __str__(self) -> str:
        return (
            f"data loss ({self.kind.name}) in {self.partition}, offsets {self.start} to {self.end}: "
            f"{self.kind.value}; {self.detail}. With failOnDataLoss=false the query goes on with what is left"
        )


class Losses:
    """Raises a loss, or warns of it once where the reader may go on."""

    def __init__(self, fail: bool, accepted: list[DataLoss] | None = None) -> None:
        """`accepted` gets those with which the reader went on."""
        self._fail = fail
        self._accepted = accepted
        self._warned: dict[str, None] = {}

    def report(self, loss: DataLoss) -> None:
        if self._fail:
            raise loss
        if self._accepted is not None:
            self._accepted.append(loss)
        said = str(loss)
        if said not in self._warned:
            self._warned[said] = None
            _log.warning("%s", said)


def deleted(partition: TopicPartition, start: int) -> DataLoss:
    return DataLoss(Kind.DELETED, partition, start, start, "it is not in the cluster's metadata")


def recreated(partition: TopicPartition, start: int, end: int, was: str, is_now: str) -> DataLoss:
    return DataLoss(Kind.RECREATED, partition, start, end, f"its id was {was} and is {is_now} now")


def truncated(partition: TopicPartition, cut: int, end: int) -> DataLoss:
    return DataLoss(Kind.TRUNCATED, partition, cut, end, f"what was read before agrees with the log up to {cut} only")


def expired(partition: TopicPartition, start: int, log_start: int) -> DataLoss:
    return DataLoss(Kind.EXPIRED, partition, start, log_start, f"the log begins at {log_start} now")
