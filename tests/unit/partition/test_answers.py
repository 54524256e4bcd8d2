"""What a follower makes of its leader's answers, and what its next fetch then acknowledges."""

from __future__ import annotations

import errno

import pytest

from highwater.errors import Code
from highwater.sim import Knobs
from tests.unit.partition.following import (
    EPOCH,
    LIMITS,
    ME,
    Asked,
    Following,
    batch,
    diverging,
    row,
    warnings,
)

SLOW_SYNCS = Knobs(flush_round=(0.5, 0.5))


# Answers that ask for something


def test_a_diverging_log_is_cut_before_the_next_fetch() -> None:
    with Following(knobs=SLOW_SYNCS) as scene:
        fetch = scene.begun(row(0, batch(0) + batch(1) + batch(2), high_watermark=2))
        fetch.answer(diverging(EPOCH, 1))
        scene.until(lambda: scene.partition.is_being_cut)
        assert scene.fetches == []
        after = scene.fetch()
        assert (after.places, scene.ends) == ({0: 1}, [1])
        assert scene.partition.changes[-1][1] == (
            f"cut from 3 to 1, 2 records, 1 of them committed: epoch {EPOCH} of leader 1 ends at 1"
        )
        after.answer(row(0, batch(1, b"other")))
        assert scene.fetch().places == {0: 2}


@pytest.mark.parametrize(("end", "warns"), [(2, False), (1, True), (0, True)])
def test_a_cut_below_the_high_watermark_is_warned_of(end: int, warns: bool, caplog: pytest.LogCaptureFixture) -> None:
    """To the very beginning, too."""
    with Following() as scene:
        fetch = scene.begun(row(0, batch(0) + batch(1) + batch(2), high_watermark=2))
        fetch.answer(diverging(EPOCH, end))
        assert scene.fetch().places == {0: end}
        assert (f"cut to {end}, below its high watermark 2" in caplog.text) is warns


