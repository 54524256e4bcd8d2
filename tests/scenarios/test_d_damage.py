"""Scenarios of group D: bytes on a disk that are not those that were written."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import PurePath

import pytest

from highwater.errors import Code
from highwater.metadata.brokers import DIRECTORY_LOST
from highwater.net.client import CallFailed
from highwater.sim.storage import FileNode
from highwater.wire import records
from tests.scenarios.mishaps import decided
from tests.scenarios.stage import Stage

COLD_SECONDS = 11.0
"""After so long what was written counts as read from the disk."""
SENT = [b"first", b"second", b"third"]


def file_of(stage: Stage, name: str) -> FileNode:
    return stage.storage(name).file(stage.log(name).directory / f"{0:020d}.log")


def place(node: FileNode, at: int) -> tuple[int, int]:
    """Position and size of the batch at that place in the file."""
    batches = list(records.walk(memoryview(bytes(node.data))))
    return batches[at][0], batches[at][1]


def flip_a_bit(node: FileNode) -> None:
    position, size = place(node, 1)
    node.data[position + size - 2] ^= 0x10


def zero_a_page(node: FileNode) -> None:
    position, size = place(node, 1)
    node.data[position : position + size] = bytes(size)


def repeat_what_lies_before(node: FileNode) -> None:
    """An intact batch in the place of another: its checksum holds, its offsets do not."""
    position, size = place(node, 1)
    before, before_size = place(node, 0)
    assert before_size == size
    node.data[position : position + size] = node.data[before : before + size]


DAMAGES = [flip_a_bit, zero_a_page]


def stored(stage: Stage, **configs: object) -> None:
    """Three batches of the same size on n2, which leads, and n3."""
    stage.create(replicas=(2, 3), **configs)
    for value in SENT:
        stage.send(value.ljust(10))
    stage.until(lambda: stage.log("n3").high_watermark == len(SENT))
    stage.pass_time(COLD_SECONDS)


def whole(stage: Stage, name: str) -> bool:
    return [value.strip() for value in stage.values(name)] == SENT


@pytest.mark.parametrize("damage", DAMAGES)
def test_d3_a_leader_never_serves_damaged_records_and_another_leads_while_it_fetches_them_again(
    damage: Callable[[FileNode], None],
) -> None:
    """Setup: 2 leads, 3 is in sync. Fault: the disk of 2 no longer holds what was written. Must hold: a reader gets
    every record as it was sent, 3 leads, and 2 has all of it again before it is in the ISR."""
    with Stage(3, watched=True) as stage:
        stored(stage)
        damage(file_of(stage, "n2"))
        assert [value.strip() for value in stage.read()] == SENT
        assert stage.leader() == "n3"
        stage.until(lambda: set(decided(stage).isr) == {2, 3})
        assert whole(stage, "n2") and whole(stage, "n3")
        assert decided(stage).directory(2) != DIRECTORY_LOST
        stage.kill("n3")
        stage.until(lambda: stage.leader() == "n2")
        assert [value.strip() for value in stage.read()] == SENT


@pytest.mark.parametrize("damage", DAMAGES)
def test_d3_damage_that_a_follower_finds_takes_it_out_of_the_isr_before_it_lets_go_of_what_it_has(
    damage: Callable[[FileNode], None],
) -> None:
    with Stage(3, watched=True) as stage:
        stored(stage)
        damage(file_of(stage, "n3"))
        stage.kill("n2")
        stage.until(lambda: stage.leader() == "n3")
        with pytest.raises(CallFailed):
            stage.run(stage.client.fetch("n3", 0))  # found on the way out: the answer is broken off
        fetched = stage.run(stage.client.fetch("n3", 0))
        assert fetched.code is Code.NONE and [value.strip() for value in fetched.values] == SENT[:1]
        assert stage.run(stage.client.fetch("n3", 1)).code is Code.CORRUPT_MESSAGE, "it is the only copy"
        stage.start("n2")
        stage.until(lambda: stage.leader() == "n2" and set(decided(stage).isr) == {2, 3}, 60.0)
        assert whole(stage, "n2") and whole(stage, "n3")
        assert [value.strip() for value in stage.read()] == SENT


def test_d3_a_damaged_replica_is_no_eligible_leader_though_it_left_the_isr_last() -> None:
    """Setup: min.insync.replicas 2, so that who leaves the ISR is eligible. Fault: damage on 2, then 3, which leads
    now, dies before 2 has fetched anything. Must hold: 2 does not lead with less than was acknowledged."""
    with Stage(3, watched=True) as stage:
        stored(stage, min_insync_replicas=2)
        flip_a_bit(file_of(stage, "n2"))
        reading = stage.begin(stage.client.read())
        stage.until(lambda: decided(stage).leader == 3)
        assert 2 not in decided(stage).elr
        stage.kill("n3")
        stage.holds_for(3.0, lambda: decided(stage).leader != 2, "a replica that lost its log leads")
        stage.start("n3")
        stage.until(lambda: reading.done or reading.failed)
        stage.until(lambda: set(decided(stage).isr) == {2, 3})
        assert [value.strip() for value in stage.read()] == SENT


def test_d3_damage_below_the_recovery_point_that_is_met_at_the_start_is_fetched_anew() -> None:
    """After a clean stop nothing is scanned but what the indexes are tested by."""
    with Stage(3, watched=True) as stage:
        stored(stage)
        stage.stop("n2")
        zero_a_page(stage.storage("n2").file(stage.log("n3").directory / f"{0:020d}.log"))
        stage.start("n2")
        stage.until(lambda: set(decided(stage).isr) == {2, 3}, 60.0)
        assert whole(stage, "n2"), stage.values("n2")


def test_d16_a_write_that_never_reached_the_disk_is_found_when_it_is_read() -> None:
    """Fault: the last batch of leader 2 was acknowledged by the disk and is not there. Must hold: as for damage."""
    with Stage(3, watched=True) as stage:
        stored(stage)
        node = file_of(stage, "n2")
        position, size = place(node, 2)
        node.data[position:] = bytes(size)
        assert [value.strip() for value in stage.read()] == SENT
        stage.until(lambda: set(decided(stage).isr) == {2, 3})
        assert whole(stage, "n2")


def test_d16_a_write_that_went_astray_is_found_by_its_offsets_though_its_checksum_holds() -> None:
    """Fault: the second batch of leader 2 was overwritten by the first. Must hold: as for damage."""
    with Stage(3, watched=True) as stage:
        stored(stage)
        repeat_what_lies_before(file_of(stage, "n2"))
        assert [value.strip() for value in stage.read()] == SENT
        stage.until(lambda: set(decided(stage).isr) == {2, 3})
        assert whole(stage, "n2")


def test_a_leader_whose_disk_fails_is_followed_by_another_at_once() -> None:
    """Fault: a sync of leader 2 fails, so that nobody knows what it has. Must hold: 3 leads without waiting for any
    time limit, and 2 is in no list that a leader is chosen from."""
    with Stage(3, watched=True) as stage:
        stored(stage)
        stage.storage("n2").fail("sync", "*orders-0/*.log", errno.EIO)
        stage.log("n2").flush()
        stage.until(lambda: stage.leader() == "n3", 0.5)
        assert decided(stage).isr == (3,) and not decided(stage).elr
        stage.send(b"more")
        assert stage.read()[-1] == b"more"


def test_d3_a_leader_epoch_that_never_was_is_damage_and_the_log_is_fetched_anew() -> None:
    """No checksum covers a batch's leader epoch. Its replica would ask for what follows that epoch for ever."""
    with Stage(3, watched=True) as stage:
        stored(stage)
        stage.kill("n3")
        file = stage.storage("n3").file(PurePath("/data/orders-0") / f"{0:020d}.log")
        position, _ = place(file, -1)
        file.data[position + 12] ^= 0x40
        stage.start("n3")
        stage.until(lambda: set(decided(stage).isr) == {2, 3})
        assert whole(stage, "n3")
        assert stage.log("n3").epoch_cache.entries == [(0, 0)]
