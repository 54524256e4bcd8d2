"""A follower at work: what it asks its leader for and when, and what it makes of each answer."""

from __future__ import annotations

import errno
from itertools import pairwise

import pytest

from highwater.errors import Code
from highwater.partition import fetcher
from highwater.partition.fetcher import CONNECT_SECONDS
from highwater.partition.throttle import Throttle
from highwater.sim import Knobs
from tests.unit.log.bench import TOPIC_ID
from tests.unit.partition.following import (
    BROKER_EPOCH,
    ELSEWHERE,
    EPOCH,
    LEADER,
    LEADER_AT,
    LIMITS,
    ME,
    REPLICAS,
    SESSION,
    Following,
    batch,
    diverging,
    row,
    warnings,
)

SLOW_SYNCS = Knobs(flush_round=(0.5, 0.5))


# What is asked


def test_the_first_fetch_names_the_replica_the_partitions_and_their_offsets() -> None:
    with Following(2) as scene:
        scene.follow()
        request = scene.fetch().request
        assert (request.replica_state.replica_id, request.replica_state.replica_epoch) == (ME, BROKER_EPOCH)
        assert (request.session_id, request.session_epoch, request.max_wait_ms) == (0, 0, 0)
        assert (request.min_bytes, request.max_bytes) == (LIMITS.min_bytes, LIMITS.response_bytes)
        (topic,) = request.topics
        assert topic.topic_id == TOPIC_ID
        place = topic.partitions[1]
        assert (place.partition, place.current_leader_epoch, place.fetch_offset) == (1, EPOCH, 0)
        assert (place.last_fetched_epoch, place.log_start_offset) == (-1, 0)
        assert place.partition_max_bytes == LIMITS.partition_bytes
        assert request.forgotten_topics_data == []


def test_fetched_batches_are_appended_and_acknowledged_by_the_next_fetch() -> None:
    with Following(2) as scene:
        fetch = scene.begun(row(0, batch(0, b"a", b"b"), high_watermark=1))
        assert (fetch.places, fetch.session, fetch.request.max_wait_ms) == ({0: 2}, (SESSION, 1), LIMITS.wait_ms)
        assert fetch.request.topics[0].partitions[0].last_fetched_epoch == EPOCH
        assert (scene.ends, scene.partition.log.high_watermark) == ([2, 0], 1)
        assert (scene.partition.replication_bytes_in, scene.partitions[1].replication_bytes_in) == (
            len(batch(0, b"a", b"b")),
            0,
        )
        fetch.answer()
        assert scene.fetch().places == {}, "there is no news"


def test_of_several_batches_those_of_a_later_epoch_are_left() -> None:
    with Following() as scene:
        fetch = scene.begun(row(0, batch(0) + batch(1) + batch(2, epoch=EPOCH + 1)))
        assert (fetch.places, scene.ends) == ({0: 2}, [2])


def test_a_partition_that_is_unfollowed_during_its_sync_does_not_hold_up_the_others() -> None:
    with Following(2, Knobs(flush_round=(20.0, 20.0)), flush_messages=1) as scene:
        scene.follow()
        scene.fetch().answer(row(0, batch(0)))
        assert scene.is_silent(1.0), "the first one is synced before it is acknowledged"
        scene.call(scene.fetchers.unfollow, scene.partitions[0])
        scene.sim.advance(1.0)
        assert [fetch.forgotten for fetch in scene.fetches] == [[0]]


def test_nothing_is_asked_before_the_broker_is_registered() -> None:
    with Following() as scene:
        scene.broker_epoch = -1
        scene.follow()
        assert scene.is_silent()
        scene.broker_epoch = 0
        scene.call(scene.fetchers.registered)
        assert scene.fetch().request.replica_state.replica_epoch == 0


@pytest.mark.parametrize(("version", "follows"), [(14, False), (15, True)])
def test_a_leader_that_does_not_know_broker_epochs_is_not_followed(version: int, follows: bool) -> None:
    with Following(versions=(4, version)) as scene:
        scene.follow()
        assert scene.is_silent() is not follows


