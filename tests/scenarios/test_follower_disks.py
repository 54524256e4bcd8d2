"""Disks that fail amid an answer, a truncation or a look-up, and a leader's log that begins amid a batch."""

from __future__ import annotations

import errno
from pathlib import PurePath

import pytest

from highwater.errors import Code
from highwater.metadata.brokers import DIRECTORY_LOST
from highwater.model import NO_NODE, TopicPartition
from highwater.sim.knobs import Knobs
from tests.scenarios.mishaps import decided
from tests.scenarios.stage import Stage
from tests.scenarios.test_d_damage import file_of, zero_a_page

OTHER = TopicPartition("other", 0)
SLOW_SYNCS = Knobs(flush_round=(0.1, 0.1))
"""Longer than a follower waits before it asks again."""


def diverged(stage: Stage, *further: bytes, **configs: object) -> None:
    """n2 led and has a tail of its own; n3 leads now, with another record in its place. The two are cut apart."""
    stage.create(replicas=(2, 3), **configs)
    for value in (b"a" * 10, b"b" * 10, b"c" * 10):
        stage.send(value)
    stage.until(lambda: stage.log("n3").high_watermark == 3)
    stage.isolate("n2")
    stage.begin(stage.client.produce("n2", b"tail", acks=1))
    stage.until(lambda: decided(stage).leader == 3 and stage.log("n2").log_end == 4)
    stage.until(lambda: stage.leads("n3"))
    stage.write("n3", b"other", *further)


def test_a_damaged_batch_found_while_a_log_is_cut_loses_that_replica_and_not_the_node() -> None:
    with Stage(3) as stage:
        diverged(stage)
        zero_a_page(file_of(stage, "n2"))
        lost: list[bool] = []
        stage.heal()
        stage.until(lambda: lost.append(decided(stage).directory(2) == DIRECTORY_LOST) or any(lost))
        stage.until(lambda: set(decided(stage).isr) == {2, 3})
        assert stage.cluster.is_up("n2")
        assert stage.values("n2") == stage.values("n3") == [b"a" * 10, b"b" * 10, b"c" * 10, b"other"]


@pytest.mark.parametrize("operation", ["truncate", "sync"])
def test_a_disk_that_fails_while_a_log_is_cut_takes_that_log_offline_and_not_the_node(operation: str) -> None:
    with Stage(3, watched=True) as stage:
        diverged(stage)
        stage.storage("n2").fail(operation, "*/orders-0/*.log", errno.EIO)  # type: ignore[arg-type]
        stage.heal()
        stage.until(lambda: stage.log("n2").offline is not None)
        stage.until(lambda: decided(stage).directory(2) == DIRECTORY_LOST)
        assert stage.cluster.is_up("n2")
        stage.kill("n2")
        stage.start("n2")
        stage.until(lambda: set(decided(stage).isr) == {2, 3})
        assert stage.values("n2") == stage.values("n3")


def test_records_before_a_failed_batch_are_acknowledged_only_after_their_sync() -> None:
    """Flush mode. Of two batches in one answer the disk takes the first; the next fetch would acknowledge that one."""
    with Stage(3, watched=True, knobs=SLOW_SYNCS, replica_lag_time_max_ms=60_000) as stage:
        stage.create(replicas=(2, 3), flush_messages=1)
        stage.send(b"v0")
        stage.until(lambda: stage.log("n3").high_watermark == 1)
        stage.cut("n2", "n3")
        for at in (1, 2):
            stage.begin(stage.client.produce("n2", b"v%d" % at, ms=60_000))
            stage.until(lambda at=at: stage.log("n2").log_end == at + 1)  # type: ignore[misc]
        stage.storage("n3").fail("append", "*/orders-0/*.log", errno.ENOSPC, nth=2)
        stage.heal("n2", "n3")

        def nothing_unsynced_is_acknowledged() -> bool:
            acknowledged = stage.partition("n2").require_leader().followers[3].end
            return acknowledged <= stage.log("n3").durable_end

        stage.until(lambda: stage.log("n3").log_end == 2)
        stage.holds_for(5.0, nothing_unsynced_is_acknowledged)
        stage.until(lambda: stage.log("n3").high_watermark == 3)


