"""Properties of a follower that hold after every input of a random history: whatever it and its leader had written
before, it keeps what both have, and ends with the leader's log."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import NamedTuple

import pytest

from highwater.errors import Code, KafkaError
from highwater.log.epoch_cache import EpochCache
from highwater.replication.follower import NOTHING, Ends, Follower, Ready, Row, State
from highwater.replication.serving import check_range, divergence

LONGEST_PAUSE = 0.5
ENOUGH = 60
"""Fetches after which two logs are equal, however they were."""


class Batch(NamedTuple):
    base_offset: int
    last_offset: int
    leader_epoch: int


class Log:
    def __init__(self, batches: list[Batch]) -> None:
        self.batches = batches
        self.start = 0
        self.end = batches[-1].last_offset + 1 if batches else 0
        self.high_watermark = 0
        self.epochs = EpochCache()
        for batch in batches:
            self.epochs.follow(batch.leader_epoch, batch.base_offset)

    @property
    def ends(self) -> Ends:
        return Ends(self.start, self.end)

    def append(self, batch: Batch) -> None:
        assert batch.base_offset >= self.end, "a batch lies where another is"
        self.batches.append(batch)
        self.end = batch.last_offset + 1
        self.epochs.follow(batch.leader_epoch, batch.base_offset)

    def cut(self, offset: int) -> None:
        """Whole batches go, and the log never ends before it begins."""
        gone = [batch for batch in self.batches if batch.last_offset >= offset]
        self.batches = self.batches[: len(self.batches) - len(gone)]
        self.end = max(gone[0].base_offset if gone else min(offset, self.end), self.start)
        self.high_watermark = min(self.high_watermark, self.end)
        self.epochs.truncate_end(self.end)

    def begin_anew(self, offset: int, batches: list[Batch]) -> None:
        start = self.start if batches else offset
        self.batches, self.epochs = [], EpochCache()
        self.start = self.end = self.high_watermark = offset
        for batch in batches:
            self.append(batch)
        if batches:
            self.raise_start(min(start, self.end))

    def raise_start(self, offset: int) -> None:
        self.start = max(self.start, offset)
        self.high_watermark = max(self.high_watermark, self.start)
        self.batches = [batch for batch in self.batches if batch.last_offset >= self.start]
        self.epochs.truncate_start(self.start)


class History:
    """A follower of the latest epoch. Each epoch has one leader, so two logs are equal up to any batch that they have
    of one epoch at one offset."""

    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        self.epoch = 9
        common = self.batches_from(0, [0, 1, 2], random.randint(0, 6))
        at, last = _end(common)
        ours, theirs = [e for e in (3, 4, 5, 6, 7) if e > last], []
        theirs = [ours.pop(random.randrange(len(ours))) for _ in range(random.randint(0, len(ours)))]
        self.log = Log([*common, *self.batches_from(at, ours, random.randint(0, 5))])
        self.leader = Log([*common, *self.batches_from(at, sorted(theirs), random.randint(0, 5))])
        self.common = at
        self.leader.epochs.assign(self.epoch, self.leader.end)
        self.leader.high_watermark = random.randint(0, min(at, self.leader.end))
        is_unclean = random.random() < 0.3  # the leader was elected without what the follower had committed
        self.log.high_watermark = random.randint(0, self.log.end if is_unclean else self.leader.high_watermark)
        if random.random() < 0.3:
            self.log.raise_start(random.randint(0, self.log.high_watermark))
        if random.random() < 0.3:
            self.leader.raise_start(random.randint(0, self.leader.high_watermark))
        self.may_delete = random.random() < 0.3
        self.trouble = random.choice((0.05, 0.8))
        """How often a leader answers with an error."""
        self.follower = Follower(self.epoch, LONGEST_PAUSE)
        self.made = 0
        self.in_flight: list[tuple[int, Row]] = []
        self.cutting: tuple[Ready, Row] | None = None
        """Under way."""

    def batches_from(self, offset: int, epochs: list[int], count: int) -> list[Batch]:
        batches = []
        drawn = sorted(self.random.choice(epochs) for _ in range(count)) if epochs else []
        for epoch in drawn:
            last = offset + self.random.randint(0, 2)
            batches.append(Batch(offset, last, epoch))
            offset = last + 1
        return batches

    # The leader

    def answer(self, offset: int, last_epoch: int) -> Row:
        log = self.leader
        try:
            diverging = divergence(log.epochs, log.start, log.end, offset, last_epoch)
            if diverging is None:
                check_range(log.start, log.end, offset)
        except KafkaError as refused:
            return Row(refused.code)
        if diverging is not None:
            return Row(Code.NONE, log.high_watermark, log.start, diverging)
        batches = [batch for batch in log.batches if batch.last_offset >= offset]
        some = batches[: self.random.randint(1, 3)]
        return Row(Code.NONE, log.high_watermark, log.start, None, some, bool(some))

    def lead(self) -> None:
        """It writes, commits and deletes."""
        log = self.leader
        if self.random.random() < 0.4:
            log.append(Batch(log.end, log.end + self.random.randint(0, 2), self.epoch))
        if self.random.random() < 0.4:
            log.high_watermark = self.random.randint(log.high_watermark, log.end)
        if self.may_delete and self.random.random() < 0.2:
            log.raise_start(self.random.randint(log.start, log.high_watermark))

    # The follower

    def fetch(self) -> None:
        """Another may be on its way: it is overtaken."""
        if not self.follower.fetches or (self.in_flight and not self.follower.is_moved) or len(self.in_flight) > 1:
            return
        self.made += 1
        self.follower.asked(self.made)
        self.in_flight.append((self.made, self.answer(self.log.end, self.log.epochs.latest)))

    def take(self) -> None:
        if not self.in_flight:
            return
        number, row = self.in_flight.pop(0)
        if self.random.random() < self.trouble:
            row = Row(self.random.choice((Code.NOT_LEADER_OR_FOLLOWER, Code.KAFKA_STORAGE_ERROR)))
        follower, log = self.follower, self.log
        is_about_our_place = follower.fetches and not follower.is_moved and follower.asked_last == number
        before = log.ends
        ready = follower.answered(number, row, before, log.high_watermark, log.epochs)
        if not is_about_our_place:
            assert ready._replace(leader_high_watermark=None, high_watermark=None) == NOTHING, (
                "it is about another place"
            )
            takes_row = follower.fetches and follower.asked_first is not None and follower.asked_first <= number
            takes_row = takes_row and row.code is Code.NONE and row.diverging is None
            assert (ready.leader_high_watermark is not None) is takes_row, "what is committed is reported only once"
        self.check(ready)
        if ready.takes:
            for at, batch in enumerate(row.batches[: ready.append]):
                if at and self.random.random() < 0.1:
                    self.check(follower.failed("an append failed"))
                    return
                log.append(Batch(*batch))  # type: ignore[misc]
            ready = follower.appended(row, before, log.ends, log.high_watermark)
            assert follower.is_moved or log.ends == before, "the leader must hear of the new place"
            self.check(ready)
        self.carry_out(ready, row)

    def carry_out(self, ready: Ready, row: Row) -> None:
        log, follower = self.log, self.follower
        if ready.truncate_to is not None or ready.restart_at is not None:
            assert self.cutting is None, "one truncation at a time"
            self.cutting = ready, row
        if ready.high_watermark is not None:
            log.high_watermark = ready.high_watermark
        if ready.log_start is not None:
            log.raise_start(ready.log_start)
        if ready.ask_ends:
            ends = self.leader.ends if self.random.random() < 0.9 else None
            found = follower.ends_found(ends, log.ends, log.epochs.latest)
            self.check(found)
            self.carry_out(found, Row())

    def cut(self) -> None:
        if self.cutting is None:
            return
        (ready, row), self.cutting = self.cutting, None
        batches = [Batch(*batch) for batch in row.batches[: ready.append]]  # type: ignore[misc]
        if ready.truncate_to is not None:
            self.log.cut(ready.truncate_to)
        elif ready.restart_at is not None:
            self.log.begin_anew(ready.restart_at, batches)
        if batches:
            assert self.follower.restarted(self.log.ends) == NOTHING
        else:
            self.follower.truncated()
        assert self.follower.fetches and self.follower.is_moved

    def restate(self) -> None:
        """Its log start was written down: it is named again, though a fetch may be on its way."""
        if self.follower.fetches:
            self.follower.is_moved = True

    # Properties

    def check(self, ready: Ready) -> None:
        log, follower = self.log, self.follower
        if not follower.fetches:
            assert not follower.is_moved, "it is named again once it fetches"
            assert follower.asked_last is None, "what is under way is no answer to what it asks next"
        if ready.truncate_to is not None:
            assert log.start <= ready.truncate_to <= log.end
            assert ready.truncate_to >= min(self.common, log.end), "both have that"
            assert follower.state is State.TRUNCATING
        if ready.restart_at is not None:
            assert follower.state is State.TRUNCATING
            assert ready.truncate_to is None
        if ready.append:
            assert ready.takes is not (ready.restart_at is not None)
        if ready.high_watermark is not None:
            assert log.high_watermark < ready.high_watermark <= log.end
            assert ready.high_watermark <= self.leader.high_watermark
        assert ready.keep_log_start is (ready.log_start is not None)
        if ready.log_start is not None:
            assert log.start < ready.log_start <= log.end
        if ready.pause is not None:
            assert 0 < ready.pause <= LONGEST_PAUSE
            assert follower.state is State.PAUSED

    def step(self) -> None:
        self.lead()
        self.random.choice((self.fetch, self.fetch, self.take, self.take, self.resume, self.restate, self.cut))()

    def resume(self) -> None:
        before = self.follower.state
        assert self.follower.resumed() is (before is State.PAUSED)
        assert self.follower.state is (State.FETCHING if before is State.PAUSED else before)
        assert before is not State.PAUSED or self.follower.is_moved

    def settle(self) -> None:
        self.trouble = 0.0
        for _ in range(ENOUGH):
            self.cut()
            self.resume()
            self.fetch()
            self.take()
        log, leader = self.log, self.leader
        assert log.end == leader.end
        start = max(log.start, leader.start)
        ours, theirs = ([batch for batch in each.batches if batch.last_offset >= start] for each in (log, leader))
        assert ours == theirs
        assert log.high_watermark == max(leader.high_watermark, log.start)
        assert all(one.last_offset < other.base_offset for one, other in pairwise(log.batches))


def _end(batches: list[Batch]) -> tuple[int, int]:
    """And the last epoch."""
    return (batches[-1].last_offset + 1, batches[-1].leader_epoch) if batches else (0, -1)


@pytest.mark.parametrize("block", range(20))
def test_a_follower_keeps_the_common_records_and_ends_with_its_leaders_log(block: int) -> None:
    for seed in range(block * 10, block * 10 + 10):
        history = History(seed)
        for _ in range(40):
            history.step()
        history.settle()


@pytest.mark.parametrize("seed", range(20))
def test_a_stopped_follower_ignores_every_input(seed: int) -> None:
    history = History(seed)
    for _ in range(10):
        history.step()
    follower, log = history.follower, history.log
    follower.stop()
    for number, row in [*history.in_flight, (history.made + 1, Row(batches=[Batch(log.end, log.end, 0)]))]:
        assert follower.answered(number, row, log.ends, log.high_watermark, log.epochs) == NOTHING
    assert follower.failed() == NOTHING
    assert follower.ends_found(log.ends, log.ends, 0) == NOTHING
    assert follower.restarted(log.ends) == NOTHING
    follower.truncated()
    follower.log_failed()
    assert not follower.resumed()
    assert (follower.state, follower.is_moved) == (State.STOPPED, False)
