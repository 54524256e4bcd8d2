"""Scenarios A10 to A13 and A19: what passes between a leader and those who fetch from it."""

from __future__ import annotations

import logging
from pathlib import PurePath

from highwater.errors import Code
from highwater.model import TopicPartition
from highwater.wire import records
from highwater.wire.messages.fetch_request import FetchRequest
from tests.scenarios.pair import in_step, lead, lead_again, write_alone
from tests.scenarios.stage import Stage
from tests.scenarios.visitor import OffsetAnswer

SEGMENT = PurePath("/data/orders-0/00000000000000000000.log")
EPOCH_AT = 12
"""Where a batch has its leader epoch, which its checksum does not cover."""


def test_a10_a_follower_below_the_leaders_start_is_out_of_range_even_where_its_epoch_diverges() -> None:
    """KAFKA-12996. n3 ends below the log start of n2, with an epoch that n2 never saw. It gets OFFSET_OUT_OF_RANGE,
    not where to cut, which would be below the start; it begins anew there and is in sync again."""
    with Stage() as stage:
        stage.create(replicas=(2, 3))
        stage.send(b"m1")
        stage.until(lambda: stage.log("n3").log_end == 1)
        stage.kill("n3", "n2")
        before = write_alone(stage, "n2", *(b"n2 %d" % at for at in range(9)))
        theirs = write_alone(stage, "n3", b"n3 0", b"n3 1", b"n3 2")
        epoch = lead(stage, "n2")
        stage.write("n2", b"last")
        assert stage.run(stage.client.delete_records("n2", 8)) is Code.NONE
        assert before < theirs < epoch
        assert stage.log("n2").epoch_cache.entries == [(before, 8), (epoch, 10)]
        fetched = stage.run(stage.client.fetch("n2", 4, epoch=epoch, last_epoch=theirs, replica=3, broker_epoch=0))
        assert (fetched.code, fetched.diverging) == (Code.OFFSET_OUT_OF_RANGE, None)
        stage.start("n3")
        stage.until(lambda: in_step(stage), seconds=5.0)
        assert stage.log("n3").log_start == 8
        assert stage.values("n3") == [b"n2 7", b"n2 8", b"last"]


def test_a11_an_answer_that_was_asked_for_in_an_older_epoch_is_not_taken_in() -> None:
    """KAFKA-13207, 8012, 13266. The answer of n2 is on its way to n3 when n4 is elected, then n2 again; n2 has dropped
    by then what the answer holds. n3 fetches from n2 as before, over the same connection, and appends none of it."""
    other = TopicPartition("other", 0)
    with Stage(4, replica_socket_timeout_ms=60_000, replica_lag_time_max_ms=60_000) as stage:
        stage.create(other, replicas=(2, 3))
        stage.create(replicas=(4, 2, 3))
        stage.send(b"m1")
        stage.kill("n4")
        stage.until(lambda: stage.leader() == "n2")
        stage.start("n4")
        followers = stage.partition("n2").require_leader().followers
        stage.until(lambda: len(stage.image().isr) == 3 and all(each.end == 1 for each in followers.values()))
        stale = stage.partition("n2").epoch
        stage.cut("n2", "n3", one_way=True)
        stage.cut("n2", "n4")
        stage.write("n2", b"stale", acks=1)
        stage.pass_time(0.05)
        stage.cut("n3", "n4")
        lead_again(stage, "n4")
        stage.write("n4", b"m2", acks=1)
        stage.heal("n2", "n4")
        stage.until(lambda: stage.values("n2") == [b"m1", b"m2"])
        stage.kill("n4")
        stage.until(lambda: stage.leader() == "n2" and stage.partition("n3").epoch == stage.partition("n2").epoch)
        assert (stage.log("n3").log_end, stage.log("n3").epoch_cache.latest) == (1, 0)
        stage.heal("n2", "n3")

        def over() -> bool:
            assert stage.log("n3").epoch_cache.latest != stale, "it was appended"
            return stage.log("n3").log_end == 2

        stage.until(over)
        assert stage.values("n3") == [b"m1", b"m2"]


