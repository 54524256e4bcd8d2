"""Judging a history. Each class is one of Jepsen's for its Kafka workload, in plain words."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, fields

from highwater.audit.history import History, Outcome, Sent
from highwater.model import TopicPartition


@dataclass(slots=True)
class Verdict:
    acked: int = 0
    delivered: int = 0
    """Acknowledged values that were read."""
    lost: list[Sent] = field(default_factory=list)
    """Acknowledged, and not where a reader went past their place or read to the end."""
    duplicated: list[tuple[bytes, list[tuple[TopicPartition, int]]]] = field(default_factory=list)
    """One value at several offsets."""
    reordered: list[tuple[Sent, Sent]] = field(default_factory=list)
    """Two sends of one producer to one partition that lie in the wrong order."""
    inconsistent: list[tuple[TopicPartition, int, list[bytes]]] = field(default_factory=list)
    """One offset that gave different values."""
    resurrected: list[Sent] = field(default_factory=list)
    """Read, though the broker had refused them."""
    foreign: list[tuple[TopicPartition, int, bytes]] = field(default_factory=list)
    """Read, though nobody sent them."""
    misplaced: list[Sent] = field(default_factory=list)
    """Read at another offset than the acknowledgement named."""

    @property
    def ok(self) -> bool:
        return not any(getattr(self, each.name) for each in fields(self) if each.name not in ("acked", "delivered"))

    @property
    def counts(self) -> dict[str, int]:
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: value if isinstance(value, int) else len(value) for name, value in values.items()}

    def line(self) -> str:
        """The last line of a run, for machines."""
        return (
            f"verdict acked={self.acked} delivered={self.delivered} "
            f"lost={len(self.lost)} duplicated={len(self.duplicated)}"
        )


def judge(history: History) -> Verdict:
    verdict = Verdict()
    places: dict[bytes, dict[tuple[TopicPartition, int], None]] = defaultdict(dict)
    values: dict[tuple[TopicPartition, int], dict[bytes, None]] = defaultdict(dict)
    furthest: dict[TopicPartition, int] = {}
    for read in history.reads:
        places[read.value][read.partition, read.offset] = None
        values[read.partition, read.offset][read.value] = None
        furthest[read.partition] = max(furthest.get(read.partition, -1), read.offset)
    _judge_reads(history, verdict, places, values)
    for sent in history.sends:
        seen = places.get(sent.value)
        if sent.outcome is Outcome.FAILED and seen:
            verdict.resurrected.append(sent)
        if sent.outcome is not Outcome.ACKED:
            continue
        verdict.acked += 1
        if seen:
            verdict.delivered += 1
            if sent.offset >= 0 and (sent.partition, sent.offset) not in seen:
                verdict.misplaced.append(sent)
        elif _should_be_there(history, sent, furthest):
            verdict.lost.append(sent)
    _judge_order(history, verdict, places)
    return verdict


def _judge_reads(
    history: History,
    verdict: Verdict,
    places: dict[bytes, dict[tuple[TopicPartition, int], None]],
    values: dict[tuple[TopicPartition, int], dict[bytes, None]],
) -> None:
    known = {sent.value for sent in history.sends}
    for value, at in places.items():
        if len(at) > 1:
            verdict.duplicated.append((value, sorted(at)))
        if value not in known:
            verdict.foreign += [(partition, offset, value) for partition, offset in sorted(at)]
    for (partition, offset), different in values.items():
        if len(different) > 1:
            verdict.inconsistent.append((partition, offset, sorted(different)))


def _should_be_there(history: History, sent: Sent, furthest: dict[TopicPartition, int]) -> bool:
    if history.complete is None or sent.partition in history.complete:
        return True
    return 0 <= sent.offset < furthest.get(sent.partition, -1)


def _judge_order(
    history: History, verdict: Verdict, places: dict[bytes, dict[tuple[TopicPartition, int], None]]
) -> None:
    """Only what was acknowledged is ordered: an unknown send may land late, by a retry."""
    last: dict[tuple[str, TopicPartition], tuple[int, Sent]] = {}
    for sent in history.sends:
        offsets = [offset for partition, offset in places.get(sent.value, ()) if partition == sent.partition]
        if sent.outcome is not Outcome.ACKED or not offsets:
            continue
        key = (sent.producer, sent.partition)
        before = last.get(key)
        if before is not None and min(offsets) < before[0]:
            verdict.reordered.append((before[1], sent))
        else:
            last[key] = (min(offsets), sent)
