"""A leader's rules for the ISR: which follower is caught up, is dropped or let in, and what an answer means."""

from __future__ import annotations

import pytest

from highwater.errors import Code
from highwater.replication.alter_partition import Answer, Meaning, meaning_of
from highwater.replication.follower_progress import Contact
from highwater.replication.leader import COMMITTED, PROPOSAL, SHRANK, STALE
from tests.unit.replication.leading import ALL, EPOCHS, LAG, ME, SECOND, THIRD, fetch, leads

# Which follower is caught up


def test_the_progress_of_an_incarnation_does_not_count_for_the_next_one() -> None:
    leader = leads((ME, SECOND))
    fetch(leader, SECOND, 10, 109.0, epoch=20)
    assert leader.caught_up_at(SECOND) == 109.0
    leader.appended(15, 109.0)
    fetch(leader, SECOND, 11, 110.0, epoch=21)
    assert leader.caught_up_at(SECOND) is None, "it was the former one that had everything"
    assert fetch(leader, SECOND, 15, 111.0, epoch=20) == STALE, "it comes late, from one that is no more"
    assert leader.followers[SECOND].end == 11
    assert leader.high_watermark == 11, "and it is the new one that counts"


def test_a_follower_with_everything_is_caught_up_as_long_as_its_session_fetches() -> None:
    leader = leads()
    contact = Contact(100.0)
    leader.fetched(SECOND, 20, 10, 0, 0, contact, 100.0)
    contact.at = 104.0
    assert leader.caught_up_at(SECOND) == 104.0
    leader.appended(11, 106.0)
    contact.at = 107.0
    assert leader.caught_up_at(SECOND) == 104.0, "what its session does now is not about this partition"
    leader.appended(12, 108.0)
    assert leader.caught_up_at(SECOND) == 104.0


def test_the_time_at_which_a_follower_was_caught_up_never_goes_back() -> None:
    leader = leads()
    contact = Contact(100.0)
    leader.fetched(SECOND, 20, 10, 0, 0, contact, 100.0)
    contact.at = 104.0
    leader.appended(11, 106.0)
    leader.fetched(SECOND, 20, 10, 0, 0, contact, 107.0)
    assert leader.caught_up_at(SECOND) == 104.0, "at 100 it had all, and at 104 still"


def test_a_follower_that_reaches_the_end_of_its_last_fetch_was_caught_up_then() -> None:
    leader = leads()
    leader.appended(15, 100.0)
    fetch(leader, SECOND, 12, 101.0)
    leader.appended(20, 102.0)
    fetch(leader, SECOND, 15, 103.0)
    assert leader.caught_up_at(SECOND) == 101.0
    fetch(leader, SECOND, 19, 104.0)
    assert leader.caught_up_at(SECOND) == 101.0, "at 103 there were 20"


def test_a_member_of_the_isr_has_its_whole_time_from_the_beginning_of_the_term() -> None:
    leader = leads((ME, SECOND))
    assert (leader.caught_up_at(SECOND), leader.behind_since(SECOND)) == (100.0, 100.0)
    assert (leader.caught_up_at(THIRD), leader.behind_since(THIRD)) == (None, 100.0)
    for replica in (SECOND, THIRD):
        leader.fetched(replica, EPOCHS[replica], 10, 0, 0, Contact(99.0), 100.0)  # it came a little before the term
    assert (leader.caught_up_at(SECOND), leader.behind_since(SECOND)) == (100.0, 100.0)
    assert (leader.caught_up_at(THIRD), leader.behind_since(THIRD)) == (99.0, 100.0)
    fetch(leader, SECOND, 10, 103.0)
    assert (leader.caught_up_at(SECOND), leader.behind_since(SECOND)) == (103.0, 103.0)


# Which follower to drop


def test_leader_drops_a_follower_that_is_behind_for_too_long() -> None:
    leader = leads()
    leader.appended(15, 101.0)
    fetch(leader, THIRD, 15, 101.0)
    assert leader.tick(100.0 + LAG) == 0
    assert leader.tick(100.1 + LAG) == PROPOSAL
    assert leader.proposal is not None
    assert (leader.proposal.isr, leader.proposal.expands) == ((ME, THIRD), False)
    assert leader.proposal.why == "2 last caught up 5.1 s ago, limit 5 s"
    assert leader.proposal.partition_epoch == 7
    assert leader.tick(200.0) == 0, "one change at a time"


def test_an_incarnation_that_never_caught_up_is_dropped_at_once() -> None:
    leader = leads((ME, SECOND))
    fetch(leader, SECOND, 10, 101.0, epoch=20)
    fetch(leader, SECOND, 3, 102.0, epoch=21)
    assert leader.tick(102.0) == PROPOSAL
    assert leader.proposal is not None
    assert (leader.proposal.isr, leader.proposal.why) == ((ME,), "2 never caught up, limit 5 s")


