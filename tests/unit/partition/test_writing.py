"""Which writes a leader accepts, from which producers, and what it counts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from highwater.errors import Code
from highwater.model import NodeId
from highwater.partition.fetching import Reader
from highwater.partition.partition import Partition
from highwater.wire.compression import Codec
from highwater.wire.records import build, read_header
from highwater.wire.records.append import AT_ONCE, Laborious, Validated
from tests.unit.log.bench import START_MS, Bench, batch
from tests.unit.partition.hosting import ALL, BROKER_EPOCH, ME, OTHER, THIRD, code_of, played, read, write


def test_records_written_read_and_copied_are_counted(tmp_path: Path) -> None:
    async def play(bench: Bench, partition: Partition) -> None:
        def counted() -> tuple[int, ...]:
            copied = partition.replication_bytes_in, partition.replication_bytes_out
            return partition.records_in, partition.bytes_in, partition.bytes_out, *copied

        assert counted() == (0, 0, 0, 0, 0)
        data = batch((b"a", b"b", b"c"), pid=7, epoch=0, sequence=0)
        partition.append(memoryview(bytearray(data)), -1, 9, START_MS)
        assert partition.append(memoryview(bytearray(data)), -1, 9, START_MS).duplicate, "it is not written again"
        own = batch((b"d",))
        partition.append_own(bytearray(own))
        assert counted() == (4, len(data) + len(own), 0, 0, 0)
        partition.step_down(OTHER, 4, 1, ALL)
        fetched = build([(START_MS, None, b"e", ())], base_offset=4, leader_epoch=4)
        partition.append_fetched(memoryview(fetched))
        assert counted() == (4, len(data) + len(own), 0, len(fetched), 0)

    played(tmp_path, play)


def test_a_coordinator_writes_as_with_acks_all_and_no_batch_that_is_too_large(tmp_path: Path) -> None:
    async def play(bench: Bench, partition: Partition) -> None:
        data = batch([bytes(500)])
        for limits in ({"max_message_bytes": len(data)}, {"segment_bytes": len(data)}):
            partition.reconfigure(replace(bench.config, **limits))  # type: ignore[arg-type]
            assert partition.most_bytes == len(data)
            end = partition.log.log_end
            appended = partition.append_own(bytearray(data))
            assert appended == (end, end, -1, False)
            assert partition.log.high_watermark == end + 1
            assert code_of(lambda: partition.append_own(batch([bytes(501)]))) is Code.MESSAGE_TOO_LARGE
        partition.reconfigure(replace(bench.config, min_insync_replicas=2))
        partition.lead(ME, 3, 1, ALL, (ME,), {})
        assert code_of(lambda: partition.append_own(bytearray(data))) is Code.NOT_ENOUGH_REPLICAS
        assert partition.log.log_end == 2

    played(tmp_path, play)


def test_a_clients_batch_fits_a_segment_to_the_byte(tmp_path: Path) -> None:
    async def play(bench: Bench, partition: Partition) -> None:
        data = batch([bytes(500)])
        partition.reconfigure(replace(bench.config, segment_bytes=len(data)))
        partition.append(memoryview(data), -1, 9, START_MS)
        assert code_of(lambda: write(partition, bytes(501))) is Code.RECORD_LIST_TOO_LARGE

    played(tmp_path, play)


@pytest.mark.parametrize(("version", "taken"), [(6, False), (7, True)])
def test_zstd_is_taken_from_clients_that_know_it(tmp_path: Path, version: int, taken: bool) -> None:
    async def play(bench: Bench, partition: Partition) -> None:
        partition.append(memoryview(batch(codec=Codec.GZIP)), -1, version, START_MS)
        zstd = memoryview(batch(codec=Codec.ZSTD))
        if taken:
            partition.append(zstd, -1, version, START_MS)
        else:
            attempt = lambda: partition.append(zstd, -1, version, START_MS)  # noqa: E731
            assert code_of(attempt) is Code.UNSUPPORTED_COMPRESSION_TYPE

    played(tmp_path, play)


def test_transactions_are_refused(tmp_path: Path) -> None:
    async def play(bench: Bench, partition: Partition) -> None:
        rows = [(START_MS, None, b"a", ())]
        data = build(rows, producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
        assert code_of(lambda: partition.append(memoryview(data), -1, 9, START_MS)) is Code.INVALID_TXN_STATE

    played(tmp_path, play)


def test_a_large_batch_is_checked_off_the_loop_and_then_taken_as_it_is(tmp_path: Path) -> None:
    async def play(bench: Bench, partition: Partition) -> None:
        partition.reconfigure(replace(bench.config, max_message_bytes=4 * AT_ONCE))
        large = batch([bytes(AT_ONCE)])
        with pytest.raises(Laborious):
            partition.append(memoryview(large), -1, 9, START_MS)
        broken = batch((b"not looked at again",))
        broken[-1] ^= 1
        assert partition.append(Validated(broken, read_header(broken), START_MS), -1, 9, START_MS) == (
            0,
            0,
            START_MS,
            False,
        )

    played(tmp_path, play)


def test_the_rules_for_batches_are_those_of_the_settings_in_force(tmp_path: Path) -> None:
    async def play(bench: Bench, partition: Partition) -> None:
        partition.reconfigure(replace(bench.config, max_message_bytes=100))
        assert code_of(lambda: write(partition, bytes(200))) is Code.MESSAGE_TOO_LARGE

    played(tmp_path, play)


def test_a_broker_that_follows_anew_may_be_let_in_at_once(tmp_path: Path) -> None:
    async def play(bench: Bench, partition: Partition) -> None:
        newcomer = NodeId(4)
        partition.lead(ME, 3, 1, (ME, newcomer), (ME, newcomer), {newcomer: BROKER_EPOCH})
        write(partition, acks=1)
        assert partition.log.high_watermark == 0
        read(partition, 1, Reader(newcomer, 0, BROKER_EPOCH))
        assert partition.log.high_watermark == 1
        assert THIRD not in partition.require_leader().followers

    played(tmp_path, play)


def produced(sequence: int, pid: int = 7) -> memoryview:
    return memoryview(batch((b"a", b"b", b"c"), pid=pid, epoch=0, sequence=sequence))


@pytest.mark.parametrize("is_known", [True, False], ids=["a known producer", "a new one"])
def test_a_batch_behind_one_that_found_too_few_replicas_is_refused_for_the_same_reason(
    tmp_path: Path, is_known: bool
) -> None:
    """Else librdkafka would begin a new epoch, and write what it has in flight for other partitions once more."""

    async def play(bench: Bench, partition: Partition) -> None:
        def answered(at: int) -> Code:
            return code_of(lambda: partition.append(produced(at), -1, 9, START_MS))

        begin = 3 if is_known else 0
        if is_known:
            partition.append(produced(0), -1, 9, START_MS)
        partition.reconfigure(replace(bench.config, min_insync_replicas=2))
        partition.lead(ME, 3, 1, ALL, (ME,), {})
        assert answered(begin) is Code.NOT_ENOUGH_REPLICAS
        partition.reconfigure(bench.config)
        assert answered(begin + 3) is Code.NOT_ENOUGH_REPLICAS
        for sequence in (begin, begin + 3):
            assert partition.append(produced(sequence), -1, 9, START_MS).base_offset == sequence
        assert answered(begin + 9) is Code.OUT_OF_ORDER_SEQUENCE_NUMBER

    played(tmp_path, play)


def test_a_batch_behind_one_that_came_before_the_leader_is_refused_for_the_same_reason(tmp_path: Path) -> None:
    async def play(bench: Bench, partition: Partition) -> None:
        partition.append(produced(0), -1, 9, START_MS)
        partition.step_down(OTHER, 4, 1, ALL)
        for size in (None, 60):
            attempt = lambda: partition.append(produced(3)[:size], -1, 9, START_MS)  # noqa: B023, E731
            assert code_of(attempt) is Code.NOT_LEADER_OR_FOLLOWER
        partition.lead(ME, 5, 2, (ME,), (ME,), {})
        assert code_of(lambda: partition.append(produced(6), -1, 9, START_MS)) is Code.NOT_LEADER_OR_FOLLOWER
        assert partition.append(produced(3), -1, 9, START_MS).base_offset == 3

    played(tmp_path, play)
