"""What brokers answer one after the other becomes one state without contradictions."""

from __future__ import annotations

from typing import Any

from highwater.cli.demo.progress import DemoProgress
from highwater.cli.demo.replicas import Look, PartitionState, Replica, partition_state


def row(role: str, epoch: int, high_watermark: int, end: int, isr: tuple[int, ...] = (1, 2, 3)) -> dict[str, Any]:
    found = {"role": role, "leader_epoch": epoch, "high_watermark": high_watermark, "log_end": end}
    return found | ({"isr": list(isr)} if role == "leader" else {})


def looks(**rows: dict[str, Any]) -> dict[int, Look]:
    """`b1=row(…)` is broker 1, which answers."""
    return {int(name[1:]): Look(True, {0: each}) for name, each in rows.items()}


def test_a_follower_that_answered_later_than_its_leader_is_not_ahead_of_it() -> None:
    state = partition_state(looks(b1=row("leader", 0, 90, 100), b2=row("follower", 0, 95, 120)), 0, None, 0)
    assert (state.leader, state.high_watermark) == (1, 95)
    assert state.replicas == {1: Replica(0, 95, 120), 2: Replica(0, 95, 120)}


def test_what_was_acknowledged_or_read_is_committed() -> None:
    state = partition_state(looks(b1=row("leader", 0, 90, 100)), 0, None, 130)
    assert (state.high_watermark, state.replicas[1]) == (130, Replica(0, 130, 130))


def test_records_of_an_older_epoch_do_not_count_for_the_new_leader() -> None:
    answered = looks(b1=row("leader", 1, 50, 50, (1, 2)), b2=row("follower", 1, 50, 50))
    answered[3] = Look(False, {0: row("leader", 0, 50, 70)})
    state = partition_state(answered, 0, None, 0)
    assert (state.leader, state.epoch, state.in_sync) == (1, 1, (1, 2))
    assert state.replicas[1].log_end == 50 and state.replicas[3] == Replica(0, 50, 70)


def test_a_leader_that_does_not_answer_leads_no_more_and_its_isr_stays_until_another_answers() -> None:
    before = PartitionState(3, 0, (1, 2, 3), 50)
    answered = looks(b1=row("follower", 0, 50, 50), b2=row("follower", 0, 50, 50))
    answered[3] = Look(False, {0: row("leader", 0, 50, 50)})
    state = partition_state(answered, 0, before, 0)
    assert (state.leader, state.in_sync) == (-1, (1, 2, 3))


def test_a_leader_that_was_paused_and_still_takes_itself_for_one_does_not_lead() -> None:
    state = partition_state(looks(b1=row("leader", 4, 9, 9), b2=row("leader", 5, 9, 9, (2, 3))), 0, None, 0)
    assert (state.leader, state.epoch, state.in_sync) == (2, 5, (2, 3))


def test_the_numbers_of_a_picture_add_up_while_feed_and_reader_go_on() -> None:
    progress = DemoProgress()
    progress.looks = {1: Look(True, {at: row("leader", 0, 10, 10) for at in range(3)})}
    progress.acked_in = {0: 15, 1: 9, 2: 10}
    progress.arrivals.reached, progress.arrivals.rows = {0: 3, 1: 12, 2: 4}, 19
    progress.take_looks()
    progress.acked_in[0] = 400  # the feed goes on while the picture is drawn
    assert progress.acked_seen == 34 and progress.committed == 15 + 12 + 10
    assert progress.acked_seen <= progress.committed == progress.arrivals.rows + progress.lag