def test_leader_does_not_drop_a_silent_follower_that_has_everything() -> None:
    leader = leads((ME, SECOND))
    fetch(leader, SECOND, 10, 100.0)
    assert leader.tick(500.0) == 0


def test_a_proposal_counts_at_once_only_if_it_adds_a_replica() -> None:
    leader = leads((ME, SECOND))
    leader.appended(15, 100.0)
    leader.tick(200.0)
    assert leader.maximal_isr == (ME, SECOND)
    assert leader.high_watermark == 10, "it may still be in the ISR"
    adds = leads((ME,))
    fetch(adds, SECOND, 10)
    assert adds.maximal_isr == (ME, SECOND)
    adds.appended(15, 100.0)
    assert adds.high_watermark == 10, "it may be in the ISR already"
    assert adds.tick(200.0) == 0
    assert adds.high_watermark == 10, "however long it is silent"


# Which follower to let in


def test_leader_proposes_a_follower_with_all_that_is_committed_and_was_there_at_the_start() -> None:
    leader = leads((ME,), end=10, high_watermark=6, minimum=2)
    assert fetch(leader, SECOND, 9) == 0, "this epoch began at 10"
    assert fetch(leader, SECOND, 10) == PROPOSAL
    assert leader.proposal is not None
    assert leader.proposal[:4] == ((ME, SECOND), (None, 20), 7, True)
    assert leader.proposal.why == "2 has caught up"


def test_leader_does_not_propose_a_follower_that_lacks_committed_records() -> None:
    leader = leads((ME,))
    leader.appended(15, 100.0)
    assert (leader.high_watermark, fetch(leader, SECOND, 14)) == (15, 0)


@pytest.mark.parametrize("epoch", [None, 21])
def test_leader_does_not_propose_a_fenced_broker_or_another_incarnation(epoch: int | None) -> None:
    leader = leads((ME,))
    leader.brokers_changed({SECOND: epoch}, 100.0)
    assert fetch(leader, SECOND, 10) == 0
    assert leader.brokers_changed({THIRD: 30}, 100.0) == 0
    assert leader.brokers_changed({SECOND: 20}, 100.0) == PROPOSAL, "it waited for nothing else"


def test_a_replica_that_left_the_isr_may_join_only_by_what_it_fetches_from_then_on() -> None:
    leader = leads((ME, SECOND))
    fetch(leader, SECOND, 10)
    assert leader.assigned(ALL, (ME,), 8, EPOCHS, 100.0) == SHRANK
    assert leader.proposal is None
    assert leader.brokers_changed({SECOND: 20}, 100.0) == 0
    assert leader.tick(100.0) == 0
    assert fetch(leader, SECOND, 10) == PROPOSAL


def test_a_proposal_keeps_the_epochs_of_those_it_was_made_for() -> None:
    leader = leads((ME,))
    fetch(leader, SECOND, 10)
    asked = leader.proposal
    fetch(leader, SECOND, 10, epoch=21)
    assert asked is not None
    assert leader.proposal is asked
    assert asked.epochs == (None, 20)


def test_a_replica_that_sent_no_epoch_is_named_without_one() -> None:
    leader = leads()
    leader.appended(11, 100.0)
    fetch(leader, SECOND, 10, 100.0)
    fetch(leader, SECOND, 11, 104.0)
    leader.tick(100.1 + LAG)
    assert leader.proposal is not None
    assert leader.proposal[:2] == ((ME, SECOND), (None, 20))


def test_a_follower_with_deleted_records_joins_the_isr_once_it_has_deleted_them() -> None:
    leader = leads((ME,))
    assert fetch(leader, SECOND, 10, start=0, own_start=5) & PROPOSAL == 0
    assert leader.tick(100.0) & PROPOSAL == 0
    assert fetch(leader, SECOND, 10, start=5, own_start=5) & PROPOSAL


# The controller's word


def test_a_change_that_was_made_counts_when_the_metadata_has_it() -> None:
    """min.insync.replicas may have been raised before it: the metadata brings that, too."""
    leader = leads((ME,))
    fetch(leader, SECOND, 10)
    first = leader.proposal
    assert first is not None
    assert leader.answered(first, Answer(Code.NONE, 8), 100.0) == 0
    assert (leader.isr, leader.partition_epoch, leader.proposal) == ((ME,), 7, first)
    assert leader.appended(11, 100.0) & COMMITTED == 0, "the controller has it in the ISR by now"
    leader.assigned(ALL, (ME, SECOND), 8, EPOCHS, 100.0)
    assert (leader.isr, leader.partition_epoch) == ((ME, SECOND), 8)
    assert leader.reason == "2 has caught up"
    fetch(leader, THIRD, 10)
    second = leader.proposal
    assert second is not None
    assert second.partition_epoch == 8
    assert leader.assigned(ALL, (ME, SECOND), 8, EPOCHS, 100.0) == 0
    assert leader.proposal is second
    assert leader.answered(first, Answer(Code.OPERATION_NOT_ATTEMPTED), 100.0) == 0
    assert leader.proposal is second, "it is no answer to this one"
    leader.assigned(ALL, ALL, 9, EPOCHS, 100.0)
    assert (leader.isr, leader.proposal, leader.reason) == (ALL, None, "3 has caught up")


