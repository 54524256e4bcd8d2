"""Judges a history: one pass over the reads, one over the sends, and one over the order."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from highwater.audit.history import History, Outcome, Sent
from highwater.audit.verdict import CLASSES, Verdict
from highwater.model import TopicPartition

Place = tuple[TopicPartition, int]


class _Seen(NamedTuple):
    """The reads, arranged."""

    places: dict[bytes, dict[Place, None]]
    values: dict[Place, dict[bytes, None]]
    furthest: dict[TopicPartition, int]


Order = dict[tuple[str, TopicPartition], tuple[int, Sent]]
"""For each producer and partition: the last send that was in order, with its offset."""


def judge(history: History, order: Order | None = None) -> Verdict:
    """`order` is the state after an earlier part of the same history. It is continued here."""
    seen = _seen(history)
    verdict = Verdict()
    _judge_reads(history, verdict, seen)
    _judge_sends(history, verdict, seen)
    _judge_order(history, verdict, seen, {} if order is None else order)
    verdict.by_partition = _by_partition(history, verdict, seen)
    return verdict


def _seen(history: History) -> _Seen:
    seen = _Seen(defaultdict(dict), defaultdict(dict), {})
    for read in history.reads:
        seen.places[read.value][read.partition, read.offset] = None
        seen.values[read.partition, read.offset][read.value] = None
        seen.furthest[read.partition] = max(seen.furthest.get(read.partition, -1), read.offset)
    return seen


def _judge_reads(history: History, verdict: Verdict, seen: _Seen) -> None:
    known = {sent.value for sent in history.sends}
    for value, at in seen.places.items():
        if len(at) > 1:
            verdict.duplicated.append((value, sorted(at)))
        if value not in known:
            verdict.foreign += [(partition, offset, value) for partition, offset in sorted(at)]
    for (partition, offset), different in seen.values.items():
        if len(different) > 1:
            verdict.inconsistent.append((partition, offset, sorted(different)))


def _judge_sends(history: History, verdict: Verdict, seen: _Seen) -> None:
    for sent in history.sends:
        at = seen.places.get(sent.value)
        if sent.outcome is Outcome.FAILED and at:
            verdict.resurrected.append(sent)
        if sent.outcome is not Outcome.ACKED:
            continue
        verdict.acked += 1
        if at:
            verdict.delivered += 1
            if not _is_in_place(sent, at):
                verdict.misplaced.append(sent)
        elif _should_be_there(history, sent, seen):
            verdict.lost.append(sent)
        else:
            verdict.unseen.append(sent)


def _is_in_place(sent: Sent, at: dict[Place, None]) -> bool:
    """Read at the offset that the acknowledgement named. If it named none, read in the partition."""
    if sent.offset >= 0:
        return (sent.partition, sent.offset) in at
    return any(partition == sent.partition for partition, _ in at)


def _should_be_there(history: History, sent: Sent, seen: _Seen) -> bool:
    if history.complete is None or sent.partition in history.complete:
        return True
    return 0 <= sent.offset < max(seen.furthest.get(sent.partition, -1), history.reached.get(sent.partition, -1))


def _judge_order(history: History, verdict: Verdict, seen: _Seen, last: Order) -> None:
    """Only acknowledged sends must be in order: a send with an unknown result may be stored late, by a retry."""
    for sent in history.sends:
        offsets = [offset for partition, offset in seen.places.get(sent.value, ()) if partition == sent.partition]
        if sent.outcome is not Outcome.ACKED or not offsets:
            continue
        key = (sent.producer, sent.partition)
        before = last.get(key)
        if before is not None and min(offsets) < before[0]:
            verdict.reordered.append((before[1], sent))
        else:
            last[key] = (min(offsets), sent)


def _by_partition(history: History, verdict: Verdict, seen: _Seen) -> dict[TopicPartition, dict[str, int]]:
    partitions = sorted({sent.partition for sent in history.sends} | set(seen.furthest))
    counts = {partition: dict.fromkeys(("acked", "delivered", *CLASSES), 0) for partition in partitions}
    for sent in history.sends:
        if sent.outcome is Outcome.ACKED:
            counts[sent.partition]["acked"] += 1
            counts[sent.partition]["delivered"] += sent.value in seen.places
    for name in ("lost", "resurrected", "misplaced", "unseen"):
        for sent in getattr(verdict, name):
            counts[sent.partition][name] += 1
    for _, places in verdict.duplicated:
        for partition in sorted({partition for partition, _ in places}):
            counts[partition]["duplicated"] += 1
    for _, later in verdict.reordered:
        counts[later.partition]["reordered"] += 1
    for partition, _, _ in verdict.inconsistent:
        counts[partition]["inconsistent"] += 1
    for partition, _, _ in verdict.foreign:
        counts[partition]["foreign"] += 1
    return counts
