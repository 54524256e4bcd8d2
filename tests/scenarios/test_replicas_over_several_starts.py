"""Replicas that lack something or are called lost, over several starts: what is known of them is not forgotten, what is
whole is kept, and no broker fetches the same replica for ever."""

from __future__ import annotations

import errno
from pathlib import PurePath

import pytest

from highwater.broker.directories import RETRY_SECONDS, ReplicaDirectories
from highwater.errors import Code
from highwater.log.scan import BadBatch
from highwater.metadata.brokers import DIRECTORY_LOST
from highwater.model import NO_NODE, TopicPartition
from highwater.sim.simulation import NodeFailed
from highwater.wire import records
from tests.scenarios.damaged_replicas import (
    FAST,
    FIRST,
    SENT,
    UNCLEAN,
    aside,
    call_3_lost_for_a_while,
    fail,
    forget_the_first_segment,
    is_in_sync_and_leads_with_everything,
    is_intact,
    remove_segment,
    rot,
    stop_2,
    sync_everything,
)
from tests.scenarios.mishaps import decided
from tests.scenarios.stage import ORDERS, Stage


def lose_3(stage: Stage) -> None:
    """A batch of 3 is damaged. 3 reports that, and is killed before it knows that it may begin anew."""
    stage.create(replicas=(2, 3), internal_segment_bytes=500)
    for value in SENT:
        stage.send(value)
    stage.until(lambda: stage.log("n3").high_watermark == len(SENT))
    log = stage.log("n3")
    sync_everything(stage, "n3")
    at = rot(stage, "n3")
    stage.cut("n1", "n3", one_way=True)
    log.found_damaged(BadBatch(log.segments[0].file.path, at, "its checksum is wrong"))
    stage.until(lambda: decided(stage).directory(3) == DIRECTORY_LOST)
    assert decided(stage).isr == (2,)
    stage.kill("n3")
    stage.heal()


def test_damage_is_not_forgotten_though_its_broker_starts_twice_while_nobody_leads() -> None:
    """At its first start nobody leads, and 3 reports its directory at once. At its second start it is lost no more."""
    with Stage(3, expects_failures=True, **FAST) as stage:
        lose_3(stage)
        stage.kill("n2")
        stage.until(lambda: decided(stage).leader == NO_NODE)
        stage.start("n3")
        stage.pass_time(5.0)
        assert decided(stage).leader == NO_NODE
        stage.kill("n3")
        stage.start("n3")
        stage.pass_time(5.0)
        stage.start("n2")
        stage.until(lambda: set(decided(stage).isr) == {2, 3})
        assert is_intact(stage, "n3"), "it is in sync with a damaged batch"


def test_damage_is_not_forgotten_though_the_log_is_opened_only_after_the_start() -> None:
    """Descriptors are short while 3 starts, so that the log is opened two seconds later."""
    with Stage(3, expects_failures=True, **FAST) as stage:
        lose_3(stage)
        fault = stage.storage("n3").fail("open", f"/data/{ORDERS}/*.log", errno.EMFILE, times=None)
        stage.start("n3", waits=False)
        stage.until(lambda: fault.struck and stage.serves("n3"))
        stage.storage("n3").mend()
        stage.until(lambda: set(decided(stage).isr) == {2, 3})
        assert is_intact(stage, "n3"), "it is in sync with a damaged batch"


def test_a_replica_that_is_being_fetched_again_goes_on_after_a_restart() -> None:
    """Each restart puts aside what was fetched so far, beside the damaged log: the disk fills."""
    with Stage(3, expects_failures=True, replica_fetch_response_max_bytes=1, replica_fetch_max_bytes=1) as stage:
        stage.create(replicas=(2, 3))
        for value in SENT:
            stage.send(value)
        log = stage.log("n3")
        log.found_damaged(BadBatch(log.active.file.path, 0, "its checksum is wrong"))
        stage.until(lambda: stage.has("n3") and stage.log("n3") is not log and stage.log("n3").log_end == 5)
        (kept,) = aside(stage, "n3")
        for _ in range(3):
            stage.kill("n3")
            stage.start("n3", waits=False)
            stage.until(lambda: stage.has("n3") and stage.log("n3").log_end >= 5)
            stage.pass_time(0.0)
        assert aside(stage, "n3") == [kept], "what was fetched again is no damaged copy"


