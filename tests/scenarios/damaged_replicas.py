"""Replicas that are damaged, lost or lack something, in scenarios with a partition on brokers 2 and 3."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from pathlib import PurePath

from highwater.log.scan import BadBatch
from highwater.metadata.brokers import DIRECTORY_LOST
from highwater.model import NO_NODE, TopicPartition
from highwater.wire import records
from tests.scenarios.mishaps import decided
from tests.scenarios.stage import ORDERS, Stage

SENT = [b"v%d" % at for at in range(20)]
FIRST = PurePath(f"/data/{ORDERS}/{0:020d}.log")
FAST = {"log_flush_offset_checkpoint_interval_ms": 1000, "log_initial_task_delay_ms": 500}
DELAY_SECONDS = 61.0
"""A little more than file.delete.delay.ms."""
UNCLEAN = 1


def rot(stage: Stage, name: str) -> int:
    """The fourth batch rots on the disk; where it begins."""
    at = [position for position, _, _ in records.walk(memoryview(bytes(stage.storage(name).file(FIRST).data)))][3]
    stage.storage(name).damage(FIRST, at + 63, b"\xff\xff")
    return at


def is_intact(stage: Stage, name: str) -> bool:
    data = memoryview(bytes(stage.storage(name).file(FIRST).data))
    return all(records.is_intact(data[position : position + size]) for position, size, _ in records.walk(data))


def send_all(stage: Stage) -> None:
    for value in SENT:
        stage.send(value)
    for replica in decided(stage).isr:
        stage.until(lambda name=f"n{replica}": stage.log(name).high_watermark == len(SENT))  # type: ignore[misc]


def damage(stage: Stage, name: str) -> None:
    log = stage.log(name)
    log.found_damaged(BadBatch(log.active.file.path, 0, "its checksum is wrong"))


def fail(stage: Stage, name: str) -> None:
    stage.log(name).storage_failed(OSError(5, "EIO"))


def aside(stage: Stage, name: str, tp: TopicPartition = ORDERS) -> list[str]:
    """Directories of the partition that are out of service."""
    entries = stage.storage(name).directory(PurePath("/data")).entries
    return [entry for entry in entries if entry.startswith(f"{tp}.")]


def begun_anew(stage: Stage, name: str) -> bool:
    return stage.has(name) and stage.log(name).log_end == 0


def sync_everything(stage: Stage, name: str) -> None:
    """All records of the replica are durable, and the recovery point says so."""
    log = stage.log(name)
    stage.node(name).world.call(log.flush)
    stage.until(lambda: log.durable_end == log.log_end)
    stage.pass_time(2.1)


def remove_segment(stage: Stage, name: str, base_offset: int) -> None:
    entries = stage.storage(name).directory(PurePath(f"/data/{ORDERS}")).entries
    for each in [each for each in entries if each.startswith(f"{base_offset:020d}.")]:
        del entries[each]


def stop_2(stage: Stage, sent: Sequence[bytes], **settings: object) -> None:
    """Each record has a segment of its own, on 2 and 3. 2 stops in order, and 3 leads."""
    stage.create(replicas=(2, 3), internal_segment_bytes=70, **settings)
    for value in sent:
        stage.send(value)
    stage.stop("n2")
    stage.until(lambda: decided(stage).leader == 3)


def stop_2_and_lose_3(stage: Stage, sent: Sequence[bytes]) -> None:
    """2 stopped in order and is in the ELR; 3, which led after it, is gone."""
    stop_2(stage, sent, min_insync_replicas=2)
    stage.kill("n3")
    stage.until(lambda: decided(stage).leader == NO_NODE)
    assert 2 in decided(stage).elr


def is_in_sync_and_leads_with_everything(stage: Stage, sent: Sequence[bytes]) -> None:
    """2 joins the ISR and leads for a while. Neither replica lacks a record afterwards."""
    stage.until(lambda: set(decided(stage).isr) == {2, 3})
    in_sync = stage.values("n2")
    stage.stop("n3")
    stage.until(lambda: stage.leads("n2"))
    stage.start("n3")
    stage.until(lambda: set(decided(stage).isr) == {2, 3})
    stage.pass_time(5.0)
    assert (in_sync, stage.values("n3"), stage.read()) == (sent, sent, sent)


def call_3_lost_for_a_while(stage: Stage) -> None:
    """Descriptors are short on 3: its whole log cannot be opened, and it is reported as lost. 3 is killed then, and the
    next start finds descriptors."""
    stage.create(replicas=(2, 3))
    for value in SENT:
        stage.send(value)
    stage.stop("n3")
    stage.storage("n3").fail("open", f"/data/{ORDERS}/*.log", errno.EMFILE, times=None)
    stage.start("n3", waits=False)
    stage.until(lambda: decided(stage).directory(3) == DIRECTORY_LOST)
    stage.kill("n3")
    stage.storage("n3").mend()


def keep_a_copy_of_2(stage: Stage) -> None:
    """3 loses with its power what it had not synced, and leads again. So the damaged copy of 2, which has more, is kept
    beside the new one."""
    stage.create(replicas=(2, 3))
    send_all(stage)
    stage.cut_power("n3")
    stage.lose_records("n3", 0)
    damage(stage, "n2")
    stage.until(lambda: begun_anew(stage, "n2"))
    stage.start("n3")
    stage.until(lambda: set(decided(stage).isr) == {2, 3})


def forget_the_first_segment(stage: Stage) -> None:
    """2 is down. Its first segment is gone but for the indexes, and where the log began is unknown, as after a clean
    stop of Apache Kafka, which does not write that down."""
    stage.storage("n2").spoil(PurePath("/data/log-start-offset-checkpoint"), b"0\n0\n")
    del stage.storage("n2").directory(PurePath(f"/data/{ORDERS}")).entries[FIRST.name]