def test_a_leader_that_knows_them_later_is_followed_then() -> None:
    with Following(versions=(4, 14)) as scene:
        scene.follow()
        assert scene.is_silent()
        assert scene.server.stats.accepted > 1, "it is dialled again, and may be another by then"
        scene.sim.run(scene.leading.perform(scene.server.close()))
        scene.versions = (4, 15)
        scene.serve(LEADER_AT)
        assert scene.fetch().places == {0: 0}


@pytest.mark.parametrize("dial", ["first", "second"])
def test_a_partition_that_is_added_while_connecting_is_fetched_when_the_leader_answers(
    dial: str, caplog: pytest.LogCaptureFixture
) -> None:
    with Following(2) as scene:
        if dial == "second":
            scene.follow(0)
            scene.fetch().answer()
            scene.fetch()
            scene.sim.reset("follower", "leader")
            scene.until(lambda: scene.doubted)
        scene.sim.slow("follower", "leader", (1.0, 1.0))
        scene.follow(0)
        scene.sim.advance(0.2)
        accepted = scene.server.stats.accepted
        scene.follow(1)
        assert (scene.fetch().places, scene.server.stats.accepted - accepted) == ({0: 0, 1: 0}, 1)
        assert not warnings(caplog), "what it knows is not known before it answers"


def test_one_fetch_at_a_time_but_for_one_that_names_another_partition() -> None:
    with Following(3) as scene:
        scene.follow(0)
        first = scene.fetch()
        scene.follow(1)
        assert scene.is_silent(), "there is no session yet"
        first.answer()
        second = scene.fetch()
        assert second.places == {1: 0}
        scene.follow(2)
        third = scene.fetch()
        assert (third.places, third.session) == ({2: 0}, (SESSION, 2))


def test_partitions_followed_at_the_same_moment_share_one_fetch() -> None:
    """Partitions that are followed from the same moment on are asked for together."""
    with Following(3) as scene:
        scene.begun().answer()
        scene.fetch()
        for index in range(3):
            scene.begin_term(EPOCH + 1, index)
        assert scene.fetch().places == {0: 0, 1: 0, 2: 0}


# The session and the connection


def test_a_session_that_is_lost_is_begun_anew_at_once() -> None:
    with Following() as scene:
        fetch = scene.begun(row(0, batch(0)))
        before = scene.sim.now
        fetch.answer(code=Code.FETCH_SESSION_ID_NOT_FOUND)
        again = scene.fetch()
        assert (again.session, again.places) == ((0, 0), {0: 1})
        assert again.at - before < LIMITS.backoff


def test_a_fetch_that_is_refused_is_made_again_after_a_while() -> None:
    with Following() as scene:
        fetch = scene.begun(row(0, batch(0)))
        before = scene.sim.now
        fetch.answer(row(0, batch(1)), code=Code.UNKNOWN_SERVER_ERROR)
        again = scene.fetch()
        assert (again.session, again.places, scene.ends) == ((0, 0), {0: 1}, [1])
        assert again.at - before >= LIMITS.backoff


def test_a_leader_without_room_for_a_session_is_sent_everything_each_time() -> None:
    with Following(2) as scene:
        scene.follow()
        scene.fetch().answer(session=0)
        fetch = scene.fetch()
        assert (fetch.session, fetch.places, fetch.request.max_wait_ms) == ((0, 0), {0: 0, 1: 0}, LIMITS.wait_ms)


def test_a_connection_that_is_lost_is_logged_and_soon_dialled_again() -> None:
    with Following() as scene:
        scene.begun(row(0, batch(0)))
        before = scene.sim.now
        scene.sim.reset("follower", "leader")
        again = scene.fetch()
        assert (again.session, again.places, len(scene.doubted)) == ((0, 0), {0: 1}, 1)
        assert again.at - before < LIMITS.backoff / 2


def test_a_leader_that_refuses_is_doubted_each_time_and_one_that_is_back_is_followed() -> None:
    with Following() as scene:
        scene.follow(at=ELSEWHERE)
        scene.until(lambda: len(scene.doubted) >= 3)
        assert all(one < other < one + LIMITS.backoff for one, other in pairwise(scene.doubted))
        scene.serve(ELSEWHERE)
        assert scene.fetch().places == {0: 0}


