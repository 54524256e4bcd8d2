"""The verdict fails, and says why, when an order is dropped, a row is doubled or the kill is left out."""

from __future__ import annotations

import json
import tracemalloc
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from rich.console import Console

from highwater.audit import Outcome, Read, Sent, judge_rows
from highwater.cli.demo import sends as sends_module
from highwater.cli.demo import verdict
from highwater.cli.demo.arrived import Arrived, InTable, Kept
from highwater.cli.demo.orders import PARTITIONS, Order, number_of, order_of, partition_of
from highwater.cli.demo.sends import ROUND, Sends
from highwater.cli.demo.summary import explain
from highwater.cli.demo.verdict import Judgement, Sums, judge_in_parts, revenue_of
from highwater.model import TopicPartition

pytestmark = pytest.mark.slow

ALL = frozenset(PARTITIONS)
ORDERS = [order_of(number) for number in range(30)]
SENDS = [
    Sent(PARTITIONS[at % 3], order.value, "feed", Outcome.ACKED, offset=at // 3) for at, order in enumerate(ORDERS)
]
ROWS = [Read(sent.partition, sent.offset, sent.value) for sent in SENDS]


def judged(rows: list[Read], *, sends: list[Sent] = SENDS, killed: bool = True) -> Judgement:
    return Judgement(judge_rows(sends, rows, ALL), was_disturbed=killed)


def test_a_run_with_every_order_once_and_a_kill_has_no_problem() -> None:
    judgement = judged(list(reversed(ROWS)))
    assert judgement.problems == []
    assert judgement.verdict.line() == "verdict acked=30 delivered=30 lost=0 duplicated=0"


def test_an_acknowledged_order_that_is_dropped_from_the_table_is_lost_and_named() -> None:
    judgement = judged([*ROWS[:17], *ROWS[18:]])
    assert judgement.verdict.line() == "verdict acked=30 delivered=29 lost=1 duplicated=0"
    [problem] = judgement.problems
    assert problem.startswith("lost (acknowledged, and not there): 1")
    assert '"id":17' in problem and "orders-2 at offset 5" in problem


def test_a_row_that_is_there_twice_is_duplicated_though_it_is_one_record_of_the_log() -> None:
    judgement = judged([*ROWS, ROWS[4]])
    assert judgement.verdict.line() == "verdict acked=30 delivered=31 lost=0 duplicated=1"
    [problem] = judgement.problems
    assert problem.startswith("duplicated (there more than once): 1") and '"id":4' in problem
    assert judgement.verdict.by_partition[PARTITIONS[1]]["duplicated"] == 1


def test_a_record_that_is_in_the_log_twice_is_duplicated_once() -> None:
    again = Read(PARTITIONS[0], 99, ROWS[0].value)
    judgement = judged([*ROWS, again, again])
    assert judgement.verdict.line() == "verdict acked=30 delivered=32 lost=0 duplicated=1"


def test_a_run_without_the_kill_proves_nothing() -> None:
    [problem] = judged(ROWS, killed=False).problems
    assert problem.startswith("No leader was killed and brought back")


def test_a_run_without_any_acknowledged_order_proves_nothing() -> None:
    [problem] = judged([], sends=[]).problems
    assert problem.startswith("No order was acknowledged")


def test_a_row_that_says_something_else_than_what_was_sent_is_foreign_and_its_order_lost() -> None:
    changed = ROWS[3]._replace(value=ORDERS[3]._replace(cents=1).value)
    judgement = judged([*ROWS[:3], changed, *ROWS[4:]])
    assert [problem.partition(" ")[0] for problem in judgement.problems] == ["lost", "foreign"]


def test_orders_on_their_way_when_the_waiting_ends_are_unseen_but_those_that_were_passed_over_are_lost() -> None:
    verdict = judge_rows(SENDS, ROWS[3:27], complete=frozenset())
    assert (len(verdict.lost), len(verdict.unseen)) == (3, 3)
    assert [problem.partition(" ")[0] for problem in Judgement(verdict, True).problems] == ["lost", "unseen"]


def test_an_order_without_an_answer_may_be_there_or_not() -> None:
    late = Sent(PARTITIONS[0], Order(30, "customer-001", "tea", 480).value, "feed", Outcome.UNKNOWN)
    assert judged(ROWS, sends=[*SENDS, late]).problems == []
    landed = judged([*ROWS, Read(late.partition, 10, late.value)], sends=[*SENDS, late])
    assert landed.problems == []
    assert landed.verdict.line() == "verdict acked=30 delivered=31 lost=0 duplicated=0"


def sent_rounds(rounds: int) -> Sends:
    """All acknowledged, each batch behind the other; but one of the second round has no answer, one no place."""
    sends, ends = Sends(), Counter[TopicPartition]()
    for number in range(rounds):
        for partition, batch in sends.begin_round().items():
            if number == 1 and partition == PARTITIONS[0]:
                sends.unanswered(partition)
                continue
            known = number != 1 or partition != PARTITIONS[1]
            sends.acknowledged(partition, ends[partition] if known else -1)
            ends[partition] += len(batch)
    return sends


def test_the_outcome_of_an_order_is_known_from_its_number_alone() -> None:
    sends = sent_rounds(3).of_rounds(range(3))
    assert len(sends) == 3 * ROUND
    assert sorted(json.loads(sent.value)["id"] for sent in sends) == list(range(3 * ROUND))
    for sent in sends:
        order = order_of(json.loads(sent.value)["id"])
        assert (sent.value, sent.partition) == (order.value, partition_of(order))
    second = [sent for sent in sends if ROUND <= json.loads(sent.value)["id"] < 2 * ROUND]
    assert {sent.outcome for sent in second if sent.partition == PARTITIONS[0]} == {Outcome.UNKNOWN}
    assert {sent.offset for sent in second if sent.partition == PARTITIONS[1]} == {-1}
    offsets = [sent.offset for sent in sends if sent.partition == PARTITIONS[2]]
    assert offsets == list(range(len(offsets)))


def test_a_round_that_was_not_sent_to_its_end_is_no_loss() -> None:
    sends = Sends()
    sends.begin_round()
    assert sends.of_rounds(range(1)) == []


def test_sends_take_less_than_half_a_byte_for_an_order() -> None:
    sends = Sends()
    tracemalloc.start()
    try:
        for _ in range(500):
            for partition in sends.begin_round():
                sends.acknowledged(partition, 10**12)
        # Other threads of this process allocate too.
        taken = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, str(sends_module.__file__))])
    finally:
        tracemalloc.stop()
    used = sum(each.size for each in taken.statistics("filename"))
    assert 0 < used < 0.6 * 500 * ROUND, "with the room that the arrays have to grow"


