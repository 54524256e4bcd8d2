"""What a leader checks before it counts a fetch or answers it, case by case."""

from __future__ import annotations

import pytest

from highwater.errors import Code, KafkaError
from highwater.log.epoch_cache import EpochCache
from highwater.replication.serving import check_epoch, check_range, divergence

HISTORY = EpochCache([(0, 0), (3, 10), (5, 20)])
START, END = 4, 30


@pytest.mark.parametrize(
    ("believed", "refused"),
    [
        (-1, None),  # it believes nothing
        (0, Code.FENCED_LEADER_EPOCH),
        (4, Code.FENCED_LEADER_EPOCH),
        (5, None),
        (6, Code.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_a_wrong_leader_epoch_gets_the_error_for_its_direction(believed: int, refused: Code | None) -> None:
    if refused is None:
        check_epoch(believed, 5)
        return
    with pytest.raises(KafkaError) as refusal:
        check_epoch(believed, 5)
    assert refusal.value.code is refused


@pytest.mark.parametrize(
    ("offset", "last_epoch", "parted"),
    [
        (30, 5, None),
        (25, 5, None),
        (31, 5, (5, 30)),  # it has more of the epoch than we have
        (20, 3, None),  # all of it
        (21, 3, (3, 20)),
        (25, 4, (3, 20)),  # no such epoch is here: the largest smaller one says where that ended
        (15, 4, (3, 20)),
        (10, 0, None),
        (11, 0, (0, 10)),
        (4, 5, None),  # at our log start
        (2, -1, None),  # it knows no epoch: the range decides
    ],
)
def test_the_leader_finds_where_a_followers_history_diverges(
    offset: int, last_epoch: int, parted: tuple[int, int] | None
) -> None:
    assert divergence(HISTORY, START, END, offset, last_epoch) == parted


@pytest.mark.parametrize(("offset", "last_epoch"), [(30, 6), (3, 5), (3, 0)])
def test_an_epoch_or_a_place_that_we_do_not_have_is_out_of_range(offset: int, last_epoch: int) -> None:
    with pytest.raises(KafkaError) as refusal:
        divergence(HISTORY, START, END, offset, last_epoch)
    assert refusal.value.code is Code.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize(("offset", "fits"), [(3, False), (4, True), (30, True), (31, False)])
def test_an_offset_that_we_do_not_have_is_no_acknowledgement(offset: int, fits: bool) -> None:
    if fits:
        check_range(START, END, offset)
        return
    with pytest.raises(KafkaError) as refusal:
        check_range(START, END, offset)
    assert refusal.value.code is Code.OFFSET_OUT_OF_RANGE