def test_records_that_could_not_be_synced_are_never_acknowledged() -> None:
    with Stage(3, watched=True, replica_lag_time_max_ms=60_000) as stage:
        stage.create(replicas=(2, 3), flush_messages=1)
        stage.send(b"v0")
        stage.until(lambda: stage.log("n3").high_watermark == 1)
        stage.cut("n3", "n1")  # the failure of its disk is not reported: it stays in the ISR
        stage.storage("n3").fail("sync", "*/orders-0/*.log", errno.EIO)
        stage.begin(stage.client.produce("n2", b"v1", ms=1000))
        stage.until(lambda: stage.log("n3").offline is not None)
        stage.holds_for(5.0, lambda: stage.partition("n2").require_leader().followers[3].end == 1)


def test_a_follower_catches_up_with_a_log_that_begins_amid_a_batch() -> None:
    """Records of the leader's first batch were deleted. The batch comes whole, and the follower's log begins at its
    base, with the leader's log start."""
    with Stage(3, watched=True) as stage:
        stage.create(replicas=(2, 3))
        stage.kill("n3")
        stage.until(lambda: set(decided(stage).isr) == {2})
        stage.send(*[b"v%d" % at for at in range(10)])
        stage.run(stage.client.delete_records("n2", 5))
        stage.send(b"more")
        stage.start("n3", waits=False)
        leader = stage.partition("n2").require_leader()
        stage.until(lambda: leader.followers[3].log_start == 5 and leader.followers[3].end > 5)
        kept = stage.storage("n3").durable_bytes(PurePath("/data/log-start-offset-checkpoint"))
        assert kept is not None and b"orders 0 5\n" in kept, "its leader counts on a log start that was never kept"
        stage.until(lambda: set(decided(stage).isr) == {2, 3})
        assert (stage.log("n3").log_start, stage.log("n3").log_end) == (5, 11)
        assert stage.values("n3") == stage.values("n2")
        for life in (stage.kill, stage.cut_power):
            life("n3")
            stage.start("n3")
            stage.until(lambda: set(decided(stage).isr) == {2, 3})
            assert (stage.log("n3").log_start, stage.log("n3").log_end) == (5, 11)
        stage.kill("n2")
        stage.until(lambda: stage.leader() == "n3")
        assert stage.read() == [b"v5", b"v6", b"v7", b"v8", b"v9", b"more"]


def test_a_follower_catches_up_whose_own_tail_ends_where_the_leaders_log_begins_amid_a_batch() -> None:
    """n2 has a record at 3 that n3 does not have. n3 has a batch from 3 to 5, of which the first record is deleted: no
    epoch distinguishes the two any more, and the batch does not fit behind n2's end."""
    with Stage(3, watched=True) as stage:
        diverged(stage, b"more", b"and more")
        stage.run(stage.client.delete_records("n3", 4))
        assert (stage.log("n2").log_end, stage.log("n3").log_start, stage.log("n3").log_end) == (4, 4, 6)
        epoch = decided(stage).leader_epoch
        stage.heal()
        stage.until(lambda: set(decided(stage).isr) == {2, 3})
        assert decided(stage).leader_epoch == epoch, "n2 did not report its log as lost"
        assert (stage.log("n2").log_start, stage.log("n2").log_end) == (4, 6)
        assert stage.values("n2") == [b"other", b"more", b"and more"]
        assert stage.read() == [b"more", b"and more"]


def test_a_look_up_by_time_that_fails_because_segments_have_changed_is_made_again() -> None:
    """Retention takes a segment while a job reads it: the log is not offline, and the client gets its answer."""
    with Stage(3, watched=True) as stage:
        stage.create(replicas=(2, 3))
        stage.send(b"first")
        stage.send(b"second")
        fault = stage.storage("n2").fail("read", "*/orders-0/*.log", errno.EIO)
        pending = stage.begin(stage.client.list_offset("n2", 0))
        stage.until(lambda: fault.struck)
        stage.log("n2").reads.forget()
        stage.until(lambda: pending.done)
        assert pending.result is not None
        assert (pending.result.code, pending.result.offset) == (Code.NONE, 0)
        assert stage.log("n2").trouble is None


def test_a_full_disk_that_holds_a_truncation_up_holds_nothing_else_up() -> None:
    """n2 is to cut its tail off, and has no room for the recovery point, which comes first. Meanwhile it takes up other
    partitions; it follows on once there is room."""
    with Stage(3) as stage:
        diverged(stage, flush_messages=1)
        fault = stage.storage("n2").fail("append", "/data/recovery-point-offset-checkpoint*", errno.ENOSPC, times=None)
        stage.heal()
        stage.until(lambda: stage.partition("n2").is_being_cut and fault.struck)
        stage.stop("n3")  # another role for what is being cut: there is no leader
        stage.create(OTHER, replicas=(2,))
        assert stage.write("n2", b"v", tp=OTHER) == 0
        stage.start("n3")
        stage.storage("n2").mend()
        stage.until(lambda: set(decided(stage).isr) == {2, 3})
        assert stage.values("n2") == stage.values("n3")