def test_a_replica_for_which_descriptors_were_short_is_not_fetched_again_as_a_whole_after_the_next_start() -> None:
    """An operator raises the limit of descriptors and starts the broker again: its logs are whole."""
    with Stage(3, expects_failures=True) as stage:
        call_3_lost_for_a_while(stage)
        stage.start("n3")
        stage.until(lambda: set(decided(stage).isr) == {2, 3})
        assert aside(stage, "n3") == [], "a whole log was put aside, and everything was fetched again"


def test_a_broker_whose_disk_was_full_comes_back_though_the_disk_has_no_room_for_each_log_twice() -> None:
    """A sync of 3 fails, since the disk is full. Some room is made, and 3 starts again."""
    with Stage(3, expects_failures=True, **FAST) as stage:
        stage.create(replicas=(2, 3))
        for value in SENT:
            stage.send(value * 1000)
        stage.until(lambda: stage.log("n3").log_end == len(SENT))
        sync_everything(stage, "n3")
        stage.send(b"the last")
        stage.until(lambda: stage.log("n3").log_end == len(SENT) + 1)
        log = stage.log("n3")
        stage.storage("n3").fail("sync", f"/data/{ORDERS}/*.log", errno.ENOSPC, times=None)
        stage.node("n3").world.call(log.flush)
        stage.until(lambda: decided(stage).directory(3) == DIRECTORY_LOST)
        stage.kill("n3")
        storage = stage.storage("n3")
        storage.mend()
        storage.capacity = storage._used + 30_000
        stage.start("n3", waits=False)
        stage.until(lambda: set(decided(stage).isr) == {2, 3}, 30.0)


def test_records_that_were_deleted_stay_deleted_in_the_last_copy_that_lacks_a_segment() -> None:
    with Stage(2, expects_failures=True) as stage:
        stage.create(replicas=(2,), internal_segment_bytes=120)
        for value in (b"a" * 50, b"b" * 50):
            stage.send(value)
        stage.send(b"c", b"d", b"e", b"f")
        stage.stop("n2")
        remove_segment(stage, "n2", 0)
        stage.start("n2")
        stage.until(lambda: stage.leads("n2"))
        stage.run(stage.client.delete_records("n2", 4))
        assert stage.log("n2").log_start == 4
        stage.pass_time(5.0)
        stage.kill("n2")
        stage.start("n2")
        stage.until(lambda: stage.leads("n2"))
        assert stage.log("n2").log_start == 4, "records that were deleted are back"


def test_a_replica_without_its_first_segment_is_fetched_anew_though_its_first_start_is_killed() -> None:
    """2 finds what it lacks, and is killed before it has reported that. The next start follows no clean stop."""
    with Stage(3, expects_failures=True) as stage:
        stage.create(replicas=(2, 3), internal_segment_bytes=70)
        sent = [b"a", b"b", b"c"]
        for value in sent:
            stage.send(value)
        stage.stop("n2")
        stage.until(lambda: decided(stage).leader == 3)
        remove_segment(stage, "n2", 0)
        stage.start("n2", waits=False)
        stage.until(lambda: stage.said("n2", "may lack committed records"))
        stage.kill("n2")
        stage.start("n2")
        is_in_sync_and_leads_with_everything(stage, sent)


def test_the_last_copy_that_failed_and_then_lacks_a_segment_leads_again() -> None:
    """What it has is all that there is. Without this mark of a gap it led again once its broker had it back."""
    with Stage(2, expects_failures=True, **FAST) as stage:
        stage.create(replicas=(2,), internal_segment_bytes=70)
        for value in (b"a", b"b", b"c", b"d"):
            stage.send(value)
        sync_everything(stage, "n2")
        fail(stage, "n2")
        stage.until(lambda: decided(stage).leader == NO_NODE)
        stage.kill("n2")
        remove_segment(stage, "n2", 1)
        stage.start("n2")
        stage.until(lambda: stage.has("n2"))
        stage.until(lambda: stage.leads("n2"), 60.0)


