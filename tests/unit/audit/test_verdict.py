"""Each class of anomaly: a crafted history that must be caught, and the same one mended, which must pass."""

from __future__ import annotations

from highwater.audit import History, Outcome, Read, Sent, judge
from highwater.model import TopicPartition

P = TopicPartition("orders", 0)
Q = TopicPartition("orders", 1)


def sent(value: str, outcome: Outcome = Outcome.ACKED, offset: int = -1, producer: str = "p") -> Sent:
    return Sent(P, value.encode(), producer, outcome, offset)


def read(offset: int, value: str) -> Read:
    return Read(P, offset, value.encode())


def test_what_was_acknowledged_and_read_in_order_is_in_order() -> None:
    verdict = judge(History([sent("a", offset=0), sent("b", offset=1)], [read(0, "a"), read(1, "b"), read(1, "b")]))
    assert verdict.ok
    assert verdict.line() == "verdict acked=2 delivered=2 lost=0 duplicated=0"


def test_an_acknowledged_value_that_nobody_read_is_lost() -> None:
    verdict = judge(History([sent("a"), sent("b")], [read(0, "b")]))
    assert [each.value for each in verdict.lost] == [b"a"]
    assert not verdict.ok
    assert judge(History([sent("a"), sent("b")], [read(0, "a"), read(1, "b")])).ok


def test_a_partition_not_read_to_its_end_loses_only_what_was_passed() -> None:
    history = History([sent("a", offset=0), sent("b", offset=1), sent("c", offset=2)], [read(1, "b")], frozenset({Q}))
    assert [each.value for each in judge(history).lost] == [b"a"]


def test_a_value_at_two_offsets_is_duplicated() -> None:
    verdict = judge(History([sent("a")], [read(0, "a"), read(1, "a")]))
    assert verdict.duplicated == [(b"a", [(P, 0), (P, 1)])]
    assert judge(History([sent("a")], [read(0, "a"), read(0, "a")])).ok


def test_two_sends_of_one_producer_in_the_wrong_order_are_reordered() -> None:
    verdict = judge(History([sent("a"), sent("b")], [read(0, "b"), read(1, "a")]))
    assert [(first.value, second.value) for first, second in verdict.reordered] == [(b"a", b"b")]
    others = [sent("a", producer="one"), sent("b", producer="two")]
    assert judge(History(others, [read(0, "b"), read(1, "a")])).ok


def test_an_unknown_send_may_be_there_or_not() -> None:
    assert judge(History([sent("a", Outcome.UNKNOWN)], [])).ok
    assert judge(History([sent("a", Outcome.UNKNOWN)], [read(0, "a")])).ok


def test_a_refused_send_that_is_read_has_come_back_from_the_dead() -> None:
    verdict = judge(History([sent("a", Outcome.FAILED)], [read(0, "a")]))
    assert len(verdict.resurrected) == 1
    assert judge(History([sent("a", Outcome.FAILED)], [])).ok


def test_one_offset_with_two_values_is_inconsistent() -> None:
    verdict = judge(History([sent("a"), sent("b")], [read(0, "a"), read(0, "b")]))
    assert verdict.inconsistent == [(P, 0, [b"a", b"b"])]


def test_a_value_that_nobody_sent_is_foreign() -> None:
    verdict = judge(History([], [read(7, "x")]))
    assert verdict.foreign == [(P, 7, b"x")]


def test_a_value_read_elsewhere_than_acknowledged_is_misplaced() -> None:
    assert len(judge(History([sent("a", offset=3)], [read(4, "a")])).misplaced) == 1
    assert judge(History([sent("a", offset=3)], [read(3, "a")])).ok


def test_counts_name_every_class() -> None:
    assert judge(History([sent("a")], [])).counts["lost"] == 1