def test_metadata_that_was_not_asked_for_has_its_own_reason() -> None:
    leader = leads((ME, SECOND))
    fetch(leader, THIRD, 10)
    assert leader.proposal is not None
    leader.assigned(ALL, (ME,), 8, EPOCHS, 100.0)
    assert (leader.isr, leader.reason) == ((ME,), "")


def test_an_answer_older_than_the_metadata_changes_nothing_but_is_an_answer() -> None:
    leader = leads((ME,))
    fetch(leader, SECOND, 10)
    asked = leader.proposal
    assert asked is not None
    assert leader.answered(asked, Answer(Code.NONE, 7), 100.0) == 0
    assert (leader.isr, leader.proposal) == ((ME,), None)


def test_metadata_with_an_unchanged_isr_restates_no_position() -> None:
    leader = leads((ME, SECOND))
    fetch(leader, SECOND, 10)
    assert leader.assigned(ALL, (SECOND, ME), 8, EPOCHS, 100.0) == 0
    assert leader.partition_epoch == 8


def test_leader_does_not_propose_a_follower_that_was_caught_up_too_long_ago_until_it_fetches() -> None:
    leader = leads((ME, SECOND), minimum=3)
    fetch(leader, SECOND, 10)
    fetch(leader, THIRD, 10)
    asked = leader.proposal
    assert asked is not None
    leader.answered(asked, Answer(Code.OPERATION_NOT_ATTEMPTED), 100.0)
    leader.appended(11, 100.0)
    fetch(leader, SECOND, 11, 101.0)
    assert leader.high_watermark == 10, "two are too few"
    assert leader.tick(100.1 + LAG) == 0
    assert fetch(leader, THIRD, 10, 100.1 + LAG) == PROPOSAL


def test_an_isr_with_a_member_that_may_not_be_in_one_is_not_asked_for() -> None:
    """It would be refused as a whole, again and again. The member leaves first, as one that lags."""
    leader = leads((ME, SECOND))
    leader.brokers_changed({SECOND: None}, 100.0)
    assert fetch(leader, THIRD, 10) == 0
    assert leader.tick(100.1 + LAG) == PROPOSAL
    assert leader.proposal is not None and leader.proposal.isr == (ME,)


def test_leader_next_proposes_a_follower_that_caught_up_during_another_proposal() -> None:
    leader = leads((ME,))
    fetch(leader, SECOND, 10)
    assert fetch(leader, THIRD, 10) == 0, "one change at a time"
    assert leader.assigned(ALL, (ME, SECOND), 8, EPOCHS, 100.0) == PROPOSAL
    assert leader.proposal is not None
    assert leader.proposal.isr == ALL


@pytest.mark.parametrize(
    ("code", "meaning"),
    [
        (Code.NONE, Meaning.MADE),
        (Code.OPERATION_NOT_ATTEMPTED, Meaning.REFUSED),
        (Code.INELIGIBLE_REPLICA, Meaning.REFUSED),
        (Code.FENCED_LEADER_EPOCH, Meaning.OUTDATED),
        (Code.NEW_LEADER_ELECTED, Meaning.OUTDATED),
        (Code.INVALID_UPDATE_VERSION, Meaning.OUTDATED),
        (Code.INVALID_REQUEST, Meaning.OUTDATED),
        (Code.UNKNOWN_TOPIC_ID, Meaning.OUTDATED),
        (Code.UNKNOWN_TOPIC_OR_PARTITION, Meaning.OUTDATED),
        (Code.NOT_CONTROLLER, Meaning.UNANSWERED),
        (Code.UNKNOWN_SERVER_ERROR, Meaning.UNANSWERED),
    ],
)
def test_each_error_code_of_alter_partition_has_its_meaning_for_the_proposal(code: Code, meaning: Meaning) -> None:
    assert meaning_of(code) is meaning
    leader = leads((ME,))
    fetch(leader, SECOND, 10)
    asked = leader.proposal
    assert asked is not None
    leader.answered(asked, Answer(code, 8), 100.0)
    assert leader.isr == (ME,)
    assert (leader.proposal is asked) is (meaning is not Meaning.REFUSED)


def test_a_replica_that_is_taken_away_is_forgotten_and_one_that_comes_is_unknown() -> None:
    leader = leads((ME, SECOND), (ME, SECOND))
    fetch(leader, SECOND, 10)
    leader.assigned((ME, THIRD), (ME,), 8, EPOCHS, 100.0)
    assert list(leader.followers) == [THIRD]
    assert leader.followers[THIRD].end is None
