"""A follower broker's conversation with one leader: what the next fetch names, and when it may leave."""

from __future__ import annotations

import struct

import pytest

from highwater.errors import Code
from highwater.log.epoch_cache import EpochCache
from highwater.replication.conversation import MAX_EPOCH, Conversation, next_epoch
from highwater.replication.follower import Ends, Follower, Row


def follower(**more: bool) -> Follower:
    return Follower(5, 1.0, **more)


def talking(*keys: str) -> Conversation[str]:
    """In a session, with nothing in flight; the leader knows where everybody is."""
    talk: Conversation[str] = Conversation()
    for key in keys:
        talk.follow(key, follower())
    talk.begin_session()
    talk.fetch()
    talk.answered(77)
    talk.taken()
    return talk


def move(talk: Conversation[str], key: str) -> None:
    talk.followers[key].appended(Row(), Ends(0, 1), Ends(0, 2), 0)
    talk.note(key)


def test_the_first_fetch_names_all_begins_a_session_and_does_not_wait() -> None:
    talk: Conversation[str] = Conversation()
    assert not talk.is_due, "there is nothing to ask for"
    talk.follow("a", follower())
    talk.follow("b", follower())
    talk.begin_session()
    assert talk.is_due
    assert talk.fetch() == (1, 0, 0, False, ["a", "b"], [])
    assert not talk.is_due, "one at a time"


def test_a_conversation_begins_without_a_session() -> None:
    talk: Conversation[str] = Conversation()
    talk.follow("a", follower())
    assert talk.fetch() == (1, 0, 0, False, ["a"], [])


def test_a_response_is_taken_by_the_partitions_that_its_fetch_named() -> None:
    talk: Conversation[str] = Conversation()
    talk.follow("a", follower())
    fetch = talk.fetch()
    talk.follow("b", follower())
    taken = [each.answered(fetch.number, Row(), Ends(0, 1), 0, EpochCache()).takes for each in talk.followers.values()]
    assert taken == [True, False]


def test_the_next_ones_name_what_moved_and_wait() -> None:
    talk = talking("a", "b")
    move(talk, "b")
    assert talk.moved == ["b"]
    assert talk.fetch() == (2, 77, 1, True, ["b"], [])
    talk.answered(77)
    assert talk.fetch() == (3, 77, 2, True, [], [])


def test_without_a_fetch_session_each_fetch_names_all_partitions_and_waits() -> None:
    talk = talking("a", "b")
    talk.fetch()
    talk.answered(0)
    talk.taken()
    assert talk.fetch() == (3, 0, 0, True, ["a", "b"], [])


def test_a_fetch_that_waits_is_overtaken_by_one_that_names_a_new_partition() -> None:
    talk = talking("a")
    talk.fetch()
    move(talk, "a")
    assert not talk.is_due, "that one is named"
    talk.follow("b", follower())
    assert talk.is_due
    assert talk.fetch() == (3, 77, 2, True, ["a", "b"], [])
    talk.follow("c", follower())
    assert not talk.is_due, "one such at a time"


def test_no_second_fetch_is_sent_before_there_is_a_session() -> None:
    talk: Conversation[str] = Conversation()
    talk.follow("a", follower())
    talk.begin_session()
    talk.fetch()
    talk.follow("b", follower())
    assert not talk.is_due


def test_a_paused_follower_leaves_the_session_and_comes_back() -> None:
    talk = talking("a", "b")
    move(talk, "a")
    talk.followers["a"].failed()
    talk.note("a")
    assert talk.fetch()[4:] == ([], ["a"])
    talk.answered(77)
    talk.followers["a"].resumed()
    talk.note("a")
    assert talk.fetch()[4:] == (["a"], [])


def test_a_follower_that_returns_before_the_next_fetch_is_named_and_not_forgotten() -> None:
    talk = talking("a", "b")
    talk.followers["a"].failed()
    talk.note("a")
    talk.followers["a"].resumed()
    talk.note("a")
    assert talk.fetch()[4:] == (["a"], [])


def test_an_unfollowed_partition_leaves_the_session_and_takes_nothing_in() -> None:
    talk = talking("a", "b")
    gone = talk.followers["a"]
    talk.unfollow("a")
    talk.unfollow("a")
    talk.unfollow("never followed")
    assert (gone.fetches, talk.fetch()[4:]) == (False, ([], ["a"]))
    talk.answered(77)
    assert talk.fetch()[4:] == ([], []), "the session has lost it already"


