"""The rule of a commit, over random histories: crashes, repeats, lost answers, old checkpoints and two drivers."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater.model import TopicPartition
from highwater.pipeline.landing.position import Interval, Log, Lost, Position, Reach, between, reaches
from highwater.pipeline.landing.rule import CUT, Batch, Known, LandingError, Misfit, after
from highwater.pipeline.offsets import Position as Offset
from highwater.pipeline.offsets import Positions
from highwater.pipeline.ranges import OffsetRange

LOG = Log("orders", "an-id", 0)
OTHER = Log("orders", "an-id", 1)


@dataclass
class Driver:
    """What Spark would do: log where a batch ends, land it, log that it is done; and forget any of it."""

    query_id: str
    ends: list[dict[Log, int]]
    done: int = 0
    """So many batches are committed in the checkpoint."""

    def batch(self, latest: dict[Log, int]) -> Batch:
        if len(self.ends) == self.done + 1:
            self.ends.append(dict(latest))
        before, now = self.ends[self.done], self.ends[self.done + 1]
        found = tuple(Reach(log, before[log], now[log]) for log in sorted(now) if now[log] > before[log])
        return Batch("p", self.query_id, self.done + 1, found, bool(found), self.done > 0)


@dataclass
class World:
    latest: dict[Log, int] = field(default_factory=lambda: {LOG: 0, OTHER: 0})
    rows: Counter[tuple[Log, int]] = field(default_factory=Counter)
    known: Known = field(default_factory=Known)
    last: dict[str, int] = field(default_factory=dict)
    drivers: list[Driver] = field(default_factory=list)
    refused: int = 0

    def land(self, driver: Driver) -> bool:
        batch = driver.batch(self.latest)
        known = replace(self.known, last=self.last.get(batch.query_id, -1))
        try:
            new = after(known, batch)
        except LandingError:
            self.refused += 1
            return False
        if new is not None:
            self.known, self.last[batch.query_id] = new, new.last
            for reach in batch.reaches or ():
                self.rows.update((reach.log, offset) for offset in range(reach.start, reach.end))
        return True


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("produce"), st.sampled_from([LOG, OTHER]), st.integers(1, 5)),
        st.tuples(st.just("batch"), st.integers(0, 2), st.sampled_from(["done", "answer lost", "planned"])),
        st.tuples(st.just("forget"), st.integers(0, 2), st.integers(1, 4)),
        st.tuples(st.just("copy"), st.integers(0, 2), st.just(0)),
        st.tuples(st.just("start"), st.sampled_from(["beginning", "table"]), st.just(0)),
    ),
    max_size=60,
)


@given(STEPS)
def test_a_row_is_in_the_table_once_and_the_position_says_which(steps: list[tuple[str, object, int]]) -> None:
    world = World(drivers=[Driver("q0", [{LOG: 0, OTHER: 0}])])
    for step, (what, which, how) in enumerate(steps):
        driver = world.drivers[which % len(world.drivers)] if isinstance(which, int) else world.drivers[0]
        if what == "produce" and isinstance(which, Log):
            world.latest[which] += how
        elif what == "batch":
            if how == "planned":  # type: ignore[comparison-overlap]
                driver.batch(world.latest)
            elif world.land(driver) and how == "done":  # type: ignore[comparison-overlap]
                driver.done += 1
        elif what == "forget":
            # A loss of power, or an old copy of the checkpoint: the last entries of its logs are gone.
            driver.done = max(0, driver.done - how)
            del driver.ends[driver.done + 1 :]
        elif what == "copy":
            world.drivers.append(Driver(driver.query_id, [dict(end) for end in driver.ends], driver.done))
        elif what == "start":
            begin = dict.fromkeys((LOG, OTHER), 0)
            if which == "table" and world.known.position is not None:
                begin |= {log: intervals[-1].end for log, intervals in world.known.position.at.items()}
            world.drivers.append(Driver(f"q{step + 1}", [begin]))
        position = world.known.position or Position()
        says = {(log, at) for log, [interval] in position.at.items() for at in range(interval.begin, interval.end)}
        assert world.rows == Counter(says), "nothing twice, and nothing that the position does not say"
        assert all(interval.begin == 0 for [interval] in position.at.values()), "nothing is left out"


def test_a_query_that_begins_at_the_tables_end_lands_the_rest() -> None:
    known = after(Known(), Batch("p", "q", 1, (Reach(LOG, 0, 10),)))
    assert known is not None
    assert known.position is not None
    known = after(known, Batch("p", "r", 1, (Reach(LOG, 10, 30), Reach(OTHER, 0, 5))))
    assert known is not None
    assert known.position == Position(2, {"q": 1, "r": 2}, {LOG: (Interval(0, 30),), OTHER: (Interval(0, 5),)})


def test_a_batch_of_which_the_table_has_a_part_does_not_fit() -> None:
    known = Known(1, Position(1, {"q": 1}, {LOG: (Interval(0, 10),)}))
    for reach in ((Reach(LOG, 0, 10), Reach(OTHER, 0, 5)), (Reach(LOG, 5, 15),), (Reach(LOG, 11, 15),)):
        with pytest.raises(Misfit):
            after(known, Batch("p", "q", 2, reach))


def test_records_of_a_log_that_was_cut_and_written_anew_are_not_those_that_the_table_has() -> None:
    known = Known(1, Position(1, {"q": 1}, {LOG: (Interval(0, 100, 3),)}))
    with pytest.raises(Misfit):
        after(known, Batch("p", "q", 2, (Reach(LOG, 50, 80, 5, 5),)))
    cut = Batch("p", "q", 2, (Reach(LOG, 50, 80, 5, 3, is_cut=True),))
    moved = after(known, cut)
    assert moved is not None
    assert moved.position is not None
    assert moved.position.at == {LOG: (Interval(0, 80, 5),)}
    assert moved.position.lost == {LOG: (Lost(50, 100, CUT),)}
    assert after(moved, cut) is None, "the same batch again, after the cut was landed"
    further = after(moved, Batch("p", "q", 3, (Reach(LOG, 80, 120, 5, 5),)))
    assert further is not None
    assert after(further, cut) is None, "and again, after a later batch: the position does not move back"


def test_a_cut_with_nothing_behind_it_yet_moves_the_position_back() -> None:
    known = Known(1, Position(1, {"q": 1}, {LOG: (Interval(0, 100, 3),)}))
    cut = Batch("p", "q", 2, (Reach(LOG, 50, 50, 3, 3, is_cut=True),), has_rows=False)
    moved = after(known, cut)
    assert moved is not None
    assert moved.position is not None
    assert moved.position.at == {LOG: (Interval(0, 50, 3),)}
    assert after(moved, cut) is None
    further = after(moved, Batch("p", "q", 3, (Reach(LOG, 50, 80, 5, 3),)))
    assert further is not None
    assert further.position is not None
    assert further.position.at == {LOG: (Interval(0, 80, 5),)}


def test_the_ranges_read_by_tasks_are_joined_by_partition() -> None:
    parts = [
        OffsetRange("orders", "an-id", 0, 5, 9, end_epoch=4),
        OffsetRange("orders", "an-id", 1, 0, 3),
        OffsetRange("orders", "an-id", 0, 0, 5, leader_epoch=2),
    ]
    assert reaches(parts) == (Reach(LOG, 0, 9, 4, 2), Reach(OTHER, 0, 3))
    with pytest.raises(ValueError, match="not all were read"):
        reaches([parts[2], OffsetRange("orders", "an-id", 0, 6, 9)])


def test_the_ranges_of_a_batch_are_found_in_sparks_offset_log() -> None:
    def at(topic_id: str, *offsets: tuple[int, int]) -> Positions:
        by_partition = {TopicPartition("orders", index): Offset(*offset) for index, offset in enumerate(offsets)}
        return Positions({"orders": topic_id}, by_partition)

    begin = at("an-id", (0, 0))
    assert between(None, begin) == (), "the first batch only says where to begin"
    assert between(begin, at("an-id", (10, 1), (5, 0))) == (Reach(LOG, 0, 10, 1, 0), Reach(OTHER, 0, 5, 0))
    assert between(at("an-id", (10, 1)), at("an-id", (10, 1))) == ()
    assert between(at("an-id", (10, 1)), at("an-id", (4, 2))) == (Reach(LOG, 4, 4, 2, 1, is_cut=True),)
    anew = Log("orders", "a-later-id", 0)
    assert between(at("an-id", (10, 1)), at("a-later-id", (4, 0))) == (Reach(anew, 0, 4, 0),)