@pytest.mark.parametrize("is_small", [True, False])
def test_a_leader_whose_batch_has_moved_does_not_make_its_follower_begin_anew_for_ever(is_small: bool) -> None:
    """The base offset of a batch of the leader rots: no checksum covers it. The follower is whole."""
    small = {"replica_fetch_response_max_bytes": 1, "replica_fetch_max_bytes": 1} if is_small else {}
    with Stage(3, expects_failures=True, replica_lag_time_max_ms=60_000, **small) as stage:
        stage.create(replicas=(2, 3))
        for value in SENT:
            stage.send(value)
        stage.until(lambda: stage.log("n3").log_end == len(SENT))
        stage.cut("n2", "n3")
        stage.write("n2", b"w", acks=1)  # the fetch that waits at 2 is answered with it
        stage.write("n2", b"x", b"y", b"z", acks=1)
        data = memoryview(bytes(stage.storage("n2").file(FIRST).data))
        at = [position for position, _, _ in records.walk(data)][-1]
        stage.storage("n2").damage(FIRST, at, len(SENT).to_bytes(8, "big"))
        stage.heal()
        stage.pass_time(20.0)
        assert len(aside(stage, "n3")) <= 1, f"{len(aside(stage, 'n3'))} copies are kept"
        assert decided(stage).leader_epoch < 10, f"leader epoch {decided(stage).leader_epoch}"


def test_a_replica_that_lacks_a_segment_is_in_no_isr_before_its_loss_is_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """2 finds at its start that its first segment is gone. Its report is lost with a connection, and sent again a
    second later. Meanwhile 3 stops in order: 2 must not lead."""
    sent = [b"a", b"b", b"c"]
    with Stage(3, expects_failures=True) as stage:
        stop_2(stage, sent)
        remove_segment(stage, "n2", 0)
        report, lost = ReplicaDirectories.report, [True]

        def unheard(self: ReplicaDirectories) -> None:
            if self._local == 2 and self._unreported and self._broker_epoch() >= 0 and lost:
                self._world.clock.call_later(RETRY_SECONDS, heard, self)
            else:
                report(self)

        def heard(self: ReplicaDirectories) -> None:
            lost.clear()
            report(self)

        monkeypatch.setattr(ReplicaDirectories, "report", unheard)
        stage.start("n2")
        stage.pass_time(0.5)
        in_sync = stage.values("n2") if 2 in decided(stage).isr else sent
        stage.stop("n3")
        stage.pass_time(2.0)
        stage.start("n3")
        stage.until(lambda: set(decided(stage).isr) == {2, 3})
        stage.pass_time(5.0)
        assert (in_sync, stage.values("n3"), stage.read()) == (sent, sent, sent)


def test_a_mistake_in_the_snapshot_of_one_log_does_not_keep_the_others_from_a_stop() -> None:
    """Before, the one log went offline, and the rest of the stop was carried out."""
    other = TopicPartition("others", 0)
    with Stage(2, expects_failures=True) as stage:
        stage.create(replicas=(2,))
        stage.create(other, replicas=(2,))
        stage.send(b"a")
        stage.send(b"b", tp=other)
        mistake = RuntimeError("a mistake in the program")
        fault = stage.storage("n2").fail("create", f"/data/{ORDERS}/*.snapshot*", error=mistake)
        with pytest.raises(NodeFailed):  # the simulator reports every mistake
            stage.stop("n2")
        assert fault.struck
        points = bytes(stage.storage("n2").file(PurePath("/data/recovery-point-offset-checkpoint")).data)
        assert b"others 0 1" in points, points


def test_a_whole_copy_for_which_descriptors_were_short_can_be_elected_if_the_other_one_dies() -> None:
    """3 was called lost, since its log could not be opened for a while. It starts again, and 2 dies for good before 3
    has fetched anything: all records are on 3."""
    with Stage(3, expects_failures=True) as stage:
        call_3_lost_for_a_while(stage)
        stage.cut("n2", "n3")
        stage.start("n3")
        stage.kill("n2")
        stage.until(lambda: decided(stage).leader == NO_NODE)
        stage.pass_time(5.0)
        assert stage.run(stage.client.elect(UNCLEAN)) is Code.NONE
        stage.until(lambda: stage.leads("n3"))
        assert stage.read() == SENT


def test_a_replica_whose_first_segment_left_its_indexes_alone_is_fetched_anew() -> None:
    """Where the log began is unknown, as after a clean stop of Apache Kafka, which does not write that down. But the
    indexes show which segment is gone, and that is not the end of the log."""
    sent = [b"a", b"b", b"c"]
    with Stage(3, expects_failures=True) as stage:
        stop_2(stage, sent)
        forget_the_first_segment(stage)
        stage.start("n2")
        stage.until(lambda: set(decided(stage).isr) == {2, 3})
        assert stage.said("n2", "lacks a segment")
        assert stage.values("n2") == sent