@pytest.mark.parametrize("how", ["its role was another in between", "it follows the same leader"])
def test_a_partition_being_cut_at_the_start_of_a_term_leaves_the_session(how: str) -> None:
    """Otherwise the leader would refuse what it said in the last term at once, again and again."""
    talk = talking("a", "b")
    if how == "its role was another in between":
        talk.unfollow("a")
    talk.follow("a", follower(is_being_cut=True))
    assert talk.fetch()[4:] == ([], ["a"])


def test_a_new_session_has_nothing_to_forget() -> None:
    talk = talking("a", "b")
    talk.unfollow("b")
    talk.lost()
    talk.begin_session()
    assert talk.fetch() == (2, 0, 0, False, ["a"], [])


def test_a_partition_that_is_followed_again_is_named_again_by_a_new_follower() -> None:
    talk = talking("a")
    before = talk.followers["a"]
    talk.unfollow("a")
    talk.follow("a", follower())
    assert not before.fetches
    assert talk.fetch()[4:] == (["a"], [])
    talk.follow("a", follower())
    assert talk.moved == ["a"]


def test_no_fetch_is_due_while_all_followers_pause() -> None:
    talk = talking("a")
    talk.followers["a"].failed()
    talk.note("a")
    assert not talk.is_due


def test_a_partition_being_cut_is_not_named_before_the_cut_has_ended() -> None:
    talk = talking("a")
    talk.follow("b", follower(is_being_cut=True))
    assert talk.moved == []
    talk.followers["b"].truncated()
    talk.note("b")
    assert talk.moved == ["b"]


def test_a_fetch_waits_for_what_it_would_acknowledge() -> None:
    talk = talking("a", "b")
    move(talk, "a")
    machine = talk.sync("a")
    assert machine is talk.followers["a"]
    assert talk.sync("a") is None, "it is under way"
    assert talk.is_syncing
    with pytest.raises(AssertionError):
        talk.fetch()
    talk.synced("a", machine)
    assert not talk.is_syncing
    assert talk.fetch()[4] == ["a"]


def test_a_sync_of_an_earlier_term_says_nothing_of_this_one() -> None:
    talk = talking("a")
    move(talk, "a")
    before = talk.sync("a")
    assert before is not None
    talk.follow("a", follower())
    assert not talk.is_syncing, "nobody waits for the old one"
    assert talk.sync("a") is talk.followers["a"]
    talk.synced("a", before)
    assert talk.is_syncing


def test_a_log_start_that_is_written_down_is_sent_by_a_fetch_that_overtakes_the_one_that_waits() -> None:
    talk = talking("a")
    talk.fetch()
    assert not talk.is_due
    talk.restate("a")
    assert talk.is_due
    assert talk.fetch().named == ["a"]


def test_a_log_start_of_a_follower_that_does_not_fetch_is_sent_when_it_does_again() -> None:
    talk = talking("a", "b")
    talk.followers["a"].failed()
    talk.note("a")
    talk.restate("a")
    assert talk.moved == []


@pytest.mark.parametrize(
    "code", [Code.FETCH_SESSION_ID_NOT_FOUND, Code.INVALID_FETCH_SESSION_EPOCH, Code.NOT_CONTROLLER]
)
def test_a_fetch_that_is_refused_begins_another_session_at_once_if_only_that_was_lost(code: Code) -> None:
    talk = talking("a", "b")
    talk.unfollow("b")
    talk.fetch()
    assert talk.refused(code) is (code is not Code.NOT_CONTROLLER)
    assert talk.fetch() == (3, 0, 0, False, ["a"], [])


def test_a_lost_connection_loses_all_fetches_on_their_way() -> None:
    talk = talking("a")
    talk.fetch()
    talk.lost()
    talk.begin_session()
    assert talk.is_due
    assert talk.fetch() == (3, 0, 0, False, ["a"], [])


def test_epochs_of_a_session_go_round_to_one() -> None:
    assert [next_epoch(epoch) for epoch in (0, 7, MAX_EPOCH)] == [1, 8, 1]
    assert next_epoch(MAX_EPOCH, 0) == MAX_EPOCH
    assert next_epoch(MAX_EPOCH - 1, 2) == 1
    assert struct.pack(">i", MAX_EPOCH) == b"\x7f\xff\xff\xff", "the largest number that its field can have"
