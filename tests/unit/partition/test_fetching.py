"""What a fetch may be sent, and when it counts as an acknowledgement."""

from __future__ import annotations

import asyncio
from pathlib import Path

from highwater.errors import Code
from highwater.model import NodeId
from highwater.partition import fetching
from highwater.partition.fetching import READ_COMMITTED, FetchRow, Reader
from highwater.partition.partition import Partition
from highwater.replication.leader import Leader
from highwater.wire import records
from highwater.wire.records.control import ControlType, build_marker
from tests.unit.log.bench import START_MS, Bench, append, batch
from tests.unit.partition.hosting import ALL, BROKER_EPOCH, ME, OTHER, THIRD, code_of, entry_at, played, read, write

ZERO = NodeId(0)
FOLLOWER = Reader(OTHER, 0, BROKER_EPOCH)
COMMITTED_ONLY = Reader(-1, READ_COMMITTED, -1)


def test_an_error_has_no_offsets() -> None:
    row = FetchRow(Code.NOT_LEADER_OR_FOLLOWER)
    assert (row.high_watermark, row.last_stable, row.log_start, row.size) == (-1, -1, -1, 0), "as Kafka does"


def test_levels_of_isolation_have_the_numbers_of_the_protocol() -> None:
    assert READ_COMMITTED == 1


def test_the_broker_with_the_smallest_id_follows_as_the_others_do(tmp_path: Path) -> None:
    async def play(bench: Bench, partition: Partition) -> None:
        follower = Reader(ZERO, READ_COMMITTED, BROKER_EPOCH)
        assert code_of(lambda: read(partition, 0, follower)) is Code.UNKNOWN_LEADER_EPOCH, "it is no replica"
        partition.lead(ME, 4, 1, (ME, ZERO), (ME, ZERO), {})
        write(partition, b"a")
        assert read(partition, 0, follower).size > 0, "it sees what is written"
        assert partition.log.high_watermark == 0
        assert read(partition, 1, follower).aborted is None, "it takes all as it is"
        assert partition.log.high_watermark == 1, "it has acknowledged that"

    played(tmp_path, play)


def test_one_request_is_one_acknowledgement_however_often_it_is_looked_at(tmp_path: Path) -> None:
    async def play(bench: Bench, partition: Partition) -> None:
        entry = entry_at(0, 3, follower=True)
        fetching.read(entry, partition, FOLLOWER, 1000, True)
        assert not entry.is_fresh
        leader = partition.require_leader()
        leader.followers[OTHER].end = None
        fetching.read(entry, partition, FOLLOWER, 1000, True)
        assert leader.followers[OTHER].end is None

    played(tmp_path, play, isr=(ME, OTHER))


def test_a_place_that_is_not_in_the_log_is_no_acknowledgement(tmp_path: Path) -> None:
    async def play(bench: Bench, partition: Partition) -> None:
        write(partition, b"a", acks=1)
        assert code_of(lambda: read(partition, 2, FOLLOWER)) is Code.OFFSET_OUT_OF_RANGE
        assert partition.require_leader().followers[OTHER].end is None

    played(tmp_path, play, isr=(ME, OTHER))


def test_a_follower_learns_what_its_own_fetch_commits(tmp_path: Path) -> None:
    async def play(bench: Bench, partition: Partition) -> None:
        write(partition, b"a", acks=1)
        assert read(partition, 1, FOLLOWER)[1:4] == (1, 1, 0)

    played(tmp_path, play, isr=(ME, OTHER))


def test_a_reader_gets_no_more_than_it_asked_for_nor_than_there_is_room_for(tmp_path: Path) -> None:
    async def play(bench: Bench, partition: Partition) -> None:
        for _ in range(10):
            write(partition, bytes(100))
        one = read(partition, 0).size // 10
        reader = Reader(-1, 0, -1)
        assert fetching.read(entry_at(0, max_bytes=3 * one), partition, reader, 7 * one, True).size == 3 * one
        assert fetching.read(entry_at(0, max_bytes=7 * one), partition, reader, 3 * one, True).size == 3 * one

    played(tmp_path, play)


def test_a_read_committed_reader_sees_no_open_transaction_and_the_aborted_ones(tmp_path: Path) -> None:
    async def play(bench: Bench, partition: Partition) -> None:
        log = partition.log
        rows = [(START_MS, None, b"a", ())]
        for pid in (7, 8):
            append(log, records.build(rows, producer_id=pid, producer_epoch=0, base_sequence=0, transactional=True), 3)
        log.append_as_follower(
            memoryview(
                build_marker(
                    ControlType.ABORT,
                    timestamp=START_MS,
                    producer_id=7,
                    producer_epoch=0,
                    coordinator_epoch=0,
                    base_offset=2,
                    leader_epoch=3,
                )
            )
        )
        log.move_high_watermark(3)
        every = read(partition, 0)
        assert (every.high_watermark, every.last_stable, every.aborted) == (3, 1, None)
        stable = read(partition, 0, COMMITTED_ONLY)
        assert stable.aborted == [(7, 0)]
        assert 0 < stable.size < every.size, "of 8 nobody knows yet how it ends"
        beyond = read(partition, 2, COMMITTED_ONLY)
        assert (beyond.size, beyond.aborted) == (0, []), "there is nothing yet, and no error"

    played(tmp_path, play)