def test_a_log_that_parts_from_its_leaders_below_its_own_start_is_fetched_from_the_leaders_start(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with Following() as scene:
        scene.follow()
        scene.fetch().answer(row(0, error_code=int(Code.OFFSET_OUT_OF_RANGE)))
        for offset in (7, 9):
            scene.question().answer_offset(offset)
        scene.fetch().answer(row(0, batch(7) + batch(8), log_start_offset=7, high_watermark=9))
        parted = diverging(EPOCH - 1, 4)
        parted.log_start_offset = 2
        scene.fetch().answer(parted)
        after = scene.fetch()
        assert (after.places, scene.partition.log.log_start) == ({0: 2}, 2)
        after.answer(row(0, batch(2), log_start_offset=2))
        scene.fetch()
        assert scene.ends == [3]
        assert "begins anew at 2: epoch 4 of leader 1 ends at 4, below our log start 7" in [
            change for _, change in scene.partition.changes
        ]
        assert not [line for line in warnings(caplog) if "no room" in line]


def test_a_session_forgets_a_partition_that_is_being_cut_and_fetches_the_others() -> None:
    with Following(2, knobs=SLOW_SYNCS) as scene:
        fetch = scene.begun(row(0, batch(0) + batch(1)))
        fetch.answer(diverging(EPOCH, 1), row(1, batch(0)))
        after = scene.fetch()
        assert (after.places, after.forgotten) == ({1: 1}, [0])
        assert scene.fetch().places == {0: 1}


def test_a_cut_of_the_last_term_is_waited_for() -> None:
    with Following(knobs=SLOW_SYNCS) as scene:
        fetch = scene.begun(row(0, batch(0) + batch(1)))
        fetch.answer(diverging(EPOCH, 1))
        scene.until(lambda: scene.partition.is_being_cut)
        scene.begin_term(EPOCH + 1)
        assert scene.partition.is_being_cut
        after = scene.fetch()
        assert not scene.partition.is_being_cut
        assert (after.places, scene.ends[0] in after.places.values()) == ({0: scene.ends[0]}, True)


def test_a_log_that_cannot_be_cut_is_no_longer_fetched_and_the_others_are() -> None:
    with Following(2) as scene:
        fetch = scene.begun(row(0, batch(0) + batch(1)))
        scene.storage.fail("truncate", "*/orders-0/*.log", errno.EIO)
        fetch.answer(diverging(EPOCH, 1))
        scene.until(lambda: scene.partition.log.offline is not None)
        after = scene.fetch()
        after.answer(row(0, batch(2)), row(1, batch(0)))
        assert scene.fetch().places == {1: 1}
        assert scene.ends[1] == 1


@pytest.mark.parametrize(
    ("ends", "place", "logged"),
    [
        ((0, 1), 1, "cut from 2 to 1, 1 records: leader 1 ends at 1"),
        ((7, 9), 7, "begins anew at 7: leader 1 has nothing before it any more"),
        ((0, 2), 2, None),
    ],
)
def test_out_of_range_the_leader_is_asked_where_its_log_begins_and_ends(
    ends: tuple[int, int], place: int, logged: str | None
) -> None:
    with Following() as scene:
        fetch = scene.begun(row(0, batch(0) + batch(1)))
        changes = len(scene.partition.changes)
        fetch.answer(row(0, error_code=int(Code.OFFSET_OUT_OF_RANGE)))
        asked = {}
        for offset in ends:
            question = scene.question()
            (each,) = question.request.topics[0].partitions
            asked[each.timestamp] = (question.request.replica_id, each.partition_index, each.current_leader_epoch)
            question.answer_offset(offset)
        assert asked == {-2: (ME, 0, EPOCH), -1: (ME, 0, EPOCH)}
        assert scene.fetch().places == {0: place}
        assert (scene.ends, len(scene.partition.changes) - changes) == ([place], 0 if logged is None else 1)
        if logged is not None:
            assert scene.partition.changes[-1][1] == logged


@pytest.mark.parametrize("first", [True, False])
def test_a_leader_that_does_not_say_where_its_log_ends_is_asked_again(first: bool) -> None:
    with Following() as scene:
        fetch = scene.begun(row(0, batch(0) + batch(1)))
        fetch.answer(row(0, error_code=int(Code.OFFSET_OUT_OF_RANGE)))
        one, other = scene.question(), scene.question()
        one.answer_offset(0, Code.NOT_LEADER_OR_FOLLOWER if first else Code.NONE)
        other.answer_offset(1, Code.NONE if first else Code.NOT_LEADER_OR_FOLLOWER)
        assert (scene.fetch().places, scene.ends) == ({0: 2}, [2])


def test_a_connection_that_is_lost_over_the_question_is_no_answer() -> None:
    with Following() as scene:
        fetch = scene.begun(row(0, batch(0) + batch(1)))
        fetch.answer(row(0, error_code=int(Code.OFFSET_OUT_OF_RANGE)))
        scene.question()
        scene.sim.reset("follower", "leader")
        assert (scene.fetch().places, scene.ends) == ({0: 2}, [2])


def test_a_last_epoch_that_no_controller_gave_marks_the_log_as_damaged() -> None:
    with Following() as scene:
        scene.call(scene.partition.log.append_as_follower, memoryview(batch(0, epoch=EPOCH + 4)))
        scene.follow()
        scene.fetch().answer(row(0, error_code=int(Code.OFFSET_OUT_OF_RANGE)))
        for offset in (0, 0):
            scene.question().answer_offset(offset)
        scene.until(lambda: scene.partition.log.trouble is not None)
        assert scene.is_silent()


def test_an_empty_log_begins_with_a_batch_around_the_place_that_it_asked_for() -> None:
    with Following() as scene:
        scene.follow()
        scene.fetch().answer(row(0, error_code=int(Code.OFFSET_OUT_OF_RANGE)))
        for offset in (7, 9):
            scene.question().answer_offset(offset)
        at = scene.fetch()
        assert at.places == {0: 7}
        at.answer(row(0, batch(5, b"5", b"6", b"7", b"8") + batch(9), log_start_offset=7, high_watermark=9))
        after = scene.fetch()
        assert after.places == {0: 10}
        assert scene.partition.log.log_start == 7
        assert scene.partition.changes[-1][1] == "begins anew at 5: leader 1's log begins amid a batch"


def test_a_follower_without_room_for_its_first_batches_fetches_them_again_later(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with Following() as scene:
        scene.follow()
        scene.fetch().answer(row(0, error_code=int(Code.OFFSET_OUT_OF_RANGE)))
        for offset in (7, 9):
            scene.question().answer_offset(offset)
        at = scene.fetch()
        assert not warnings(caplog), "an empty log has room enough"
        scene.storage.fail("append", "*/orders-0/*.log", errno.ENOSPC)
        at.answer(row(0, batch(5, b"5", b"6", b"7", b"8"), log_start_offset=7))
        again = scene.fetch()
        assert again.places == {0: 7}
        assert "orders-0: there is no room for what the log would begin with" in caplog.text
        again.answer(row(0, batch(5, b"5", b"6", b"7", b"8"), log_start_offset=7))
        assert scene.fetch().places == {0: 9}


@pytest.mark.parametrize("what", ["damaged", "of another place", "cut off"])
def test_records_that_do_not_fit_are_refused_and_asked_for_again_and_the_others_are_taken(what: str) -> None:
    with Following(2) as scene:
        fetch = scene.begun(row(0, batch(0)))
        data = bytearray(batch(1) if what != "of another place" else batch(0))
        if what == "damaged":
            data[-1] ^= 1
        if what == "cut off":
            data = data[:-1]
        before = scene.sim.now
        fetch.answer(row(0, bytes(data), high_watermark=1), row(1, batch(0)))
        after = scene.fetch()
        assert (after.places, after.forgotten, scene.ends) == ({1: 1}, [0], [1, 1])
        again = scene.fetch()
        assert again.places == {0: 1}
        assert 0 < again.at - before < LIMITS.backoff


def test_a_mistake_over_one_partition_is_counted_and_keeps_nothing_from_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Following(2) as scene:
        scene.sim.forgives = True
        fetch = scene.begun()
        taken = type(scene.partition).append_fetched

        def fails(partition: object, data: memoryview) -> None:
            monkeypatch.setattr(type(scene.partition), "append_fetched", taken)
            raise ValueError("a mistake")

        monkeypatch.setattr(type(scene.partition), "append_fetched", fails)
        fetch.answer(row(0, batch(0)), row(1, batch(0)))
        after = scene.fetch()
        assert (after.places, after.forgotten, scene.ends) == ({1: 1}, [0], [0, 1])
        assert scene.world.failures.counts["partition"] == 1
        assert scene.fetch().places == {0: 0}


def test_an_error_of_one_partition_is_waited_out() -> None:
    with Following(2) as scene:
        fetch = scene.begun()
        fetch.answer(row(0, error_code=int(Code.NOT_LEADER_OR_FOLLOWER)), row(1, batch(0)))
        after = scene.fetch()
        assert (after.places, after.forgotten) == ({1: 1}, [0])
        assert scene.fetch().places == {0: 0}


def test_a_row_of_a_partition_that_is_not_followed_is_passed_over() -> None:
    with Following() as scene:
        fetch = scene.begun()
        fetch.answer(row(9, batch(0)), row(0, batch(0)))
        assert (scene.fetch().places, scene.ends) == ({0: 1}, [1])


# What a fetch acknowledges


def test_a_follower_in_flush_mode_does_not_acknowledge_unsynced_records() -> None:
    with Following(knobs=SLOW_SYNCS, flush_messages=1) as scene:
        scene.follow()
        scene.fetch().answer(row(0, batch(0)))
        scene.until(lambda: scene.ends == [1])
        scene.until(lambda: scene.fetches)
        assert scene.partition.log.durable_end == 1
        assert scene.fetch().places == {0: 1}


def test_the_sync_of_an_unfollowed_partition_does_not_delay_others() -> None:
    with Following(2, knobs=Knobs(flush_round=(9.0, 9.0)), flush_messages=1) as scene:
        scene.call(scene.partition.log.append_as_follower, memoryview(batch(0)))
        scene.follow()
        assert scene.is_silent(1.0), "its sync is under way"
        scene.call(scene.fetchers.unfollow, scene.partition)
        before = scene.sim.now
        assert scene.fetch().places == {1: 0}
        assert scene.sim.now - before < 1.0


def test_a_log_that_fails_is_not_named_and_keeps_no_fetch_waiting() -> None:
    with Following(2, flush_messages=1) as scene:
        fetch = scene.begun()
        scene.storage.fail("sync", "*/orders-0/*.log", errno.EIO)
        fetch.answer(row(0, batch(0)), row(1, batch(0)))
        scene.until(lambda: scene.partition.log.offline is not None)
        scene.call(scene.partition.failed)  # as its broker does
        after = scene.fetch()
        assert (after.places, after.forgotten) == ({1: 1}, [0])


@pytest.mark.parametrize("in_a_new_term", [False, True])
def test_a_log_start_is_sent_once_it_is_durable_and_nothing_waits_for_that(in_a_new_term: bool) -> None:
    with Following() as scene:
        fetch = scene.begun(row(0, batch(0) + batch(1)))
        scene.storage.fail("append", "/data/log-start-offset-checkpoint*", errno.ENOSPC, times=None)
        fetch.answer(row(0, high_watermark=2, log_start_offset=1))

        def logged(fetch: Asked) -> tuple[int, int]:
            (place,) = fetch.request.topics[0].partitions
            return place.current_leader_epoch, place.log_start_offset

        waiting = scene.fetch()
        assert (logged(waiting), scene.partition.log.log_start) == ((EPOCH, 0), 1)
        epoch = EPOCH
        if in_a_new_term:
            epoch += 1
            scene.begin_term(epoch)
            assert logged(scene.fetch()) == (epoch, 0)
            waiting.answer()
        assert scene.is_silent(), "the disk is full"
        scene.storage.mend()
        mended = scene.sim.now
        assert logged(scene.fetch()) == (epoch, 1)
        assert scene.sim.now - mended < LIMITS.timeout / 2, "it overtakes the one that waits"
        kept = scene.storage.durable_bytes(scene.bench.directory / "log-start-offset-checkpoint")
        assert kept is not None and b"orders 0 1\n" in kept


def test_limits_are_those_in_force_when_a_fetch_is_made() -> None:
    with Following() as scene:
        fetch = scene.begun()
        scene.limits = LIMITS._replace(wait_ms=7, min_bytes=2, partition_bytes=3, response_bytes=4)
        fetch.answer(row(0, batch(0)))
        request = scene.fetch().request
        assert (request.max_wait_ms, request.min_bytes, request.max_bytes) == (7, 2, 4)
        assert request.topics[0].partitions[0].partition_max_bytes == 3
