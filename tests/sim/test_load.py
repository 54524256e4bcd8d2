"""The verdict of a run's own clients, on crafted runs."""

from __future__ import annotations

import pytest

from highwater.audit import Outcome, Read, Sent
from highwater.errors import Code, KafkaError
from highwater.model import Endpoint, TopicPartition
from highwater.sim.faults.permitted import Permitted
from highwater.sim.load import Load
from highwater.sim.reader import Page, ServedDamage

TP = TopicPartition("t", 0)


class Deaf:
    def acked(self, tp: TopicPartition, end: int) -> None:
        pass

    def end_reported(self, tp: TopicPartition, epoch: int, end: int) -> None:
        pass

    def is_deposed(self, tp: TopicPartition, broker: Endpoint) -> bool:
        return False

    def is_alone(self, tp: TopicPartition) -> bool:
        return False


def load(left: list[bytes], sent: tuple[bytes, ...] = (b"a", b"b"), read: tuple[int, ...] = ()) -> Load:
    """`sent` was acknowledged at 0, 1, …; offsets of `read` were read meanwhile; at the end there is `left`."""
    made = Load([TP], Deaf(), lambda who, text: None)
    made.sends = [Sent(TP, value, "p1", Outcome.ACKED, at) for at, value in enumerate(sent)]
    made.reads = {Read(TP, at, sent[at]): None for at in read}
    made.whole[TP] = Page([Read(TP, at, value) for at, value in enumerate(left)], len(left), len(left), 0)
    return made


def verdict(made: Load, lossy: bool = False, permitted: Permitted | None = None) -> str:
    made.judge(frozenset({TP}) if lossy else frozenset(), permitted or Permitted())
    return " ".join(made.wrong)


def test_a_run_that_kept_everything_is_fine() -> None:
    made = load([b"a", b"b"], read=(0, 1))
    assert verdict(made) == ""
    assert (made.seen["acked and judged"], made.seen["given up"]) == (2, 0)


@pytest.mark.parametrize(
    ("left", "read", "wrong"),
    [
        ([b"a"], (), "the audit finds lost"),
        ([b"a"], (1,), "offset 1 was read, and is not there any more"),
        ([b"a", b"b", b"a"], (), "the audit finds duplicated"),
        ([b"b", b"a"], (), "the audit finds reordered"),
        ([b"a", b"c"], (1,), "the audit finds inconsistent"),
    ],
)
def test_missing_doubled_and_moved_records_are_reported(left: list[bytes], read: tuple[int, ...], wrong: str) -> None:
    assert wrong in verdict(load(left, read=read))


def test_damage_may_be_reported_by_the_only_copy_and_served_by_none() -> None:
    reported, served = KafkaError(Code.CORRUPT_MESSAGE, "t-0 at 6"), ServedDamage("t-0 at 6")
    made = load([b"a", b"b"])
    made.judge_damage(reported, of_only_copy=True)
    assert made.wrong == []
    made.judge_damage(reported, of_only_copy=False)
    made.judge_damage(served, of_only_copy=True)
    assert made.wrong == ["CORRUPT_MESSAGE: t-0 at 6"] * 2


def test_a_gap_is_reported() -> None:
    made = load([b"a", b"b"])
    made.whole[TP] = Page([Read(TP, 0, b"a"), Read(TP, 2, b"b")], 3, 3, 0)
    assert "the offsets have gaps" in verdict(made)


def test_records_that_an_unclean_election_gave_up_are_counted_and_not_called_lost() -> None:
    made = load([b"a"], read=(0, 1))
    assert verdict(made, lossy=True) == ""
    assert (made.seen["acked and judged"], made.seen["given up"]) == (1, 1)


@pytest.mark.parametrize(
    ("left", "wrong"),
    [([b"a", b"a"], "duplicated"), ([b"b", b"a"], "reordered"), ([b"a", b"c"], "foreign")],
)
def test_records_that_an_unclean_election_left_are_whole_unique_and_in_order(left: list[bytes], wrong: str) -> None:
    assert f"the audit finds {wrong}" in verdict(load(left), lossy=True)


def test_an_unclean_leader_may_have_a_record_at_another_offset_than_acknowledged() -> None:
    """A batch was sent to it first, which was not acknowledged then; the next leader had it behind another one's."""
    made = load([b"a", b"b"], (b"a", b"given up", b"b"))
    assert verdict(made, lossy=True) == ""
    assert "misplaced" in verdict(load([b"a", b"b"], (b"a", b"given up", b"b")))


def beginning_at(start: int, made: Load) -> Load:
    """Records below `start` are gone."""
    page = made.whole[TP]
    made.whole[TP] = page._replace(reads=[read for read in page.reads if read.offset >= start], log_start=start)
    return made


def test_deleted_records_are_not_missed_and_no_others_may_be_missing() -> None:
    sent = (b"a", b"b", b"c")
    made = beginning_at(2, load([*sent], sent, read=(1,)))
    assert verdict(made, permitted=Permitted(deleted={TP: 2})) == ""
    assert (made.seen["deleted unread"], made.seen["acked and judged"]) == (1, 2)
    assert "begins at 2, and no client asked for that" in verdict(
        beginning_at(2, load([*sent], sent)), permitted=Permitted(deleted={TP: 1})
    )
    assert verdict(beginning_at(2, load([*sent], sent)), permitted=Permitted(retained={"t"})) == ""


def test_records_after_the_deleted_ones_are_judged_as_before() -> None:
    sent = (b"a", b"b", b"c")
    permitted = Permitted(deleted={TP: 1})
    assert "the audit finds lost" in verdict(beginning_at(1, load([b"a", b"b"], sent)), permitted=permitted)
    assert "is not there any more" in verdict(beginning_at(1, load([b"a", b"b"], sent, read=(2,))), permitted=permitted)
    assert "the audit finds foreign" in verdict(beginning_at(1, load([b"x", b"a", b"c"], sent)), permitted=permitted)


@pytest.mark.parametrize(("deleted", "at", "wrong"), [(2, 1, ""), (1, 1, "1 was committed"), (0, 0, "0 was committed")])
def test_a_deletion_that_was_not_confirmed_may_hold_at_one_leader_and_not_at_the_next(
    deleted: int, at: int, wrong: str
) -> None:
    """`at` was out of range meanwhile, and is there at the end."""
    made = load([b"a", b"b"])
    made._out_of_range.append((TP, at))
    found = verdict(made, permitted=Permitted(deleted={TP: deleted}))
    assert wrong in found if wrong else found == ""
