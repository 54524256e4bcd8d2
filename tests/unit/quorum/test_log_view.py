from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater.quorum import LogPosition
from highwater.quorum.log_view import VALID, Verdict, judge_fetch, truncation_point
from tests.unit.quorum.memory_log import Entry, MemoryLog


@pytest.mark.parametrize(
    ("offset", "epoch", "verdict"),
    [
        (0, 0, VALID),
        (3, 1, VALID),
        (2, 1, VALID),
        (5, 4, VALID),
        (6, 4, Verdict(diverging=LogPosition(4, 5))),
        (4, 1, Verdict(diverging=LogPosition(1, 3))),
        (4, 2, Verdict(diverging=LogPosition(1, 3))),
        (5, 3, Verdict(diverging=LogPosition(1, 3))),
        (2, 3, Verdict(diverging=LogPosition(1, 3))),
        (5, 9, Verdict(diverging=LogPosition(4, 5))),
        (2, 0, Verdict(diverging=LogPosition(0, 0))),
    ],
)
def test_a_fetch_is_judged_by_the_end_of_its_last_epoch(offset: int, epoch: int, verdict: Verdict) -> None:
    assert judge_fetch(MemoryLog.of_epochs(1, 1, 1, 4, 4), offset, epoch) == verdict


@pytest.mark.parametrize(
    ("offset", "epoch", "served"),
    [(0, 0, False), (2, 1, False), (3, 1, False), (3, 2, True), (4, 4, True), (4, 1, False)],
)
def test_a_fetch_below_the_log_start_is_answered_with_the_snapshot(offset: int, epoch: int, served: bool) -> None:
    log = MemoryLog.of_epochs(1, 1, 2, 4, 4, start=3)
    assert judge_fetch(log, offset, epoch) == (VALID if served else Verdict(snapshot=LogPosition(2, 3)))


class WithSnapshot(MemoryLog):
    """That still has all from the beginning."""

    latest_snapshot = LogPosition(1, 3)


def test_an_empty_replica_gets_the_snapshot_though_the_log_begins_at_zero() -> None:
    log = WithSnapshot.of_epochs(1, 1, 1, 4, 4)
    assert judge_fetch(log, 0, 0) == Verdict(snapshot=LogPosition(1, 3))
    assert judge_fetch(log, 3, 1) == VALID


def test_an_epoch_that_ended_at_the_start_of_the_log_is_known_by_the_snapshot() -> None:
    log = MemoryLog.of_epochs(1, 1, 2, 4, 4, start=3)
    assert judge_fetch(log, 5, 3) == Verdict(diverging=LogPosition(2, 3))


def test_an_empty_log_behind_a_snapshot_serves_a_replica_at_its_end() -> None:
    log = MemoryLog.of_epochs(1, 2, start=2)
    assert judge_fetch(log, 2, 2) == VALID
    assert judge_fetch(log, 3, 2) == Verdict(diverging=LogPosition(2, 2))


@pytest.mark.parametrize(
    ("diverging", "point"),
    [
        (LogPosition(1, 2), 2),
        (LogPosition(1, 4), 3),
        (LogPosition(2, 4), 3),
        (LogPosition(3, 4), 4),
        (LogPosition(3, 9), 5),
        (LogPosition(0, 0), 0),
    ],
)
def test_a_replica_cuts_where_the_epochs_part(diverging: LogPosition, point: int) -> None:
    assert truncation_point(MemoryLog.of_epochs(1, 1, 1, 3, 3), diverging) == point


def test_unsynced_records_are_not_seen() -> None:
    log = MemoryLog.of_epochs(1, 1)
    log.append(Entry(2, "unsynced"))
    assert judge_fetch(log, 3, 2) == Verdict(diverging=LogPosition(1, 2))
    assert (log.last_epoch, log.durable_end, log.written_end) == (1, 2, 3)


@st.composite
def two_histories(draw: st.DrawFn) -> tuple[MemoryLog, MemoryLog, int]:
    """Logs that share a prefix and then went through different epochs, as two leaders leave them."""
    shared = sorted(draw(st.lists(st.integers(1, 4), max_size=5)))
    first = max(shared, default=1)
    split = draw(st.sets(st.integers(first + 1, first + 8), max_size=8).map(sorted))
    owners = draw(st.lists(st.booleans(), min_size=len(split), max_size=len(split)))
    counts = draw(st.lists(st.integers(1, 3), min_size=len(split), max_size=len(split)))
    logs = ([*shared], [*shared])
    for epoch, owner, count in zip(split, owners, counts, strict=True):
        logs[owner].extend([epoch] * count)
    replica, leader = (
        MemoryLog([Entry(epoch, f"{offset}@{epoch}") for offset, epoch in enumerate(epochs)]) for epochs in logs
    )
    return replica, leader, len(shared)


@given(two_histories())
def test_fetching_and_cutting_ends_at_the_common_prefix_and_never_below_it(
    histories: tuple[MemoryLog, MemoryLog, int],
) -> None:
    replica, leader, shared = histories
    for _ in range(20):
        verdict = judge_fetch(leader, replica.durable_end, replica.last_epoch)
        if verdict == VALID:
            break
        assert verdict.diverging is not None
        point = truncation_point(replica, verdict.diverging)
        assert shared <= point < replica.durable_end
        replica.truncate(point)
    assert replica.written == leader.written[: replica.durable_end]
