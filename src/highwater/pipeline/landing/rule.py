"""Whether a batch fits what the table has: the rule of a commit, as a pure function.

A batch whose offsets the table has is passed over, one that begins where the table ends lands, and any other is an
error that names both: it is never landed, and never passed over in silence. Spark's batch number decides only where
there are no offsets to compare.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from highwater.pipeline.landing.position import Interval, Log, Lost, Position, Reach, Skip
from highwater.pipeline.ranges import NO_EPOCH

CUT = "the log was cut back by an unclean leader election; what had been landed of them is still in the table"
NEVER = -1
"""Spark counts batches from 0."""


class LandingError(Exception):
    """A batch that the table does not take, with what would have to change."""


class Misfit(LandingError):
    """A batch whose offsets do not follow on those of the table."""


class Fenced(LandingError):
    """A later start of the same pipeline has taken over the table."""


@dataclass(frozen=True, slots=True)
class Batch:
    """What a query brings."""

    landing_id: str
    """Whose position it moves: the pipeline's name, else the query's id."""
    query_id: str
    number: int
    """Spark's."""
    reaches: tuple[Reach, ...] | None = None
    """None: the source has no offsets that could be compared."""
    has_rows: bool = True
    has_past: bool = False
    """Whether batches of the query before this one had something to land."""
    placed: Mapping[Log, tuple[Interval, ...]] | None = None
    """No batch, but the word of a person: what the table has of these logs."""
    skipped: Mapping[Log, Skip] | None = None
    """No batch either: what a person has decided not to land."""
    lost: tuple[tuple[Log, Lost], ...] = ()
    """What of the offsets was no longer there, though the reader may go on."""

    def __str__(self) -> str:
        return f"batch {self.number} of query {self.query_id}"


@dataclass(frozen=True, slots=True)
class Known:
    """What a table remembers of a query and of its landing."""

    last: int = NEVER
    """The number of the query's last batch that has landed."""
    position: Position | None = None
    has_strangers: bool = False
    """The table has batches of other queries, and of none of them the offsets."""
    was_restored: bool = False
    """The table was put back to a version before the last batch."""


def after(known: Known, batch: Batch) -> Known | None:
    """What the table has to remember with the rows of the batch. None: it has the batch, or there is nothing in it."""
    if batch.placed is not None:
        return Known(batch.number, _moved(known.position or Position(), batch, batch.placed))
    if batch.skipped is not None:
        return Known(batch.number, _skipping(known, batch.skipped))
    if known.was_restored:
        raise LandingError(
            f"the table was put back to an earlier version since {batch.landing_id} landed last: it is unknown which "
            f"offsets it has now. Say where to go on with `highwater pipeline position --set`, or land in a new table"
        )
    if known.last == NEVER and (known.position is None or not known.position.drivers):
        _check_is_new(known, batch)
    if batch.reaches is None:
        return _by_number(known, batch)
    return _by_offsets(known, batch, batch.reaches)


def _check_is_new(known: Known, batch: Batch) -> None:
    if batch.has_past:
        raise LandingError(
            f"the table is new, the checkpoint is not: {batch} comes, and the table has no batch before it. Put the "
            "table back, or move the checkpoint away to land everything from the start"
        )
    if known.has_strangers and batch.landing_id != batch.query_id:
        raise LandingError(
            f"the table has batches whose offsets it does not know, by an earlier version of Highwater, and the "
            f"checkpoint is new: {batch.landing_id} would land their rows again. Put the old checkpoint back, or say "
            f"with `highwater pipeline position --set` what the table has"
        )


def _by_number(known: Known, batch: Batch) -> Known | None:
    """Spark tries the last batch again, never one before it. If it does, its checkpoint is older than the table."""
    if batch.number < known.last:
        raise LandingError(
            f"the table has batch {known.last} of query {batch.query_id}, and now comes batch {batch.number}: "
            f"the checkpoint is older than the table, or another driver runs the same query"
        )
    is_news = batch.number > known.last and (batch.has_rows or known.last == NEVER)
    return replace(known, last=batch.number) if is_news else None


