"""Truncation to the high watermark, as it was before KIP-101: the rule, and what it costs in the simulated world."""

from __future__ import annotations

from highwater.broker import assembly
from highwater.lab.old_rules import WatermarkFollower
from highwater.lab.simulated import old_rule, run_schedule
from highwater.partition.fetcher import Fetcher
from highwater.replication.follower import Ends, State


def test_a_term_began_with_a_cut_to_the_own_high_watermark() -> None:
    follower = WatermarkFollower(0, 1.0)
    assert follower.begun(Ends(0, 2), 1).truncate_to == 1
    assert follower.state is State.TRUNCATING
    follower.truncated()
    assert follower.fetches


def test_a_log_without_uncommitted_records_was_left_as_it_was() -> None:
    follower = WatermarkFollower(0, 1.0)
    assert follower.begun(Ends(0, 2), 2).truncate_to is None
    assert follower.fetches


def test_the_same_schedule_loses_exactly_the_second_record_by_the_old_rule_and_nothing_by_todays() -> None:
    with old_rule():
        old = run_schedule("message1", "message2")
    today = run_schedule("message1", "message2")
    assert (old.read, today.read) == (["message1"], ["message1", "message2"])
    assert (old.restarted.log_end, old.elected.log_end, old.returned.log_end) == (1, 1, 1)
    assert (today.restarted.log_end, today.elected.log_end, today.returned.log_end) == (2, 2, 2)
    assert old.returned.label is not None and old.returned.label.en.startswith("simulated: node 1 ")


def test_the_old_rule_ends_with_its_run() -> None:
    with old_rule():
        assert vars(assembly)["Fetcher"] is not Fetcher
    assert vars(assembly)["Fetcher"] is Fetcher
