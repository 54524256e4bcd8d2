"""Batches behind one that was refused a moment ago are refused for the same reason."""

from __future__ import annotations

import pytest

from highwater.errors import Code, KafkaError
from highwater.replication.refusals import AT_MOST, HELD_SECONDS, TRIED_AGAIN, Batch, Refusals

GAP = Code.OUT_OF_ORDER_SEQUENCE_NUMBER
FULL = Code.KAFKA_STORAGE_ERROR


def first(sequence: int = 10, epoch: int = 0, producer: int = 7) -> Batch:
    return Batch(producer, epoch, sequence)


def refused(refusals: Refusals, batch: Batch, code: Code = FULL, now: float = 0.0) -> Code:
    return refusals.answer(batch, KafkaError(code), now).code


def after_one(code: Code = FULL, batch: Batch | None = None) -> Refusals:
    refusals = Refusals()
    assert refused(refusals, batch or first(), code) is code
    return refusals


@pytest.mark.parametrize("code", TRIED_AGAIN)
def test_a_gap_behind_a_refused_batch_gets_the_error_of_that_batch(code: Code) -> None:
    refusals = after_one(code)
    answer = refusals.answer(first(13), KafkaError(GAP), 1.0)
    assert answer.code is code
    assert answer.message == "the batch of producer 7 with sequence 10 was refused before it"


@pytest.mark.parametrize(
    "batch",
    [first(10), first(9), first(13, epoch=1), first(13, producer=8), first((10 + 2**30) % 2**31)],
    ids=["the same", "an earlier one", "another epoch", "another producer", "half of all sequences away"],
)
def test_any_other_gap_is_the_producers_own(batch: Batch) -> None:
    refusals = after_one()
    assert refused(refusals, batch, GAP) is GAP
    refusals.check(batch, 0.0)


def test_sequences_begin_again_at_zero() -> None:
    refusals = after_one(batch=first(2**31 - 1))
    assert refused(refusals, first(0), GAP) is FULL


def test_a_batch_that_came_back_leaves_no_gap_behind() -> None:
    refusals = after_one()
    refusals.appended(first(7))
    assert refused(refusals, first(13), GAP) is FULL, "an earlier batch that is repeated changes nothing"
    refusals.appended(first(10))
    assert len(refusals) == 0
    assert refused(refusals, first(13), GAP) is GAP


def test_a_new_epoch_of_the_producer_ends_what_the_last_one_left() -> None:
    refusals = after_one()
    refusals.appended(first(0, epoch=1))
    assert len(refusals) == 0


def test_the_earliest_refused_batch_counts() -> None:
    refusals = after_one()
    assert refused(refusals, first(13), Code.NOT_LEADER_OR_FOLLOWER) is Code.NOT_LEADER_OR_FOLLOWER
    assert refused(refusals, first(13), GAP) is FULL
    assert refused(refusals, first(7), Code.NOT_ENOUGH_REPLICAS) is Code.NOT_ENOUGH_REPLICAS
    assert refused(refusals, first(10), GAP) is Code.NOT_ENOUGH_REPLICAS


def test_a_batch_that_is_refused_again_is_waited_for_as_long_again() -> None:
    refusals = after_one()
    refused(refusals, first(), FULL, HELD_SECONDS)
    assert refused(refusals, first(13), GAP, 2 * HELD_SECONDS) is FULL
    assert refused(refusals, first(13), GAP, 2 * HELD_SECONDS + 0.1) is GAP


@pytest.mark.parametrize("code", [Code.CORRUPT_MESSAGE, Code.MESSAGE_TOO_LARGE, Code.INVALID_PRODUCER_EPOCH])
def test_a_refusal_for_good_holds_up_nothing(code: Code) -> None:
    refusals = Refusals()
    assert refused(refusals, first(), code) is code
    assert len(refusals) == 0


def test_a_batch_without_a_producer_holds_up_nothing() -> None:
    refusals = Refusals()
    refused(refusals, first(-1, -1, -1))
    assert len(refusals) == 0


def test_few_refusals_are_kept_and_none_for_long() -> None:
    refusals = Refusals()
    for producer in range(AT_MOST + 1):
        refused(refusals, first(producer=producer))
    assert len(refusals) == AT_MOST
    assert refused(refusals, first(13, producer=0), GAP) is GAP, "the oldest made room"
    assert refused(refusals, first(13, producer=1), GAP) is FULL
    refused(refusals, first(producer=1000), now=HELD_SECONDS + 0.1)
    assert len(refusals) == AT_MOST, "an old one went for the new one"


def test_a_check_raises_the_error_of_the_refused_batch() -> None:
    refusals = after_one()
    with pytest.raises(KafkaError) as refusal:
        refusals.check(first(13), HELD_SECONDS)
    assert refusal.value.code is FULL
    refusals.check(first(13), HELD_SECONDS + 0.1)


def test_a_field_that_holds_no_batch_names_no_producer() -> None:
    assert Batch.of(memoryview(bytes(60))) == (-1, -1, -1)
