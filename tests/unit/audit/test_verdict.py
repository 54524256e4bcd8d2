"""Each class of anomaly: a crafted history that must be caught, and the same one mended, which must pass."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.audit import CLASSES, History, Outcome, Read, RowsInParts, Sent, judge, judge_rows, verdict_text
from highwater.model import TopicPartition

P = TopicPartition("orders", 0)
Q = TopicPartition("orders", 1)


def sent(
    value: str, outcome: Outcome = Outcome.ACKED, offset: int = -1, producer: str = "p", partition: TopicPartition = P
) -> Sent:
    return Sent(partition, value.encode(), producer, outcome, offset)


def read(offset: int, value: str, partition: TopicPartition = P) -> Read:
    return Read(partition, offset, value.encode())


CAUGHT: dict[str, History] = {
    "lost": History([sent("a"), sent("b")], [read(0, "b")]),
    "duplicated": History([sent("a")], [read(0, "a"), read(1, "a")]),
    "reordered": History([sent("a"), sent("b")], [read(0, "b"), read(1, "a")]),
    "inconsistent": History([sent("a"), sent("b", Outcome.UNKNOWN)], [read(0, "a"), read(0, "b")]),
    "resurrected": History([sent("a", Outcome.FAILED)], [read(0, "a")]),
    "foreign": History([], [read(7, "x")]),
    "misplaced": History([sent("a", offset=3)], [read(4, "a")]),
    "unseen": History([sent("a", offset=0), sent("b", offset=1)], [read(0, "a")], frozenset({Q})),
}
MENDED: dict[str, History] = {
    "lost": History([sent("a"), sent("b")], [read(0, "a"), read(1, "b")]),
    "duplicated": History([sent("a")], [read(0, "a"), read(0, "a")]),
    "reordered": History([sent("a", producer="one"), sent("b", producer="two")], [read(0, "b"), read(1, "a")]),
    "inconsistent": History([sent("a"), sent("b", Outcome.UNKNOWN)], [read(0, "a"), read(1, "b")]),
    "resurrected": History([sent("a", Outcome.FAILED)], []),
    "foreign": History([sent("x", Outcome.UNKNOWN)], [read(7, "x")]),
    "misplaced": History([sent("a", offset=3)], [read(3, "a")]),
    "unseen": History([sent("a", offset=0), sent("b", offset=1)], [read(0, "a"), read(1, "b")], frozenset({Q})),
}


def test_every_class_has_a_history_to_catch_and_one_to_pass() -> None:
    assert set(CAUGHT) == set(MENDED) == set(CLASSES)


@pytest.mark.parametrize("name", CLASSES)
def test_a_crafted_history_is_caught_in_its_class_and_in_no_other(name: str) -> None:
    verdict = judge(CAUGHT[name])
    assert {each: count for each, count in verdict.counts.items() if each in CLASSES and count} == {name: 1}
    assert not verdict.ok
    assert verdict.by_partition[P][name] == 1


@pytest.mark.parametrize("name", CLASSES)
def test_the_mended_history_passes(name: str) -> None:
    verdict = judge(MENDED[name])
    assert verdict.ok
    assert not any(verdict.by_partition[partition][name] for partition in verdict.by_partition)


def test_records_acknowledged_and_read_in_order_pass_the_audit() -> None:
    verdict = judge(History([sent("a", offset=0), sent("b", offset=1)], [read(0, "a"), read(1, "b"), read(1, "b")]))
    assert verdict.ok
    assert verdict.line() == "verdict acked=2 delivered=2 lost=0 duplicated=0"


def test_each_case_names_what_it_is_about() -> None:
    assert [each.value for each in judge(CAUGHT["lost"]).lost] == [b"a"]
    assert judge(CAUGHT["duplicated"]).duplicated == [(b"a", [(P, 0), (P, 1)])]
    assert [(one.value, two.value) for one, two in judge(CAUGHT["reordered"]).reordered] == [(b"a", b"b")]
    assert judge(CAUGHT["inconsistent"]).inconsistent == [(P, 0, [b"a", b"b"])]
    assert judge(CAUGHT["foreign"]).foreign == [(P, 7, b"x")]
    assert [each.value for each in judge(CAUGHT["unseen"]).unseen] == [b"b"]


def test_a_partition_not_read_to_its_end_loses_only_what_was_passed() -> None:
    history = History([sent("a", offset=0), sent("b", offset=1), sent("c", offset=2)], [read(1, "b")], frozenset({Q}))
    verdict = judge(history)
    assert [each.value for each in verdict.lost] == [b"a"]
    assert [each.value for each in verdict.unseen] == [b"c"]


def test_an_unknown_send_may_be_there_or_not() -> None:
    assert judge(History([sent("a", Outcome.UNKNOWN)], [])).ok
    assert judge(History([sent("a", Outcome.UNKNOWN)], [read(0, "a")])).ok


def test_an_unknown_send_may_land_late_but_not_twice() -> None:
    sends = [sent("a", Outcome.UNKNOWN), sent("b")]
    assert judge(History(sends, [read(0, "b"), read(1, "a")])).ok
    assert judge(History(sends, [read(0, "a"), read(1, "b"), read(2, "a")])).counts["duplicated"] == 1


def test_a_value_in_two_partitions_is_duplicated_in_both() -> None:
    verdict = judge(History([sent("a")], [read(0, "a"), read(5, "a", Q)]))
    assert verdict.duplicated == [(b"a", [(P, 0), (Q, 5)])]
    assert [verdict.by_partition[each]["duplicated"] for each in (P, Q)] == [1, 1]


def test_a_value_found_in_another_partition_is_misplaced_even_without_an_offset() -> None:
    assert [each.value for each in judge(History([sent("a")], [read(0, "a", Q)])).misplaced] == [b"a"]
    assert judge(History([sent("a", partition=Q)], [read(0, "a", Q)])).ok


def test_the_counts_are_given_for_each_partition() -> None:
    sends = [sent("a"), sent("b", partition=Q), sent("c", partition=Q), sent("d", Outcome.FAILED)]
    verdict = judge(History(sends, [read(0, "b", Q), read(0, "a")]))
    by_partition = {
        partition: (of["acked"], of["delivered"], of["lost"]) for partition, of in verdict.by_partition.items()
    }
    assert by_partition == {P: (1, 1, 0), Q: (2, 1, 1)}
    assert list(by_partition) == [P, Q]


values = st.integers(0, 30)
places = st.tuples(st.sampled_from([P, Q]), st.integers(0, 12))
outcomes = st.sampled_from([Outcome.ACKED, Outcome.ACKED, Outcome.UNKNOWN, Outcome.FAILED])
stories = st.lists(st.tuples(places, outcomes, st.booleans()), max_size=20)


@given(stories, st.lists(st.tuples(values, places), max_size=30), st.sets(st.sampled_from([P, Q])), st.integers(1, 10))
@settings(max_examples=200, deadline=None)
def test_rows_in_parts_are_judged_as_they_would_be_at_once(
    by_partition: list[tuple[tuple[TopicPartition, int], Outcome, bool]],
    arrived: list[tuple[int, tuple[TopicPartition, int]]],
    read_to_end: set[TopicPartition],
    size: int,
) -> None:
    """Values are numbers: those of one part are next to each other; some are nobody's."""
    sends = [
        Sent(partition, b"%02d" % number, "p", outcome, offset if placed else -1)
        for number, ((partition, offset), outcome, placed) in enumerate(by_partition)
    ]
    rows = [Read(partition, offset, b"%02d" % number) for number, (partition, offset) in arrived]
    complete = frozenset(read_to_end)
    furthest: dict[TopicPartition, int] = {}
    for row in rows:
        furthest[row.partition] = max(furthest.get(row.partition, -1), row.offset)
    judging = RowsInParts(complete, furthest)
    for first in range(0, 31, size):
        in_part = {b"%02d" % number for number in range(first, first + size)}
        judging.add([sent for sent in sends if sent.value in in_part], [row for row in rows if row.value in in_part])
    at_once = judge_rows(sends, rows, complete)
    assert judging.verdict.counts == at_once.counts
    assert judging.verdict.reordered == at_once.reordered
    found = {partition: counts for partition, counts in judging.verdict.by_partition.items() if any(counts.values())}
    assert found == {partition: counts for partition, counts in at_once.by_partition.items() if any(counts.values())}


def test_the_table_shows_each_partition_and_the_classes_that_occurred() -> None:
    text = verdict_text(judge(CAUGHT["foreign"]))
    assert "not kept" in text and "orders-0" in text and "foreign" in text
    assert "misplaced" not in text
    clean = verdict_text(judge(MENDED["lost"]))
    assert "every acknowledged record, once and in order" in clean
    assert [cell.strip() for cell in clean.splitlines()[-2].strip("│").split("│")] == ["all", "2", "2", *["0"] * 5]
