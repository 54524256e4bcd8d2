"""The verdict fails, and says why, when an order is dropped, a row is doubled or the kill is left out."""

from __future__ import annotations

from itertools import islice

from rich.console import Console

from highwater.audit import Outcome, Read, Sent, judge_rows
from highwater.cli.demo.orders import PARTITIONS, Order, orders
from highwater.cli.demo.summary import explain
from highwater.cli.demo.verdict import Judgement, Sums, revenue_of

ALL = frozenset(PARTITIONS)
ORDERS = list(islice(orders(), 30))
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


def test_sums_of_the_topic_that_are_not_those_of_the_table_are_a_problem() -> None:
    sums = revenue_of(ROWS)
    assert sum(sums.values()) == sum(order.cents for order in ORDERS)
    verdict = judge_rows(SENDS, ROWS, ALL)
    assert Judgement(verdict, True, Sums(sums, dict(sums))).problems == []
    [problem] = Judgement(verdict, True, Sums(sums, sums | {"tea": 0})).problems
    assert "'tea': 0" in problem


def test_the_last_line_of_the_summary_is_the_verdict_whatever_is_wrong() -> None:
    console = Console(width=80, color_system=None)
    for judgement in (judged(ROWS), judged(ROWS[1:]), judged([], sends=[], killed=False)):
        with console.capture() as capture:
            explain(console, judgement)
        told = capture.get().splitlines()
        assert told[-1] == judgement.verdict.line()
        assert all(problem in told for problem in judgement.problems)
        assert ("exactly once" in told[-2]) is (not judgement.problems)