@pytest.fixture(params=["kept", "in a table"])
def arrivals(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[list[Read]], Arrived]:
    def kept(rows: list[Read]) -> Arrived:
        found = Kept()
        for row in rows:
            found.take(row, number_of(row.value))
        assert found.count == len(rows)
        return found

    def in_table(rows: list[Read]) -> Arrived:
        fields = [
            json.loads(row.value) | {"_partition": row.partition.partition, "_offset": row.offset} for row in rows
        ]
        write_deltalake(str(tmp_path / "table"), pa.Table.from_pylist(fields))
        return InTable(tmp_path / "table")

    return kept if request.param == "kept" else in_table


def test_a_run_is_judged_in_parts_as_it_would_be_at_once(
    arrivals: Callable[[list[Read]], Arrived], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verdict, "PART", 2)
    sends = sent_rounds(5)
    known = sends.of_rounds(range(5))
    rows = [Read(sent.partition, sent.offset, sent.value) for sent in known if sent.offset >= 0]
    lost, doubled, moved = rows.pop(7), rows[40], rows.pop(100)
    stranger = Order(10**6, "customer-001", "tea", 480)
    changed = order_of(9)._replace(cents=1)
    rows += [doubled, moved._replace(offset=0), Read(PARTITIONS[2], 0, stranger.value)]
    rows.append(Read(PARTITIONS[0], 5000, changed.value))
    at_once = judge_rows(known, rows, frozenset(PARTITIONS))
    arrived = arrivals(rows)
    judged, revenue = judge_in_parts(sends, arrived, frozenset(PARTITIONS), {})
    assert judged.counts == at_once.counts
    assert judged.by_partition == at_once.by_partition
    assert lost in [Read(sent.partition, sent.offset, sent.value) for sent in judged.lost]
    assert judged.counts["foreign"] == 2 and judged.counts["duplicated"] == 1 and judged.counts["inconsistent"] >= 1
    strange = {stranger.value} | ({changed.value} if isinstance(arrived, Kept) else set())
    assert revenue == revenue_of(row for row in rows if row.value not in strange)


def test_no_order_has_arrived_if_there_is_no_table(tmp_path: Path) -> None:
    assert InTable(tmp_path / "none").numbered(range(100)) == []


def test_sums_of_the_topic_that_are_not_those_of_the_table_are_a_problem() -> None:
    sums = revenue_of(ROWS)
    assert sum(sums.values()) == sum(order.cents for order in ORDERS)
    verdict = judge_rows(SENDS, ROWS, ALL)
    assert Judgement(verdict, True, Sums(sums, dict(sums))).problems == []
    [problem] = Judgement(verdict, True, Sums(sums, sums | {"tea": 0})).problems
    assert "'tea': 0" in problem


def test_the_summary_ends_with_the_promise_only_if_there_is_no_problem() -> None:
    console = Console(width=80, color_system=None)
    for judgement in (judged(ROWS), judged(ROWS[1:]), judged([], sends=[], killed=False)):
        with console.capture() as capture:
            explain(console, judgement)
        printed = capture.get().splitlines()
        assert all(problem in printed for problem in judgement.problems)
        assert ("exactly once" in printed[-1]) is (not judgement.problems)