def test_a_fetch_of_an_older_incarnation_is_refused(tmp_path: Path) -> None:
    async def play(bench: Bench, partition: Partition) -> None:
        read(partition, 0, Reader(THIRD, 0, BROKER_EPOCH))
        old = Reader(THIRD, 0, BROKER_EPOCH - 1)
        assert code_of(lambda: read(partition, 0, old)) is Code.NOT_LEADER_OR_FOLLOWER

    played(tmp_path, play, isr=ALL)


def test_a_batch_is_read_by_its_readers_as_it_was_written(tmp_path: Path) -> None:
    async def play(bench: Bench, partition: Partition) -> None:
        data = batch((b"a", b"b"))
        partition.append(memoryview(data), -1, 9, START_MS)
        row = read(partition, 1)
        assert row.size == len(data), "a batch is never cut for a reader that begins amid it"

    played(tmp_path, play)


class InRack:
    """A consumer with a rack: the leader prefers `replica`, and a follower serves it if it `stands`."""

    def __init__(self, replica: NodeId | None = None, stands: bool = True) -> None:
        self.replica = replica
        self.stands = stands

    def preferred(self, leader: Leader, offset: int) -> NodeId | None:
        return self.replica

    def may_read(self, partition: Partition) -> bool:
        return self.stands


def test_a_leader_sends_a_consumer_to_the_preferred_replica_after_the_check_of_the_epoch(tmp_path: Path) -> None:
    async def play(bench: Bench, partition: Partition) -> None:
        write(partition, b"a")
        near = Reader(-1, 0, -1, InRack(OTHER))
        assert read(partition, 0, near) == FetchRow(Code.NONE, 1, 1, 0, preferred=OTHER, is_passing=True)
        assert code_of(lambda: read(partition, 0, near, epoch=2)) is Code.FENCED_LEADER_EPOCH
        here = read(partition, 0, Reader(-1, 0, -1, InRack()))
        assert (here.preferred, here.is_passing) == (-1, False) and here.size

    played(tmp_path, play)


def test_a_follower_serves_a_consumer_with_a_rack_and_is_read_again_by_every_fetch(tmp_path: Path) -> None:
    async def play(bench: Bench, partition: Partition) -> None:
        write(partition, b"a")
        partition.step_down(OTHER, 4, 1, ALL)
        row = read(partition, 0, Reader(-1, 0, -1, InRack()), epoch=4)
        assert row.size > 0 and row.is_passing and row[1:4] == (1, 1, 0)
        assert code_of(lambda: read(partition, 0, Reader(-1, 0, -1, InRack()), epoch=3)) is Code.FENCED_LEADER_EPOCH
        assert code_of(lambda: read(partition, 0, Reader(-1, 0, -1, InRack()), epoch=5)) is Code.UNKNOWN_LEADER_EPOCH
        assert code_of(lambda: read(partition, 2, Reader(-1, 0, -1, InRack()))) is Code.OFFSET_OUT_OF_RANGE
        refused = Reader(-1, 0, -1, InRack(stands=False))
        assert code_of(lambda: read(partition, 0, refused)) is Code.NOT_LEADER_OR_FOLLOWER
        assert code_of(lambda: read(partition, 0)) is Code.NOT_LEADER_OR_FOLLOWER, "a consumer without a rack"
        assert code_of(lambda: read(partition, 0, FOLLOWER)) is Code.NOT_LEADER_OR_FOLLOWER, "another follower"

    played(tmp_path, play)


def test_a_follower_refuses_a_consumer_while_its_log_is_being_cut_and_when_it_is_offline(tmp_path: Path) -> None:
    async def play(bench: Bench, partition: Partition) -> None:
        write(partition, b"a")
        partition.step_down(OTHER, 4, 1, ALL)
        near = Reader(-1, 0, -1, InRack())
        partition.cutting = asyncio.get_running_loop().create_task(asyncio.sleep(0))
        assert code_of(lambda: read(partition, 0, near)) is Code.NOT_LEADER_OR_FOLLOWER
        await partition.cutting
        assert read(partition, 0, near).size > 0
        partition.log.storage_failed(OSError("broken"))
        assert code_of(lambda: read(partition, 0, near)) is Code.KAFKA_STORAGE_ERROR

    played(tmp_path, play)