def test_a11_a_high_watermark_of_an_older_epoch_is_not_taken_for_this_ones() -> None:
    """n3 has m2, and the answer of n2 which says that it is committed is on its way. n4, which lacks it, is elected
    uncleanly, then n2 again, which has cut it off by then: to n3 nothing is committed until it has done so too."""
    other = TopicPartition("other", 0)
    with Stage(4, replica_socket_timeout_ms=60_000, replica_lag_time_max_ms=60_000) as stage:
        stage.create(other, replicas=(2, 3))
        stage.create(replicas=(4, 2, 3), unclean_leader_election_enable="true", min_insync_replicas=1)
        stage.send(b"m1")
        stage.kill("n4")
        stage.until(lambda: stage.leader() == "n2")
        stage.until(lambda: stage.log("n3").high_watermark == 1)
        stage.write("n2", b"m2", acks=1)
        stage.until(lambda: len(stage.values("n3")) == 2)
        stage.cut("n2", "n3", one_way=True)
        stage.until(lambda: stage.log("n2").high_watermark == 2)
        stage.pass_time(0.05)
        assert stage.log("n3").high_watermark == 1
        stage.isolate("n3", "n2")
        stage.until(lambda: stage.image().isr == (2,))
        stage.isolate("n2", "n3")
        stage.start("n4")
        stage.until(lambda: stage.leader() == "n4")
        stage.write("n4", b"other", acks=1)
        stage.heal("n2", "n1")
        stage.heal("n2", "n4")
        stage.until(lambda: stage.values("n2") == [b"m1", b"other"] and len(stage.image().isr) == 2)
        stage.kill("n4")
        stage.until(lambda: stage.leader() == "n2")
        stage.heal("n3", "n1")
        stage.until(lambda: stage.partition("n3").epoch == stage.partition("n2").epoch)
        assert (stage.values("n3"), stage.log("n3").high_watermark) == ([b"m1", b"m2"], 1)
        stage.heal("n2", "n3")

        def over() -> bool:
            committed = stage.values("n3")[: stage.log("n3").high_watermark]
            assert committed in ([b"m1"], [b"m1", b"other"])
            return len(committed) == 2

        stage.until(over)


def test_a12_an_answer_without_records_leaves_the_last_fetched_epoch_as_it_was() -> None:
    """KAFKA-15510. n3 is ahead of n4 by m2; the last answer it gets from n2 has no records. n4 is elected and writes
    another record in the place of m2: n3 sends its last epoch as before, and so learns where to cut."""
    with Stage(4, replica_lag_time_max_ms=60_000) as stage:
        stage.create(replicas=(2, 4, 3))
        stage.send(b"m1")
        stage.cut("n2", "n4")
        stage.write("n2", b"m2", acks=1)
        stage.until(lambda: stage.log("n3").log_end == 2)
        deleting = stage.begin(stage.client.delete_records("n2", 1))
        stage.until(lambda: stage.log("n3").log_start == 1)
        assert not deleting.done
        stage.cut("n3", "n4")  # or n3 would ask before m3 is there, and be out of range
        stage.kill("n2")
        stage.until(lambda: stage.leader() == "n4")
        stage.write("n4", b"m3", acks=1)
        stage.heal("n3", "n4")
        stage.until(lambda: stage.log("n4").high_watermark == 2)
        assert stage.records("n3") == stage.records("n4")
        assert stage.values("n3") == [b"m1", b"m3"]


