"""A hosted replica: which clients may write and read, what is visible, and which watchers are notified when."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from highwater.errors import Code
from highwater.partition import fetching
from highwater.partition.fetch_session import FetchSession
from highwater.partition.fetching import Reader
from highwater.partition.hosted import NEVER_MS, Hosted
from highwater.partition.partition import Partition
from highwater.wire import records
from highwater.wire.compression import Codec
from tests.unit.log.bench import START_MS, Bench, append, batch, until
from tests.unit.partition.hosting import ALL, BROKER_EPOCH, ME, OTHER, THIRD, code_of, entry_at, played, read, write


def test_an_election_is_remembered_before_anything_is_written(tmp_path: Path) -> None:
    async def play(bench: Bench, partition: Partition) -> None:
        assert partition.log.epoch_cache.entries == [(3, 0)]
        write(partition)
        partition.lead(ME, 5, 1, (ME,), (ME,), {})
        assert partition.log.epoch_cache.entries == [(3, 0), (5, 1)]
        await until(lambda: partition.log.epoch_file.in_step)
        assert Path(bench.partition_directory / "leader-epoch-checkpoint").read_bytes() == b"0\n2\n3 0\n5 1\n"

    played(tmp_path, play)


def test_a_single_replica_commits_as_it_writes_and_notifies_its_watchers(tmp_path: Path) -> None:
    async def play(bench: Bench, partition: Partition) -> None:
        session = FetchSession(1, False, False, 0.0)
        session.update("orders", 0, -1, 0, -1, -1, 1000)
        session.entries["orders", 0].bind(partition)
        session.dirty.clear()
        assert write(partition, b"a", b"b") == 0
        assert partition.log.high_watermark == 2
        assert len(session.dirty) == 1

    played(tmp_path, play)


def test_a_follower_that_has_everything_learns_what_another_one_commits(tmp_path: Path) -> None:
    async def play(bench: Bench, partition: Partition) -> None:
        write(partition, b"a", acks=1)
        for follower, other in ((OTHER, None), (THIRD, OTHER)):
            session = FetchSession(follower, False, True, 0.0)
            session.update("orders", 0, 3, 1, 3, 0, 1000)
            entry = session.entries["orders", 0]
            entry.bind(partition)
            session.dirty.clear()
            fetching.read(entry, partition, Reader(follower, 0, BROKER_EPOCH), 1000, True)
            if other is None:
                first = session
                assert (partition.log.high_watermark, len(first.dirty)) == (0, 0)
        assert (partition.log.high_watermark, len(first.dirty)) == (1, 1)

    played(tmp_path, play, isr=(ME, OTHER, THIRD))


def test_consumers_see_what_is_committed_and_followers_all(tmp_path: Path) -> None:
    async def play(bench: Bench, partition: Partition) -> None:
        codes: list[Code] = []
        assert write(partition, b"a", acks=1) == 0
        partition.when_committed(1, codes.append)
        assert (partition.log.high_watermark, read(partition, 0).size, codes) == (0, 0, [])
        assert read(partition, 1).size == 0  # between high watermark and end: nothing yet, no error
        assert read(partition, 0, Reader(2, 0, BROKER_EPOCH)).size > 0
        assert code_of(lambda: read(partition, 2)) is Code.OFFSET_OUT_OF_RANGE
        partition.lead(ME, 3, 1, (ME, OTHER, THIRD), (ME,), {})
        assert (partition.log.high_watermark, codes) == (1, [Code.NONE])
        assert read(partition, 0).size > 0
        assert code_of(lambda: read(partition, 0, Reader(9, 0, BROKER_EPOCH))) is Code.UNKNOWN_LEADER_EPOCH

    played(tmp_path, play, isr=(ME, OTHER))


def test_below_the_minimum_nothing_is_taken_with_acks_all_and_nothing_committed(tmp_path: Path) -> None:
    async def play(bench: Bench, partition: Partition) -> None:
        partition.reconfigure(replace(bench.config, min_insync_replicas=2))
        partition.lead(ME, 3, 1, (ME, OTHER, THIRD), (ME,), {})
        assert code_of(lambda: write(partition)) is Code.NOT_ENOUGH_REPLICAS
        assert write(partition, acks=1) == 0
        assert partition.log.high_watermark == 0

    played(tmp_path, play, isr=(ME, OTHER))


def test_in_flush_mode_a_record_counts_once_it_is_synced(tmp_path: Path) -> None:
    async def play(bench: Bench, partition: Partition) -> None:
        codes: list[Code] = []
        write(partition)
        partition.when_committed(1, codes.append)
        assert (partition.log.high_watermark, codes) == (0, [])
        await until(lambda: bool(codes))
        assert (partition.log.high_watermark, partition.log.durable_end, codes) == (1, 1, [Code.NONE])

    played(tmp_path, play, flush_messages=1)


def test_waiting_requests_get_an_error_when_the_role_or_the_disk_is_lost(tmp_path: Path) -> None:
    async def play(bench: Bench, partition: Partition) -> None:
        codes: list[Code] = []
        write(partition, acks=1)
        partition.when_committed(1, codes.append)
        partition.step_down(OTHER, 4, 1, (ME, OTHER, THIRD))
        assert codes == [Code.NOT_LEADER_OR_FOLLOWER]
        assert code_of(lambda: write(partition)) is Code.NOT_LEADER_OR_FOLLOWER
        assert code_of(lambda: read(partition, 0)) is Code.NOT_LEADER_OR_FOLLOWER
        partition.lead(ME, 5, 2, (ME, OTHER, THIRD), (ME, OTHER), {})
        partition.log.storage_failed(OSError(5, "broken"))
        partition.failed()
        assert code_of(lambda: write(partition)) is Code.KAFKA_STORAGE_ERROR
        assert code_of(lambda: read(partition, 0)) is Code.KAFKA_STORAGE_ERROR
        for epoch in (5, 6):
            partition.lead(ME, epoch, epoch, (ME, OTHER, THIRD), (ME,), {})
            partition.when_committed(1, codes.append)
            assert (partition.log.high_watermark, codes.pop()) == (0, Code.KAFKA_STORAGE_ERROR)

    played(tmp_path, play, isr=(ME, OTHER))


def test_a_reader_in_another_epoch_learns_whether_it_is_behind_or_ahead(tmp_path: Path) -> None:
    async def play(bench: Bench, partition: Partition) -> None:
        write(partition)
        assert read(partition, 0, epoch=3).size > 0
        assert code_of(lambda: read(partition, 0, epoch=2)) is Code.FENCED_LEADER_EPOCH
        assert code_of(lambda: read(partition, 0, epoch=4)) is Code.UNKNOWN_LEADER_EPOCH

    played(tmp_path, play)


def test_a_reader_that_left_our_history_learns_where(tmp_path: Path) -> None:
    async def play(bench: Bench, partition: Partition) -> None:
        for epoch in (3, 5, 8):
            partition.lead(ME, epoch, epoch, (ME,), (ME,), {})
            write(partition, b"x", b"y")
        assert read(partition, 6, last=8).diverging is None
        assert read(partition, 2, last=3).diverging is None
        assert read(partition, 3, last=3).diverging == (3, 2)
        assert read(partition, 5, last=7).diverging == (5, 4)
        assert code_of(lambda: read(partition, 0, last=9)) is Code.OFFSET_OUT_OF_RANGE
        partition.raise_log_start(3)
        assert code_of(lambda: read(partition, 2, last=3)) is Code.OFFSET_OUT_OF_RANGE

    played(tmp_path, play)


def test_records_are_deleted_up_to_the_high_watermark_and_not_beyond(tmp_path: Path) -> None:
    async def play(bench: Bench, partition: Partition) -> None:
        write(partition, b"a", b"b", b"c")
        append(partition.log, batch())  # written, not committed
        for offset in (-2, 4):
            assert code_of(lambda offset=offset: partition.raise_log_start(offset)) is Code.OFFSET_OUT_OF_RANGE  # type: ignore[misc]
        partition.raise_log_start(2)
        assert (partition.log.log_start, code_of(lambda: read(partition, 1))) == (2, Code.OFFSET_OUT_OF_RANGE)
        partition.raise_log_start(-1)
        assert partition.log.log_start == 3
        partition.reconfigure(replace(bench.config, cleanup_policy=("compact",)))
        assert code_of(lambda: partition.raise_log_start(3)) is Code.POLICY_VIOLATION
        partition.step_down(OTHER, 4, 1, (ME, OTHER))
        assert code_of(lambda: partition.raise_log_start(3)) is Code.NOT_LEADER_OR_FOLLOWER

    played(tmp_path, play)


def test_a_batch_that_clients_may_not_write_is_refused(tmp_path: Path) -> None:
    async def play(bench: Bench, partition: Partition) -> None:
        zstd = memoryview(batch(codec=Codec.ZSTD))
        assert code_of(lambda: partition.append(zstd, -1, 6, START_MS)) is Code.UNSUPPORTED_COMPRESSION_TYPE
        large = memoryview(batch([bytes(3000)]))
        assert code_of(lambda: partition.append(large, -1, 9, START_MS)) is Code.RECORD_LIST_TOO_LARGE
        assert partition.log.log_end == 0

    played(tmp_path, play, segment_bytes=2000)


def test_a_hosted_partition_is_found_by_name_and_by_id(tmp_path: Path) -> None:
    async def play(bench: Bench, partition: Partition) -> None:
        hosted = Hosted()
        hosted.add(partition)
        assert hosted.find("orders", 0) is hosted.find(partition.topic_id, 0) is hosted.get(partition.tp) is partition
        assert hosted.find("orders", 1) is hosted.find("others", 0) is None
        assert (len(hosted), list(hosted)) == (1, [partition])
        hosted.remove(partition)
        assert (len(hosted), hosted.find("orders", 0), hosted.find(partition.topic_id, 0)) == (0, None, None)
        assert vars(hosted) == vars(Hosted()), "of a topic that is gone nothing is kept"

    played(tmp_path, play)


def test_only_replicas_with_a_flush_interval_are_looked_at_for_their_age(tmp_path: Path) -> None:
    async def play(bench: Bench, partition: Partition) -> None:
        hosted = Hosted()
        hosted.add(partition)
        assert list(hosted.flushed_by_age) == []
        partition.reconfigure(replace(partition.log.config, flush_ms=100))
        hosted.reconfigured(partition)
        assert list(hosted.flushed_by_age) == [partition]
        hosted.remove(partition)
        assert list(hosted.flushed_by_age) == []
        hosted.add(partition)
        assert list(hosted.flushed_by_age) == [partition]
        partition.reconfigure(replace(partition.log.config, flush_ms=NEVER_MS))
        hosted.reconfigured(partition)
        assert list(hosted.flushed_by_age) == []

    played(tmp_path, play)


@pytest.mark.parametrize("leads", [True, False])
def test_a_leader_whose_term_is_over_commits_nothing_more(tmp_path: Path, leads: bool) -> None:
    """It hears of its successor and of new settings in one image, and then a fetch of its last term comes."""

    async def play(bench: Bench, partition: Partition) -> None:
        assert write(partition, acks=1) == 0
        partition.reconfigure(replace(bench.config, min_insync_replicas=1), leads)
        entry = entry_at(1, 3, 3, 0, follower=True)
        fetching.read(entry, partition, Reader(OTHER, 0, BROKER_EPOCH), 1000, True)
        assert partition.log.high_watermark == (1 if leads else 0)

    played(tmp_path, play, isr=(ME, OTHER), min_insync_replicas=2)


def test_a_leader_that_stays_commits_by_a_lower_bound(tmp_path: Path) -> None:
    async def play(bench: Bench, partition: Partition) -> None:
        assert write(partition, acks=1) == 0
        assert partition.log.high_watermark == 0
        partition.reconfigure(replace(bench.config, min_insync_replicas=1))
        assert partition.log.high_watermark == 1

    played(tmp_path, play, isr=(ME,), replicas=ALL, min_insync_replicas=2)


def test_a_lower_max_message_bytes_counts_at_once(tmp_path: Path) -> None:
    async def play(bench: Bench, partition: Partition) -> None:
        assert write(partition, bytes(200)) == 0
        partition.reconfigure(replace(bench.config, max_message_bytes=100))
        assert code_of(lambda: write(partition, bytes(200))) is Code.MESSAGE_TOO_LARGE

    played(tmp_path, play)


def test_in_flush_mode_a_new_leader_syncs_what_it_had_before(tmp_path: Path) -> None:
    """What it wrote as a follower counts once it is synced, whether or not anything is written after it."""

    async def play(bench: Bench, partition: Partition) -> None:
        partition.step_down(OTHER, 4, 1, (ME, OTHER, THIRD))
        partition.log.append_as_follower(memoryview(records.build([(START_MS, None, b"v", ())], leader_epoch=4)))
        assert (partition.log.log_end, partition.log.durable_end) == (1, 0)
        partition.lead(ME, 5, 2, ALL, (ME,), {})
        await until(lambda: partition.log.durable_end == 1)
        assert partition.log.high_watermark == 1

    played(tmp_path, play, isr=(ME, OTHER), flush_messages=1)