def test_a_leader_that_does_not_answer_is_not_doubted_and_left_alone_for_the_whole_backoff() -> None:
    with Following() as scene:
        scene.limits = LIMITS._replace(backoff=20.0)
        scene.sim.cut("follower", "leader")
        scene.follow()
        scene.sim.advance(CONNECT_SECONDS + 1)
        scene.sim.heal()
        assert scene.is_silent(15.0)
        assert scene.fetch().places == {0: 0}
        assert scene.doubted == []


def test_an_answer_that_does_not_come_in_time_ends_the_connection() -> None:
    with Following() as scene:
        scene.limits = LIMITS._replace(wait_ms=500_000, backoff=0.01)
        scene.begun()
        assert scene.is_silent(500 + LIMITS.timeout - 0.2), "the leader may hold it so long"
        assert scene.fetch().session == (0, 0)


def test_a_closed_fetcher_sends_no_fetch_and_ignores_answers() -> None:
    with Following() as scene:
        fetch = scene.begun()
        scene.call(scene.fetchers.close)
        fetch.answer(row(0, batch(0)))
        assert scene.is_silent(60.0)
        assert (scene.ends, scene.fetchers.following(scene.partition), scene.doubted) == ([0], 0, [])
        assert not scene.fetchers.follows(scene.partition)


def test_a_turn_that_was_due_when_a_fetcher_is_closed_does_nothing() -> None:
    with Following() as scene:
        scene.begun()

        def begin_a_term_and_close() -> None:
            scene.partition.step_down(LEADER, EPOCH + 1, 2, REPLICAS)
            scene.fetchers.follow(scene.partition, LEADER, LEADER_AT)
            scene.fetchers.close()

        scene.call(begin_a_term_and_close)
        assert scene.is_silent()


def test_a_cut_that_its_fetcher_no_longer_means_is_not_made() -> None:
    with Following() as scene:
        fetch = scene.begun(row(0, batch(0) + batch(1)))
        fault = scene.storage.fail("append", "/data/recovery-point-offset-checkpoint*", errno.ENOSPC, times=None)
        fetch.answer(diverging(EPOCH, 1))
        scene.until(lambda: scene.partition.is_being_cut and fault.struck)
        scene.call(scene.fetchers.close)
        scene.storage.mend()
        scene.until(lambda: not scene.partition.is_being_cut)
        assert scene.ends == [2]


def test_a_mistake_in_a_turn_ends_that_turn_and_the_next_comes_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    with Following() as scene:
        scene.sim.forgives = True
        fetch = scene.begun(row(0, batch(0)))
        failing = True

        def fails(keys: object) -> list[object]:
            if failing:
                raise ValueError("a mistake")
            return []

        monkeypatch.setattr(fetcher, "_unwanted", fails)
        fetch.answer(row(0, batch(1)))
        assert scene.is_silent(0.5)
        assert scene.world.failures.counts["periodic"] == 1
        failing = False
        assert scene.fetch().places == {0: 2}


