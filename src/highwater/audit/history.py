"""What clients saw: every send with its outcome, every record read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from highwater.model import TopicPartition


class Outcome(Enum):
    ACKED = "acked"
    FAILED = "failed"
    """The broker said no: it must never be read."""
    UNKNOWN = "unknown"
    """No answer: it may be there or not."""


class Sent(NamedTuple):
    """Values are unique in the whole run. So a value that is read twice was written twice."""

    partition: TopicPartition
    value: bytes
    producer: str
    outcome: Outcome
    offset: int = -1


class Read(NamedTuple):
    partition: TopicPartition
    offset: int
    value: bytes


@dataclass(slots=True)
class History:
    """Sends are in the order in which each producer made them. Reads of any number of readers are in any order."""

    sends: list[Sent] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    complete: frozenset[TopicPartition] | None = None
    """Partitions that were read to their end after the last send; None means all."""
    reached: Mapping[TopicPartition, int] = field(default_factory=dict)
    """Offsets that readers are known to have reached, besides those in `reads`. All records before them had time to
    arrive."""
