"""Fetch sessions: created while there is room, resumed in step, marked by what changes."""

from __future__ import annotations

from random import Random

import pytest

from highwater.errors import Code, KafkaError
from highwater.partition.fetch_session import (
    EVICT_IDLE_SECONDS,
    FINAL_EPOCH,
    INITIAL_EPOCH,
    MOST_ENTRIES,
    FetchSession,
    FetchSessions,
)
from highwater.replication.conversation import MAX_EPOCH


def sessions(slots: int = 2) -> FetchSessions:
    return FetchSessions(slots, Random(1))


def refused(resume: object, code: Code) -> None:
    with pytest.raises(KafkaError) as refusal:
        resume()  # type: ignore[operator]
    assert refusal.value.code is code


def test_a_session_is_resumed_with_the_next_epoch_only() -> None:
    held = sessions()
    session = held.create(True, False, 0.0, 0)
    assert session.id > 0
    assert held.resume(session.id, 1, True, 1.0) is session
    assert held.resume(session.id, 2, True, 1.0) is session
    for wrong in (1, 2, 4):
        refused(lambda wrong=wrong: held.resume(session.id, wrong, True, 1.0), Code.INVALID_FETCH_SESSION_EPOCH)
    refused(lambda: held.resume(session.id + 1, 3, True, 1.0), Code.FETCH_SESSION_ID_NOT_FOUND)
    refused(lambda: held.resume(session.id, 3, False, 1.0), Code.FETCH_SESSION_TOPIC_ID_ERROR)


def test_the_epoch_wraps_to_one() -> None:
    held = sessions()
    session = held.create(True, False, 0.0, 0)
    session.epoch = MAX_EPOCH
    held.resume(session.id, MAX_EPOCH, True, 0.0)
    assert session.epoch == 1


def test_without_room_a_client_must_ask_in_full_each_time() -> None:
    held = sessions(slots=2)
    for _ in range(2):
        assert held.create(True, False, 0.0, 0).id > 0
    assert held.create(True, False, 1.0, 0).id == 0
    assert len(held) == 2
    assert sessions(slots=0).create(True, True, 0.0, 0).id == 0


def test_the_longest_unused_goes_once_it_is_idle() -> None:
    held = sessions(slots=2)
    first, second = held.create(True, False, 0.0, 0), held.create(True, False, 0.0, 0)
    held.resume(first.id, 1, True, EVICT_IDLE_SECONDS)
    assert held.create(True, False, EVICT_IDLE_SECONDS + 1, 0).id > 0
    held.resume(first.id, 2, True, EVICT_IDLE_SECONDS + 1)
    refused(lambda: held.resume(second.id, 1, True, EVICT_IDLE_SECONDS + 1), Code.FETCH_SESSION_ID_NOT_FOUND)


def test_a_follower_takes_a_consumers_place_and_never_the_other_way() -> None:
    held = sessions(slots=1)
    consumer = held.create(True, False, 0.0, 0)
    follower = held.create(True, True, 0.0, 0)
    assert follower.id > 0
    refused(lambda: held.resume(consumer.id, 1, True, 0.0), Code.FETCH_SESSION_ID_NOT_FOUND)
    assert held.create(True, False, 1.0, 0).id == 0


def test_a_mark_makes_an_entry_dirty_and_wakes_the_waiting_fetch() -> None:
    session = FetchSession(1, False, False, 0.0)
    woken: list[int] = []
    session.update("orders", 0, -1, 5, -1, -1, 1000)
    entry = session.entries["orders", 0]
    assert list(session.dirty) == [entry]
    session.dirty.clear()
    session.on_mark = lambda: woken.append(1)
    entry.mark()
    entry.mark()
    assert list(session.dirty) == [entry]
    assert woken == [1, 1]
    session.forget("orders", [0, 7])
    assert (session.entries, session.dirty) == ({}, {})