def test_a13_a_follower_takes_no_batch_that_is_damaged_or_of_a_later_epoch_than_its_own() -> None:
    """KAFKA-18723. A leader that changes its log while it reads may send what it never wrote, or what a later leader
    did. n3 takes neither a batch whose checksum is wrong nor one of an epoch that it does not know of yet, and asks
    again until it gets what it can take."""
    with Stage(replica_lag_time_max_ms=60_000) as stage:
        stage.create(replicas=(2, 3))
        stage.send(b"m1")
        later = (stage.partition("n3").epoch + 1).to_bytes(4, "big")
        for end, at, wrong in ((1, records.HEADER_SIZE + 3, b"\xff"), (2, EPOCH_AT, later)):
            stage.kill("n3")
            file = stage.storage("n2").file(SEGMENT)
            position = len(file.data) + at
            stage.write("n2", b"m%d" % (end + 1), acks=1)
            right = bytes(file.data[position : position + len(wrong)])
            stage.storage("n2").damage(SEGMENT, position, wrong)
            stage.start("n3")
            stage.holds_for(1.0, lambda end=end: stage.log("n3").log_end == end)  # type: ignore[misc]
            stage.storage("n2").damage(SEGMENT, position, right)
            stage.until(lambda end=end: stage.log("n3").log_end == end + 1)  # type: ignore[misc]
        for why in ("has a bad checksum", "of a later epoch"):
            assert stage.said("n3", why, at_least=logging.WARNING)
        assert stage.values("n3") == [b"m1", b"m2", b"m3"]


def test_a19_a_consumer_learns_that_what_it_has_read_was_cut_off() -> None:
    """KIP-320. A consumer has read five records; an unclean election leaves one of them, and the new leader writes
    more. The consumer's offset is there again, and is another record's: it is fenced with its old epoch, and
    OffsetForLeaderEpoch, or a fetch that names its last epoch, answers that its history ended at offset 1."""
    with Stage() as stage:
        stage.create(replicas=(2, 3))
        stage.send(b"m1")
        stage.until(lambda: stage.log("n3").log_end == 1)
        stage.kill("n3")
        for at in range(2, 6):
            stage.send(b"m%d" % at)
        read = stage.run(stage.client.fetch("n2", 0, epoch=0))
        assert (read.code, len(read.values)) == (Code.NONE, 5)
        assert stage.run(stage.client.epoch_end("n2", 0, epoch=0)) == OffsetAnswer(Code.NONE, 5, 0)
        stage.kill("n2")
        epoch = lead(stage, "n3")
        for at in range(6):
            stage.write("n3", b"other %d" % at)
        assert stage.run(stage.client.fetch("n3", 5, epoch=0)).code is Code.FENCED_LEADER_EPOCH
        assert stage.run(stage.client.epoch_end("n3", 0, epoch=0)).code is Code.FENCED_LEADER_EPOCH
        assert stage.run(stage.client.epoch_end("n3", 0, epoch=epoch)) == OffsetAnswer(Code.NONE, 1, 0)
        diverged = stage.run(stage.client.fetch("n3", 5, epoch=epoch, last_epoch=0))
        assert (diverged.diverging, diverged.values) == ((0, 1), [])
        again = stage.run(stage.client.fetch("n3", 1, epoch=epoch, last_epoch=0))
        assert (again.diverging, len(again.values)) == (None, 6)


def test_a_partition_with_a_new_leader_is_fetched_at_once_though_a_fetch_waits_there() -> None:
    """n3 has just begun to wait, for half a second, for news of a partition of n2. Then n2 is to lead another one that
    n3 follows: a write to that is acknowledged long before the wait is over."""
    quiet = TopicPartition("quiet", 0)
    with Stage(4) as stage:
        stage.create(quiet, replicas=(2, 3))
        stage.create(replicas=(4, 2, 3))
        stage.send(b"m1")
        stage.until(lambda: len(stage.values("n3")) == 1)
        stage.send(b"now it waits anew", tp=quiet)
        began = stage.now
        stage.kill("n4")
        stage.until(lambda: stage.partition("n2").leader is not None)
        stage.write("n2", b"m2")
        assert stage.now - began < 0.1
        assert stage.values("n3") == [b"m1", b"m2"]


def test_a_leader_that_keeps_no_sessions_is_not_asked_again_and_again() -> None:
    """A fetch that begins a session comes back at once; where none is kept, each would be such a one."""
    with Stage(max_incremental_fetch_session_cache_slots=0) as stage:
        stage.create()
        stage.send(b"m1")
        stage.until(lambda: len(stage.values("n3")) == 1)
        requests = stage.node("n2").server.stats.requests
        before = requests[FetchRequest.API_KEY]
        stage.pass_time(5.0)
        assert 0 < requests[FetchRequest.API_KEY] - before < 25
