"""How much one micro-batch reads, and how it is cut into tasks. Numbers in, numbers out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from highwater.model import TopicPartition
from highwater.pipeline.ranges import NO_EPOCH, OffsetRange

SMALL_TASK = 10_000
"""Offsets below which ranges share a task: starting a Python task costs as much as reading so many records."""

Offsets = Mapping[TopicPartition, int]


def backlog(starts: Offsets, ends: Offsets) -> int:
    return sum(max(0, end - starts[partition]) for partition, end in ends.items())


def limited(starts: Offsets, ends: Offsets, limit: int) -> dict[TopicPartition, int]:
    """Ends nearer to the starts, so that at most `limit` offsets lie between, in proportion to each backlog.

    Whoever has a backlog gets at least one offset, or partitions with little would wait for ever: where more
    partitions than `limit` have one, the limit gives way.
    """
    waiting = {partition: end - starts[partition] for partition, end in ends.items() if end > starts[partition]}
    total = sum(waiting.values())
    if total <= limit:
        return dict(ends)
    shares = {partition: max(1, limit * size // total) for partition, size in waiting.items()}
    excess = sum(shares.values()) - limit
    for partition in sorted(shares, key=lambda each: (-shares[each], each)):
        given_back = min(max(excess, 0), shares[partition] - 1)
        shares[partition] -= given_back
        excess -= given_back
    for partition in sorted(shares, key=lambda each: (-waiting[each], each)):
        if excess >= 0:
            break
        more = min(-excess, waiting[partition] - shares[partition])
        shares[partition] += more
        excess += more
    return {
        partition: starts[partition] + shares[partition] if partition in shares else end
        for partition, end in ends.items()
    }


def tasks(
    ranges: Sequence[OffsetRange], min_partitions: int | None, max_records: int | None
) -> list[tuple[OffsetRange, ...]]:
    """What each task reads: every offset once, and a partition's offsets in order unless a limit cuts it up."""
    cut = [range_ for range_ in ranges if range_.size > 0]
    if max_records is not None:
        cut = [part for range_ in cut for part in _parts(range_, -(-range_.size // max_records))]
    if min_partitions is not None and min_partitions > len(cut):
        cut = _cut_to(cut, min_partitions)
    fill = SMALL_TASK if max_records is None else min(SMALL_TASK, max_records)
    return _packed(cut, fill, min_partitions or 1)


def _cut_to(ranges: list[OffsetRange], wanted: int) -> list[OffsetRange]:
    """About `wanted` ranges, by cutting the large ones; those that hold less than their share stay whole."""
    total = sum(range_.size for range_ in ranges)
    whole = [range_ for range_ in ranges if _share(range_.size, total, wanted) == 1]
    rest = total - sum(range_.size for range_ in whole)
    left = max(wanted - len(whole), 1)
    kept = dict.fromkeys(whole)
    return [
        part
        for range_ in ranges
        for part in ([range_] if range_ in kept else _parts(range_, _share(range_.size, rest, left)))
    ]


def _share(size: int, total: int, wanted: int) -> int:
    return max(1, round(size * wanted / total))


def _parts(range_: OffsetRange, count: int) -> list[OffsetRange]:
    count = min(count, range_.size)
    bounds = [range_.start + range_.size * step // count for step in range(count + 1)]
    # Of the records at the cuts between no epoch is known yet.
    return [
        replace(
            range_,
            start=start,
            end=end,
            leader_epoch=range_.leader_epoch if start == range_.start else NO_EPOCH,
            end_epoch=range_.end_epoch if end == range_.end else NO_EPOCH,
        )
        for start, end in pairwise(bounds)
    ]


def _packed(ranges: list[OffsetRange], fill: int, at_least: int) -> list[tuple[OffsetRange, ...]]:
    """Neighbours share a task until it holds `fill` offsets, while `at_least` tasks are left."""
    packs: list[list[OffsetRange]] = []
    held = 0
    for index, range_ in enumerate(ranges):
        unpacked = len(ranges) - index
        if packs and held + range_.size <= fill and len(packs) + unpacked > at_least:
            packs[-1].append(range_)
            held += range_.size
        else:
            packs.append([range_])
            held = range_.size
    return [tuple(pack) for pack in packs]