def test_a_cut_that_is_obsolete_does_not_keep_a_full_disk_from_the_next_role() -> None:
    """n2 has no room for the recovery point, which is written before the cut. Then its leader goes: n2 takes up that
    there is none, though the disk stays full."""
    with Stage(3) as stage:
        diverged(stage, flush_messages=1)
        full = stage.storage("n2").fail("append", "/data/recovery-point-offset-checkpoint*", errno.ENOSPC, times=None)
        stage.heal()
        stage.until(lambda: stage.partition("n2").is_being_cut and full.struck)
        stage.stop("n3")
        stage.until(lambda: stage.partition("n2").leader_id == NO_NODE)
        assert stage.log("n2").log_end == 4
        stage.start("n3")
        stage.storage("n2").mend()
        stage.until(lambda: set(decided(stage).isr) == {2, 3})
        assert stage.values("n2") == stage.values("n3")


def test_a_log_whose_new_beginning_is_obsolete_stays_as_it_is() -> None:
    with Stage(3) as stage:
        stage.create(replicas=(2, 3))
        stage.send(b"v0")
        stage.kill("n3")
        stage.until(lambda: set(decided(stage).isr) == {2})
        stage.send(b"v1")
        assert stage.run(stage.client.delete_records("n2", 2)) is Code.NONE
        full = stage.storage("n3").fail("create", "*/orders-0/*.log.tmp", errno.ENOSPC, times=None)
        stage.start("n3")
        stage.until(lambda: full.struck > 0)
        assert stage.partition("n3").is_being_cut
        stage.stop("n2")
        stage.until(lambda: stage.partition("n3").leader_id == NO_NODE)
        assert stage.log("n3").log_end == 1


@pytest.mark.parametrize("checkpoint", ["recovery-point", "cleaner"])
def test_a_checkpoint_that_fails_after_a_cut_loses_that_replica_which_would_wait_for_ever(checkpoint: str) -> None:
    with Stage(3, watched=True) as stage:
        diverged(stage, flush_messages=1)
        stage.log("n2").clean_end = 4
        stage.storage("n2").fail("append", f"/data/{checkpoint}-offset-checkpoint*", errno.EIO, times=None)
        stage.heal()
        stage.until(lambda: stage.log("n2").offline is not None)
        stage.until(lambda: decided(stage).directory(2) == DIRECTORY_LOST)
        stage.kill("n2")
        stage.storage("n2").mend()
        stage.start("n2")
        stage.until(lambda: set(decided(stage).isr) == {2, 3})
        assert stage.values("n2") == stage.values("n3")


def test_a_checkpoint_that_fails_after_a_log_began_anew_loses_that_replica() -> None:
    with Stage(3, watched=True) as stage:
        stage.create(replicas=(2, 3))
        stage.send(b"v0")
        stage.kill("n3")
        stage.until(lambda: set(decided(stage).isr) == {2})
        stage.send(b"v1")
        assert stage.run(stage.client.delete_records("n2", 2)) is Code.NONE
        stage.storage("n3").fail("append", "/data/log-start-offset-checkpoint*", errno.EIO, times=None)
        stage.start("n3")
        stage.until(lambda: stage.log("n3").offline is not None)
        stage.until(lambda: decided(stage).directory(3) == DIRECTORY_LOST)


def test_a_disk_that_is_full_of_a_log_that_begins_anew_does_not_keep_it_from_that() -> None:
    with Stage(3, replica_lag_time_max_ms=2000, expects_failures=True) as stage:
        stage.create(replicas=(2, 3), file_delete_delay_ms=1000)
        for _ in range(20):
            stage.send(b"x" * 5000)
        stage.until(lambda: stage.log("n3").high_watermark == 20)
        stage.cut("n2", "n3")
        stage.write("n2", b"z", acks=1)
        stage.until(lambda: set(decided(stage).isr) == {2})
        for _ in range(5):
            stage.write("n2", b"y")
        stage.begin(stage.visitor("impatient").delete_records("n2", 25), by="impatient")
        stage.until(lambda: stage.log("n2").log_start == 25)
        stage.pass_time(5)
        storage = stage.storage("n3")
        storage.capacity = storage._used
        stage.heal()
        stage.until(lambda: set(decided(stage).isr) == {2, 3}, 60)
        assert stage.log("n3").log_start == 25
