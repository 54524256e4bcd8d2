"""A node whose disk fails it while it writes down metadata goes on from there, or stops: it is never left behind."""

from __future__ import annotations

import errno

import pytest

from highwater.model import TopicPartition
from highwater.quorum import LogPosition
from highwater.raft_node.snapshots import snapshot_name
from tests.scenarios.metadata import METADATA as DIRECTORY
from tests.scenarios.stage import Stage

TOPICS = ("t1", "t2", "t3")
METADATA = "/data/__cluster_metadata-0/*.log"


def miss_decisions(stage: Stage) -> None:
    """n2 gets them together, in one answer of several batches."""
    stage.cut("n1", "n2")
    for name in TOPICS:
        stage.run(stage.client.create(TopicPartition(name, 0), (1,), {}))


@pytest.mark.parametrize("nth", [1, 2, 3])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EMFILE])
def test_a_write_that_fails_within_an_answer_is_done_again_from_there(nth: int, code: int) -> None:
    with Stage() as stage:
        miss_decisions(stage)
        fault = stage.storage("n2").fail("append", METADATA, code, nth, times=3)
        stage.heal()
        stage.until(lambda: fault.struck == 3)
        stage.until(lambda: set(TOPICS) <= set(stage.node("n2").raft.committed.topics.by_name))
        stage.until(lambda: stage.node("n2").raft.committed.offset == stage.node("n1").raft.committed.offset)
        ours, theirs = stage.node("n2").raft.committed, stage.node("n1").raft.committed
        assert (ours.topics, ours.brokers, ours.configs) == (theirs.topics, theirs.brokers, theirs.configs)
        stage.kill("n2")
        stage.start("n2")
        assert set(TOPICS) <= set(stage.node("n2").raft.committed.topics.by_name)


def test_a_full_disk_is_logged_once_a_minute_however_often_the_metadata_is_fetched_again() -> None:
    with Stage() as stage:
        miss_decisions(stage)
        fault = stage.storage("n2").fail("append", METADATA, errno.ENOSPC, times=None)
        before = len(stage.complaints("n2"))
        stage.heal()
        stage.pass_time(10.0)
        assert fault.struck > 100
        assert 2 <= len(stage.complaints("n2")) - before < 10
        stage.storage("n2").mend()
        stage.until(lambda: set(TOPICS) <= set(stage.node("n2").raft.committed.topics.by_name))


def test_a_controller_without_room_for_its_decisions_logs_it_once_a_minute() -> None:
    with Stage() as stage:
        fault = stage.storage("n1").fail("append", METADATA, errno.ENOSPC, times=None)
        stage.pass_time(20.0)
        assert fault.struck > 30
        assert 2 <= len(stage.complaints("n1")) < 10


def test_a_node_whose_disk_does_not_take_its_metadata_any_more_stops() -> None:
    with Stage(expects_failures=True) as stage:
        miss_decisions(stage)
        stage.storage("n2").fail("append", METADATA, errno.EIO, 2, times=None)
        stage.heal()
        stage.until(lambda: stage.member("n2").hosted.gave_up)
        assert "Input/output error" in str(stage.member("n2").hosted.gave_up)
        stage.storage("n2").mend()
        stage.start("n2")
        assert set(TOPICS) <= set(stage.node("n2").raft.committed.topics.by_name)


def test_a_snapshot_written_while_a_newer_one_is_installed_is_not_listed_after_it() -> None:
    """The leader's snapshot takes the place of the log while this node still writes its own, older one."""
    with Stage(metadata_log_max_record_bytes_between_snapshots=100) as stage:
        log, snapshotter = stage.node("n2").raft.log, stage.node("n2").raft.snapshotter
        stage.run(stage.client.create(TopicPartition("t1", 0), (1,), {}))
        stage.until(lambda: snapshotter._writing)
        known = len(log.snapshots)
        installed = LogPosition(log.last_epoch, log.written_end + 1000)
        log.snapshots = [*log.snapshots, installed]
        stage.until(lambda: not snapshotter._writing)
        assert log.snapshots[known:] == [installed]
        assert log.latest_snapshot == installed
        stage.pass_time(70)
        names = {name for name in stage.storage("n2").directory(DIRECTORY).entries if name.endswith(".checkpoint")}
        assert names <= {snapshot_name(position) for position in log.snapshots} | {"recovery-point-offset-checkpoint"}
