"""The verdict on a history: what is wrong with it. The classes are those of Jepsen's Kafka workload, in plain words."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from highwater.audit.history import Sent
from highwater.model import TopicPartition


@dataclass(slots=True)
class Verdict:
    """Each class is a list of its cases. `ok` means that each acknowledged record was read, once and in order."""

    acked: int = 0
    delivered: int = 0
    """Acknowledged values that were read."""
    lost: list[Sent] = field(default_factory=list)
    """Acknowledged, but not found by a reader that went past the record's place or read to the end."""
    duplicated: list[tuple[bytes, list[tuple[TopicPartition, int]]]] = field(default_factory=list)
    """One value at several offsets."""
    reordered: list[tuple[Sent, Sent]] = field(default_factory=list)
    """Two sends of one producer to one partition whose records are in the wrong order."""
    inconsistent: list[tuple[TopicPartition, int, list[bytes]]] = field(default_factory=list)
    """One offset that gave different values."""
    resurrected: list[Sent] = field(default_factory=list)
    """Read, although the broker had refused them."""
    foreign: list[tuple[TopicPartition, int, bytes]] = field(default_factory=list)
    """Read, although no producer sent them."""
    misplaced: list[Sent] = field(default_factory=list)
    """Read at another place than the acknowledgement named."""
    unseen: list[Sent] = field(default_factory=list)
    """Acknowledged, but no reader has come that far: neither a loss nor its absence is proved."""
    by_partition: dict[TopicPartition, dict[str, int]] = field(default_factory=dict)
    """The same counts for each partition that was written or read, sorted. A case counts in the partition where it was
    found."""

    def add(self, part: Verdict) -> None:
        """Of another part of the same history."""
        self.acked += part.acked
        self.delivered += part.delivered
        for name in CLASSES:
            getattr(self, name).extend(getattr(part, name))
        for partition, counts in part.by_partition.items():
            mine = self.by_partition.setdefault(partition, dict.fromkeys(counts, 0))
            for name, count in counts.items():
                mine[name] += count
        self.by_partition = dict(sorted(self.by_partition.items()))

    @property
    def ok(self) -> bool:
        return not any(self.counts[name] for name in CLASSES)

    @property
    def counts(self) -> dict[str, int]:
        cases = {name: len(getattr(self, name)) for name in CLASSES}
        return {"acked": self.acked, "delivered": self.delivered, **cases}

    def line(self) -> str:
        """The last line of a run, for machines."""
        return (
            f"verdict acked={self.acked} delivered={self.delivered} "
            f"lost={len(self.lost)} duplicated={len(self.duplicated)}"
        )


CLASSES = tuple(each.name for each in fields(Verdict) if each.name not in ("acked", "delivered", "by_partition"))
"""The names of the classes, as fields of a Verdict."""