@pytest.mark.parametrize("where", ["is_unsynced", "when_durable", "place"])
def test_a_mistake_at_one_partition_does_not_stop_the_others(monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    with Following(2, flush_messages=1) as scene:
        scene.sim.forgives = True
        fetch = scene.begun(row(0, batch(0)), row(1, batch(0)))
        right, failing = getattr(fetcher.Followed, where), True

        def fails(followed: fetcher.Followed, *args: object) -> object:
            if failing and followed.partition is scene.partition:
                raise ValueError("a mistake")
            return right.fget(followed) if isinstance(right, property) else right(followed, *args)

        monkeypatch.setattr(fetcher.Followed, where, property(fails) if isinstance(right, property) else fails)
        fetch.answer(row(0, batch(1)), row(1, batch(1)))
        after = scene.fetch()
        assert (after.places, after.session) == ({1: 2}, (SESSION, 2))
        assert (scene.world.failures.counts["partition"], scene.world.failures.counts["periodic"]) == (1, 0)
        failing = False
        assert scene.fetch().places == {0: 2}


def test_a_mistake_of_the_throttle_at_one_partition_does_not_stop_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    with Following(2) as scene:
        scene.sim.forgives = True
        fetch = scene.begun(row(0, batch(0)), row(1, batch(0)))
        scene.rate, failing = 1000, True

        def holds(throttle: Throttle, partition: object, follower: object) -> bool:
            if failing and partition is scene.partition:
                raise ValueError("a mistake")
            return False

        monkeypatch.setattr(Throttle, "holds", holds)
        fetch.answer(row(0, batch(1)), row(1, batch(1)))
        assert scene.fetch().places == {1: 2}
        failing = False
        assert scene.fetch().places == {0: 2}


# Which partitions are followed


def test_an_unfollowed_partition_leaves_the_session_and_takes_nothing_in() -> None:
    with Following(2) as scene:
        fetch = scene.begun()
        scene.call(scene.fetchers.unfollow, scene.partition)
        scene.call(scene.fetchers.unfollow, scene.partition)
        assert (scene.fetchers.follows(scene.partition), scene.fetchers.following(scene.partition)) == (False, 0)
        fetch.answer(row(0, batch(0)), row(1, batch(0)))
        after = scene.fetch()
        assert (scene.ends, after.places, after.forgotten) == ([0, 1], {1: 1}, [0])


def test_without_a_leader_to_follow_the_connection_is_closed() -> None:
    with Following() as scene:
        fetch = scene.begun()
        scene.call(scene.fetchers.unfollow, scene.partition)
        fetch.answer()
        scene.until(lambda: scene.server.stats.connections == 0)
        assert scene.is_silent(10.0)
        scene.follow()
        assert scene.fetch().session == (0, 0)
        assert scene.doubted == []


def test_a_partition_that_is_followed_in_its_epoch_is_not_followed_again() -> None:
    with Following() as scene:
        fetch = scene.begun(row(0, batch(0)))
        scene.follow()
        assert scene.is_silent()
        fetch.answer(row(0, batch(1)))
        assert (scene.fetch().places, scene.ends) == ({0: 2}, [2])


def test_a_new_epoch_is_asked_in_at_once_and_what_came_for_the_last_one_is_not_taken() -> None:
    with Following() as scene:
        fetch = scene.begun(row(0, batch(0)))
        scene.begin_term(EPOCH + 1)
        again = scene.fetch()
        assert again.places == {0: 1}
        assert again.request.topics[0].partitions[0].current_leader_epoch == EPOCH + 1
        fetch.answer(row(0, batch(1)))
        assert scene.is_silent(0.5)
        assert scene.ends == [1]


def test_a_leader_that_has_moved_is_followed_where_it_is_with_all_that_it_leads() -> None:
    with Following(2) as scene:
        first = scene.begun()
        scene.serve(ELSEWHERE)
        scene.follow(0, at=ELSEWHERE)
        moved = scene.fetch()
        assert (moved.session, moved.places) == ((0, 0), {0: 0, 1: 0})
        assert [scene.fetchers.following(each) for each in scene.partitions] == [1, 1]
        first.answer(row(0, batch(0, b"where it was")))
        moved.answer(row(0, batch(0)), row(1, batch(0)))
        after = scene.fetch()
        assert (after.places, after.session) == ({0: 1, 1: 1}, (SESSION, 1))
        assert scene.is_silent(), "nobody is where it was"
        scene.call(scene.fetchers.unfollow, scene.partitions[1])
        after.answer()
        assert scene.fetch().forgotten == [1]


def test_a_leader_that_moved_does_not_affect_the_partitions_of_other_leaders() -> None:
    with Following(2) as scene:
        scene.serve(ELSEWHERE)
        scene.call(scene.partitions[1].step_down, LEADER + 2, EPOCH, 2, REPLICAS)
        scene.call(scene.fetchers.follow, scene.partitions[1], LEADER + 2, ELSEWHERE)
        assert scene.fetch().places == {1: 0}
        scene.follow(0)
        assert scene.fetch().places == {0: 0}
        scene.follow(0, at=ELSEWHERE)
        assert scene.fetch().places == {0: 0}


def test_a_partition_that_follows_another_leader_leaves_the_first_session() -> None:
    with Following(2) as scene:
        first = scene.begun()
        scene.serve(ELSEWHERE)
        scene.call(scene.partition.step_down, LEADER + 2, EPOCH + 1, 2, REPLICAS)
        scene.call(scene.fetchers.follow, scene.partition, LEADER + 2, ELSEWHERE)
        assert scene.fetchers.following(scene.partition) == 1
        other = scene.fetch()
        assert other.places == {0: 0}
        first.answer(row(0, batch(0)))
        assert (scene.fetch().forgotten, scene.ends) == ([0], [0, 0])