def _by_offsets(known: Known, batch: Batch, reaches: Sequence[Reach]) -> Known | None:
    position = known.position or Position()
    if known.position is None and known.last != NEVER and _by_number(known, batch) is None:
        return None  # a table of an earlier version: numbers are all that it has until the first new commit
    if position.drivers.get(batch.query_id, position.driver) < position.driver:
        raise Fenced(
            f"{batch.landing_id} was started anew without this checkpoint, or its position was set by hand: this query "
            f"({batch.query_id}) no longer lands in the table. Stop the other one, or move this checkpoint away"
        )
    if batch.has_rows and not reaches:
        # Rows without new offsets, such as a window that closed by the clock: only the number distinguishes them.
        if _by_number(known, batch) is None:
            return None
        return Known(batch.number, _moved(position, batch, {}))
    moved = {reach.log: _reached(position.at.get(reach.log, ()), reach, batch) for reach in reaches}
    news = {log: intervals for log, intervals in moved.items() if intervals != position.at.get(log, ())}
    if news and len(news) < len(moved):
        odd = next(reach for reach in reaches if reach.log not in news)
        raise _misfit(position.at[odd.log], odd, batch)
    if not news and (reaches or batch.query_id in position.drivers):
        return None
    cut = [(reach.log, each) for reach in reaches if reach.log in news for each in _beyond(position, reach)]
    return Known(batch.number, _with_lost(_moved(position, batch, news), [*batch.lost, *cut]))


def _beyond(position: Position, reach: Reach) -> list[Lost]:
    """What the table has of a log beyond the place where it was cut: those records are in no log any more."""
    present = position.at.get(reach.log, ())
    if not reach.is_cut or not present or present[-1].end <= reach.start:
        return []
    return [Lost(reach.start, present[-1].end, CUT)]


def _with_lost(position: Position, found: Sequence[tuple[Log, Lost]]) -> Position:
    lost = dict(position.lost)
    for log, each in found:
        lost[log] = tuple(sorted({*lost.get(log, ()), each}))
    return replace(position, lost=lost)


def _moved(position: Position, batch: Batch, news: Mapping[Log, tuple[Interval, ...]]) -> Position:
    drivers = position.drivers
    if batch.query_id not in drivers:
        drivers = {**drivers, batch.query_id: position.driver + 1}
    return replace(position, seq=position.seq + 1, drivers=drivers, at={**position.at, **news})


def _skipping(known: Known, skipped: Mapping[Log, Skip]) -> Position:
    """The query that runs goes on: it is no new driver that passes over something."""
    if known.position is None and known.has_strangers:
        raise LandingError(
            "the table has batches whose offsets it does not know, by an earlier version of Highwater: nothing can be "
            "skipped before the first batch of this version has landed"
        )
    position = known.position or Position()
    for log, skip in skipped.items():
        if any(interval.begin <= skip.begin and skip.end <= interval.end for interval in position.at.get(log, ())):
            raise LandingError(f"the table has {log} beyond {skip.begin} already: there is nothing to skip")
    news = {log: tuple(sorted({*position.skipped.get(log, ()), skip})) for log, skip in skipped.items()}
    return replace(position, seq=position.seq + 1, skipped={**position.skipped, **news})


def _reached(present: tuple[Interval, ...], reach: Reach, batch: Batch) -> tuple[Interval, ...]:
    """The intervals with the batch; as they are where they hold it."""
    kept = _cut_back(present, reach) if reach.is_cut else present
    if any(_covers(interval, reach) for interval in kept):
        return kept
    if not kept:
        return (Interval(reach.start, reach.end, reach.epoch),)
    last = kept[-1]
    if reach.start != last.end:
        raise _misfit(present, reach, batch)
    return (*kept[:-1], Interval(last.begin, reach.end, reach.epoch))


def _covers(interval: Interval, reach: Reach) -> bool:
    """By the epoch, too: a log that was cut and written anew has other records at the same offsets."""
    is_known = NO_EPOCH not in (interval.epoch, reach.epoch)
    if is_known and reach.epoch > interval.epoch:
        return False
    return interval.begin <= reach.start and reach.end <= interval.end


def _cut_back(present: tuple[Interval, ...], reach: Reach) -> tuple[Interval, ...]:
    """Without what lay beyond the cut, unless the table has seen the log after the cut already."""
    if present and NO_EPOCH not in (present[-1].epoch, reach.epoch_before) and present[-1].epoch > reach.epoch_before:
        return present
    return tuple(
        interval._replace(end=min(interval.end, reach.start)) for interval in present if interval.begin < reach.start
    )


def _misfit(present: tuple[Interval, ...], reach: Reach, batch: Batch) -> Misfit:
    has = ", ".join(f"{interval.begin} to {interval.end}" for interval in present)
    return Misfit(
        f"{batch} brings the offsets {reach.start} to {reach.end} of {reach.log}, and the table has {has} of it by "
        f"{batch.landing_id}: the checkpoint is not the one that the table was landed with, or another driver runs the "
        f"same query. Nothing was landed. With the checkpoint moved away the pipeline goes on from the table's position"
    )