def test_consumers_get_no_session_beyond_what_all_sessions_may_hold_and_followers_do() -> None:
    held = sessions(slots=10)
    first = held.create(True, False, 0.0, MOST_ENTRIES)
    assert first.id > 0
    first.update("t", 0, -1, 0, -1, -1, 100)
    assert held.create(True, False, 0.0, MOST_ENTRIES).id == 0
    assert held.create(True, True, 0.0, MOST_ENTRIES).id > 0
    assert held.create(True, False, 0.0, 10).id > 0


def test_a_session_grows_within_what_all_sessions_may_hold_and_not_beyond() -> None:
    held = FetchSessions(10, Random(1), most=5)
    consumer, other, follower = (
        held.create(True, False, 0.0, 0),
        held.create(True, False, 0.0, 0),
        held.create(True, True, 0, 0),
    )
    for index in range(3):
        consumer.update("t", index, -1, 0, -1, -1, 100)
    other.update("t", 0, -1, 0, -1, -1, 100)
    follower.update("t", 0, -1, 0, -1, -1, 100)
    refused(lambda: consumer.update("t", 3, -1, 0, -1, -1, 100), Code.FETCH_SESSION_ID_NOT_FOUND)
    consumer.update("t", 2, -1, 7, -1, -1, 100)
    follower.update("t", 1, -1, 0, -1, -1, 100)
    consumer.forget("t", [0, 1])
    other.update("t", 1, -1, 0, -1, -1, 100)
    held.remove(follower)
    other.update("t", 2, -1, 0, -1, -1, 100)
    other.update("t", 3, -1, 0, -1, -1, 100)
    refused(lambda: other.update("t", 4, -1, 0, -1, -1, 100), Code.FETCH_SESSION_ID_NOT_FOUND)


def test_a_partition_that_a_session_forgot_is_not_restated() -> None:
    held = sessions(slots=10)
    session = held.create(True, True, 0.0, 0)
    session.update("t", 0, -1, 0, -1, -1, 100)
    entry = session.entries["t", 0]
    entry.restate()
    session.forget("t", [0])
    session.restate()
    assert not session.dirty


class Stuck(Random):
    """Draws the same number for every session."""

    def randrange(self, *_: int) -> int:  # type: ignore[override]
        return 7


def test_a_session_that_is_gone_is_no_longer_tied_to_its_connection() -> None:
    """Another one may have its id by the time the connection closes."""
    held = FetchSessions(2, Stuck())
    first = held.create(True, False, 0.0, 0)
    held.tie(first, "a connection")
    held.remove(first)
    second = held.create(True, False, 0.0, 0)
    held.tie(second, "another")
    assert first.id == second.id
    held.end_with("a connection")
    assert held.resume(second.id, 1, True, 1.0) is second
    held.end_with("another")
    assert len(held) == 0


def test_a_session_begins_by_epoch_zero_and_ends_by_minus_one() -> None:
    assert (INITIAL_EPOCH, FINAL_EPOCH) == (0, -1), "so the protocol has it"


class Asked(Random):
    """Notes what it is asked for."""

    def randrange(self, *limits: int) -> int:  # type: ignore[override]
        self.limits = limits
        return limits[0]


def test_ids_of_sessions_are_all_that_their_field_can_have_above_zero() -> None:
    random = Asked()
    assert FetchSessions(2, random).create(True, False, 0.0, 0).id == 1
    assert random.limits == (1, 2**31)


def test_a_session_goes_only_when_it_is_idle_for_longer_than_it_may_be() -> None:
    held = sessions(slots=1)
    held.create(True, False, 0.0, 0)
    assert held.create(True, False, EVICT_IDLE_SECONDS, 0).id == 0
    assert held.create(True, False, EVICT_IDLE_SECONDS + 0.5, 0).id > 0


def test_a_session_that_is_used_is_not_idle() -> None:
    held = sessions(slots=1)
    session = held.create(True, False, 0.0, 0)
    held.resume(session.id, 1, True, 100.0)
    assert session.contact.at == 100.0
    assert held.create(True, False, EVICT_IDLE_SECONDS + 1, 0).id == 0


