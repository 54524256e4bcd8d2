"""The file that says what is wrong with a log: it is there when the damage is reported, it speaks of that log alone,
and it goes when the log is whole again."""

from __future__ import annotations

import errno
from collections.abc import Generator
from pathlib import PurePath

import pytest

from highwater.log import checkpoint, names
from highwater.log.scan import BadBatch
from highwater.metadata.brokers import DIRECTORY_LOST
from highwater.model import NO_NODE, TopicPartition
from highwater.wire import records
from highwater.world import Disk, Step
from tests.scenarios.damaged_replicas import (
    FAST,
    FIRST,
    SENT,
    aside,
    damage,
    forget_the_first_segment,
    is_intact,
    keep_a_copy_of_2,
    remove_segment,
    rot,
    send_all,
    stop_2,
    sync_everything,
)
from tests.scenarios.mishaps import decided, delete_topic
from tests.scenarios.stage import ORDERS, Stage

MARK = PurePath(f"/data/{ORDERS}/{names.DAMAGE_MARK}")


def delay_marks(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """The threads are busy: a mark is written so long after it was asked for."""
    replace = checkpoint.replace_file

    def replace_later(disk: Disk, path: PurePath, data: bytes) -> Generator[Step, None, None]:
        if path.name == names.DAMAGE_MARK:
            yield Step(takes=seconds)
        yield from replace(disk, path, data)

    monkeypatch.setattr(checkpoint, "replace_file", replace_later)


@pytest.fixture
def slow_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    delay_marks(monkeypatch, 3.0)


def is_marked(stage: Stage, name: str) -> bool:
    return stage.storage(name).find(MARK) is not None


def prepare(stage: Stage) -> int:
    """Everything is on 2 and 3, and synced. A batch of 3 rots; where it begins."""
    stage.create(replicas=(2, 3), internal_segment_bytes=500)
    for value in SENT:
        stage.send(value)
    stage.until(lambda: stage.log("n3").high_watermark == len(SENT))
    sync_everything(stage, "n3")
    return rot(stage, "n3")


def comes_back_whole(stage: Stage) -> None:
    stage.kill("n3")
    stage.storage("n3").mend()
    stage.heal()
    stage.start("n3")
    stage.until(lambda: set(decided(stage).isr) == {2, 3})
    assert is_intact(stage, "n3"), "it is in sync with a damaged batch"


@pytest.mark.usefixtures("slow_marks")
def test_a_second_damage_is_not_reported_before_the_first_is_written_down() -> None:
    """Two readers find two damaged segments, one after the other."""
    with Stage(3, expects_failures=True, **FAST) as stage:
        at = prepare(stage)
        log = stage.log("n3")
        stage.cut("n1", "n3", one_way=True)
        log.found_damaged(BadBatch(log.segments[0].file.path, at, "its checksum is wrong"))
        log.found_damaged(BadBatch(log.segments[1].file.path, 0, "its checksum is wrong"))
        stage.until(lambda: decided(stage).directory(3) == DIRECTORY_LOST)
        comes_back_whole(stage)


@pytest.mark.usefixtures("slow_marks")
def test_a_change_of_metadata_does_not_report_damage_before_it_is_written_down() -> None:
    """While the mark is being written, 3 applies a change of the partition: `Publisher` reports the damage, too."""
    with Stage(3, expects_failures=True, **FAST) as stage:
        at = prepare(stage)
        log, node = stage.log("n3"), stage.node("n3")
        log.found_damaged(BadBatch(log.segments[0].file.path, at, "its checksum is wrong"))
        assert node.role is not None and node.role.publisher is not None and node.broker is not None
        publisher = node.role.publisher
        node.world.call(publisher._look_again, node.broker.hosted.get(ORDERS))
        stage.until(lambda: not publisher._news.is_set() and publisher._pending is None)
        stage.cut("n1", "n3", one_way=True)
        stage.until(lambda: decided(stage).directory(3) == DIRECTORY_LOST)
        comes_back_whole(stage)


@pytest.mark.usefixtures("slow_marks")
def test_a_mark_is_not_written_beside_the_log_that_replaces_the_damaged_one() -> None:
    """Two damages again: the second one is reported at once, and 3 begins anew while the mark is being written."""
    with Stage(3, expects_failures=True, **FAST) as stage:
        at = prepare(stage)
        log = stage.log("n3")
        log.found_damaged(BadBatch(log.segments[0].file.path, at, "its checksum is wrong"))
        log.found_damaged(BadBatch(log.segments[1].file.path, 0, "its checksum is wrong"))
        stage.until(lambda: stage.has("n3") and stage.log("n3") is not log)
        stage.until(lambda: set(decided(stage).isr) == {2, 3})
        stage.pass_time(5.0)
        assert not is_marked(stage, "n3"), "a whole log is fetched again at the next start"


@pytest.mark.usefixtures("slow_marks")
def test_a_mark_is_not_written_into_the_next_log_of_the_same_name() -> None:
    with Stage(3, expects_failures=True) as stage:
        stage.create(replicas=(2, 3))
        send_all(stage)
        damage(stage, "n3")
        stage.run(delete_topic(stage.client, ORDERS.topic))
        stage.until(lambda: not stage.has("n2") and not stage.has("n3"))
        stage.create(replicas=(2, 3))
        stage.send(b"new")
        stage.pass_time(5.0)
        assert not is_marked(stage, "n3"), "the mark speaks of the log that was deleted"


def test_a_mark_is_written_though_the_disk_was_full_at_first() -> None:
    with Stage(3, expects_failures=True, **FAST) as stage:
        at = prepare(stage)
        log = stage.log("n3")
        fault = stage.storage("n3").fail("create", f"{MARK}*", errno.ENOSPC, times=1)
        stage.cut("n1", "n3", one_way=True)
        log.found_damaged(BadBatch(log.segments[0].file.path, at, "its checksum is wrong"))
        stage.until(lambda: decided(stage).directory(3) == DIRECTORY_LOST)
        assert fault.struck
        stage.pass_time(2.5)
        comes_back_whole(stage)


def test_a_missing_segment_is_written_down_though_the_disk_was_full_when_the_log_was_opened() -> None:
    """The leader cannot be reached, so the replica is not fetched again before its broker is killed."""
    sent = [b"a", b"b", b"c", b"d"]
    with Stage(3, expects_failures=True, **FAST) as stage:
        stage.create(replicas=(2, 3), internal_segment_bytes=70)
        for value in sent:
            stage.send(value)
        stage.until(lambda: stage.log("n3").high_watermark == len(sent))
        stage.stop("n3")
        remove_segment(stage, "n3", 0)
        fault = stage.storage("n3").fail("create", f"{MARK}*", errno.ENOSPC, times=1)
        stage.cut("n2", "n3")
        stage.start("n3", waits=False)
        stage.until(lambda: decided(stage).directory(3) == DIRECTORY_LOST)
        assert fault.struck
        stage.isolate("n3")
        stage.pass_time(3.0)
        stage.kill("n3")
        stage.heal()
        stage.start("n3")
        stage.until(lambda: set(decided(stage).isr) == {2, 3})
        assert stage.values("n3") == sent, "it is in sync without its first segment"


def test_a_mark_that_found_no_room_is_not_written_twice_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second damage is found before the mark is tried again. By then the disk has room and is slow. The second write
    would end when the next log has taken the directory."""
    replace, written = checkpoint.replace_file, []

    def replace_later(disk: Disk, path: PurePath, data: bytes) -> Generator[Step, None, None]:
        if path.name == names.DAMAGE_MARK:
            written.append(data)
            if len(written) == 1:
                raise OSError(errno.ENOSPC, "ENOSPC")
            yield Step(takes=3.0)
        yield from replace(disk, path, data)

    monkeypatch.setattr(checkpoint, "replace_file", replace_later)
    with Stage(3, expects_failures=True, **FAST) as stage:
        at = prepare(stage)
        log = stage.log("n3")
        stage.cut("n1", "n3", one_way=True)
        log.found_damaged(BadBatch(log.segments[0].file.path, at, "its checksum is wrong"))
        stage.pass_time(0.5)
        log.found_damaged(BadBatch(log.segments[1].file.path, 0, "its checksum is wrong"))
        stage.pass_time(3.2)
        stage.heal()
        stage.until(lambda: stage.has("n3") and stage.log("n3") is not log)
        stage.until(lambda: set(decided(stage).isr) == {2, 3})
        stage.pass_time(5.0)
        assert not is_marked(stage, "n3"), "a whole log is fetched again at the next start"
        assert len(written) == 2


def test_damage_is_reported_though_the_disk_hangs_while_it_is_written_down(monkeypatch: pytest.MonkeyPatch) -> None:
    delay_marks(monkeypatch, 3600.0)
    with Stage(3, expects_failures=True) as stage:
        stage.create(replicas=(2, 3))
        send_all(stage)
        damage(stage, "n2")
        stage.until(lambda: decided(stage).leader == 3, 60.0)


def test_a_follower_that_is_damaged_later_is_fetched_again_though_an_old_copy_of_it_is_kept() -> None:
    """As in test_a_damaged_log_is_kept_though_one_with_less_is_in_sync, a copy is kept for good. Much later the last
    batch of 2 rots: its epoch, which no checksum covers. The leader 3 is whole."""
    with Stage(3, broker_session_timeout_ms=9_000, expects_failures=True) as stage:
        keep_a_copy_of_2(stage)
        assert aside(stage, "n2")
        sent = [b"a", b"b", b"c"]
        for value in sent:
            stage.write("n3", value)
        stage.until(lambda: stage.log("n2").log_end == 3)
        stage.kill("n2")
        stage.write("n3", b"d")
        data = memoryview(bytes(stage.storage("n2").file(FIRST).data))
        at = [position for position, _, _ in records.walk(data)][-1]
        stage.storage("n2").damage(FIRST, at + 12, (99).to_bytes(4, "big"))
        stage.start("n2")
        stage.until(lambda: set(decided(stage).isr) == {2, 3}, 60.0)
        assert stage.values("n2") == [*sent, b"d"]


def test_a_mark_on_a_partition_with_one_replica_does_not_make_every_stop_of_its_broker_unclean() -> None:
    """2 stopped in order and is in the ELR of another partition; 3, which led that one, is gone."""
    other = TopicPartition("others", 0)
    with Stage(3, broker_session_timeout_ms=1500, expects_failures=True) as stage:
        stage.create(replicas=(2,))
        stage.send(b"a")
        damage(stage, "n2")
        stage.until(lambda: is_marked(stage, "n2"))
        stage.stop("n2")
        stage.start("n2")
        stage.until(lambda: stage.leads("n2"))
        stage.create(other, replicas=(2, 3), min_insync_replicas=2)
        stage.send(b"x", tp=other)
        stage.stop("n2")
        stage.until(lambda: decided(stage, other).leader == 3)
        stage.kill("n3")
        stage.until(lambda: decided(stage, other).leader == NO_NODE)
        assert 2 in decided(stage, other).elr
        stage.start("n2")
        stage.until(lambda: decided(stage, other).leader == 2)


def test_a_mark_goes_with_the_damaged_segment() -> None:
    """The last copy is damaged in its first segment. Its records are deleted, and the segment with them."""
    with Stage(2, expects_failures=True, log_retention_check_interval_ms=1000, log_initial_task_delay_ms=500) as stage:
        stage.create(replicas=(2,), internal_segment_bytes=120)
        for value in SENT:
            stage.send(value)
        log = stage.log("n2")
        log.found_damaged(BadBatch(log.segments[0].file.path, 0, "its checksum is wrong"))
        stage.until(lambda: is_marked(stage, "n2"))
        stage.run(stage.client.delete_records("n2", 10))
        stage.until(lambda: log.segments[0].base_offset > 0)
        assert log.trouble is None
        stage.pass_time(5.0)
        stage.stop("n2")
        stage.start("n2")
        stage.until(lambda: stage.leads("n2"))
        assert stage.log("n2").trouble is None, stage.log("n2").trouble


def test_a_mark_does_not_grow_with_each_start() -> None:
    with Stage(2, expects_failures=True) as stage:
        stage.create(replicas=(2,), internal_segment_bytes=70)
        for value in (b"a", b"b", b"c"):
            stage.send(value)
        stage.stop("n2")
        remove_segment(stage, "n2", 1)
        sizes = []
        for _ in range(3):
            stage.start("n2")
            stage.until(lambda: stage.leads("n2"))
            sizes.append(bytes(stage.storage("n2").file(MARK).data))
            stage.stop("n2")
        assert sizes[0] == sizes[1] == sizes[2], sizes


def test_a_damaged_log_stays_lost_though_its_broker_was_the_last_leader() -> None:
    """2 and 3 are in the ELR, 3 is dead, and 2 had failed. When 2 starts, it lacks a segment. So its registration takes
    it out of the ELR. 3 has everything: 2 is the last leader, but not the last copy."""
    with Stage(3, broker_session_timeout_ms=1500, expects_failures=True, **FAST) as stage:
        stage.create(replicas=(2, 3), min_insync_replicas=2, internal_segment_bytes=70)
        for value in (b"a", b"b", b"c"):
            stage.send(value)
        sync_everything(stage, "n2")
        stage.kill("n3")
        stage.until(lambda: decided(stage).isr == (2,))
        stage.log("n2").storage_failed(OSError(errno.EIO, "EIO"))
        stage.until(lambda: decided(stage).directory(2) == DIRECTORY_LOST)
        assert set(decided(stage).elr) == {2, 3} and decided(stage).leader == NO_NODE
        stage.kill("n2")
        remove_segment(stage, "n2", 1)
        stage.start("n2")
        stage.until(lambda: decided(stage).elr == (3,) or decided(stage).leader == 2)
        stage.pass_time(5.0)
        seen = (decided(stage).leader, decided(stage).directory(2))
        assert seen == (NO_NODE, DIRECTORY_LOST), "a log with a hole can be elected"


def test_a_log_that_lacks_its_first_and_its_last_segment_is_fetched_anew() -> None:
    """Where the log began is unknown, as after a clean stop of Apache Kafka. The leader sends the end again, but not
    the first segment, of which only the indexes are left."""
    sent = [b"a", b"b", b"c", b"d"]
    with Stage(3, expects_failures=True) as stage:
        stop_2(stage, sent)
        forget_the_first_segment(stage)
        remove_segment(stage, "n2", 3)
        stage.start("n2")
        stage.until(lambda: set(decided(stage).isr) == {2, 3})
        assert stage.values("n2") == sent


def test_a_damage_is_written_down_though_an_earlier_one_went_with_its_segment() -> None:
    retention = {"log_retention_check_interval_ms": 1000, "log_initial_task_delay_ms": 500}
    with Stage(3, expects_failures=True, **{**FAST, **retention}) as stage:
        stage.create(replicas=(2, 3), internal_segment_bytes=200)
        for value in SENT:
            stage.send(value)
        stage.until(lambda: stage.log("n3").high_watermark == len(SENT))
        stage.stop("n3")
        stage.until(lambda: decided(stage).isr == (2,))
        log = stage.log("n2")
        log.found_damaged(BadBatch(log.segments[0].file.path, 0, "its checksum is wrong"))
        stage.until(lambda: is_marked(stage, "n2"))
        stage.run(stage.client.delete_records("n2", 10))
        stage.until(lambda: log.segments[0].base_offset > 0)
        assert log.trouble is None
        stage.start("n3")
        stage.until(lambda: set(decided(stage).isr) == {2, 3})
        sync_everything(stage, "n2")
        stage.cut("n1", "n2", one_way=True)
        log.found_damaged(BadBatch(log.segments[1].file.path, 0, "its checksum is wrong"))
        stage.until(lambda: decided(stage).directory(2) == DIRECTORY_LOST)
        stage.kill("n2")
        stage.heal()
        stage.start("n2")
        stage.until(lambda: set(decided(stage).isr) == {2, 3})
        assert stage.said("n2", "is kept as") or stage.said("n2", "are kept as"), "it was not fetched again"