def test_a_follower_takes_the_place_of_the_consumer_that_was_used_longest_ago() -> None:
    held = sessions(slots=2)
    first, second = held.create(True, False, 0.0, 0), held.create(True, False, 0.0, 0)
    held.resume(first.id, 1, True, 1.0)
    held.create(True, True, 1.0, 0)
    refused(lambda: held.resume(second.id, 1, True, 1.0), Code.FETCH_SESSION_ID_NOT_FOUND)
    assert held.resume(first.id, 2, True, 1.0) is first


def test_all_sessions_of_a_connection_end_with_it_and_the_first_is_known() -> None:
    held = sessions(slots=3)
    first, second, other = (held.create(True, False, 0.0, 0) for _ in range(3))
    assert [held.tie(first, "one"), held.tie(second, "one"), held.tie(other, "two")] == [True, False, True]
    held.end_with("one")
    assert len(held) == 1
    assert held.resume(other.id, 1, True, 0.0) is other
    held.end_with("one")
    held.remove_id(first.id)
    assert len(held) == 1


def test_a_session_keeps_the_position_of_a_partition_until_the_next_one() -> None:
    session = FetchSession(1, False, False, 0.0)
    for epoch, offset, last, start, size in ((3, 5, 2, 1, 1000), (4, 9, 3, 2, 500)):
        session.update("orders", 0, epoch, offset, last, start, size)
        entry = session.entries["orders", 0]
        position = (entry.epoch, entry.offset, entry.last_fetched_epoch, entry.log_start, entry.max_bytes)
        assert (position, entry.is_fresh) == ((epoch, offset, last, start, size), True)
        entry.is_fresh = False


def test_the_next_request_stands_by_what_was_taken_back_once() -> None:
    held = sessions()
    session = held.create(True, True, 0.0, 0)
    session.update("t", 0, -1, 0, -1, -1, 100)
    entry = session.entries["t", 0]
    for turn, restated in ((1, True), (2, False)):
        entry.is_fresh = False
        session.dirty.clear()
        if restated:
            entry.restate()
            assert not session.dirty, "nothing has changed there"
        held.resume(session.id, turn, True, 0.0)
        assert (entry.is_fresh, list(session.dirty)) == (restated, [entry] if restated else [])


def waiting(session: FetchSession) -> list[str]:
    """How a request that waits in the session is notified."""
    position: list[str] = []
    session.on_mark = lambda: position.append("marked")
    session.on_overtaken = lambda: position.append("overtaken")
    return position


def test_a_waiting_fetch_is_answered_when_the_next_request_comes_or_the_session_ends() -> None:
    held = sessions()
    session = held.create(True, False, 0.0, 0)
    position = waiting(session)
    held.resume(session.id, 1, True, 0.0)
    assert position == ["overtaken"]
    held.remove(session)
    assert position == ["overtaken", "overtaken"]


def test_a_reader_that_is_gone_is_not_notified() -> None:
    session = FetchSession(1, False, False, 0.0)
    session.update("t", 0, -1, 0, -1, -1, 100)
    position = waiting(session)
    session.abandon()
    session.entries["t", 0].mark()
    session.overtake()
    assert position == []


def test_a_session_that_has_ended_holds_nothing_and_wakes_no_fetch() -> None:
    session = FetchSession(1, False, True, 0.0)
    session.update("t", 0, -1, 0, -1, -1, 100)
    entry = session.entries["t", 0]
    entry.restate()
    position = waiting(session)
    session.close()
    assert (session.entries, session.dirty, session.restated, position) == ({}, {}, {}, ["overtaken"])
    entry.mark()
    assert position == ["overtaken"]


@pytest.mark.parametrize("is_follower", [True, False])
def test_a_follower_that_names_its_place_anew_is_answered_anew(is_follower: bool) -> None:
    """It takes nothing in of an answer about a place where it no longer is. A consumer has kept what it heard."""
    session = FetchSession(1, False, is_follower, 0.0)
    session.update("orders", 0, 3, 0, 3, 0, 1000)
    entry = session.entries["orders", 0]
    entry.sent_high_watermark, entry.sent_log_start = 7, 2
    session.update("orders", 0, 3, 1, 3, 0, 1000)
    unknown = (-1, -1) if is_follower else (7, 2)
    assert (entry.sent_high_watermark, entry.sent_log_start) == unknown
