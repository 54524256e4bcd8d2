"""A log opened after any stop and any damage: what is whole stays, what lies beside it is made anew."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from highwater.log import names, producer_snapshot
from highwater.log.appended import Origin
from highwater.log.checkpoint import decode_epochs, encode_epochs, encode_offsets
from highwater.log.found import look_around
from highwater.log.loaded import CorruptLog, LoadRequest
from highwater.log.loader import load_log
from highwater.log.log import Log
from highwater.log.store import ABSENT_NAMED
from highwater.model import TopicPartition, Uuid
from highwater.wire import records
from highwater.wire.records import ControlType
from highwater.wire.records.append import Validated
from highwater.world.jobs import finished
from tests.unit.log.bench import START_MS, TP, Bench, all_records, answers, append, batch, create_log, on_real_disk

TIMES = range(START_MS - 1, START_MS + 900, 23)
LAST = 40
"""Number of batches in the usual log."""


def fill(log: Log, count: int = LAST) -> None:
    """Batches of all codecs, of three producers, over three epochs, with times that go back and forth."""
    for number in range(count):
        stamp = START_MS + 10 * number + (300 if number % 7 == 3 else 0)
        values = [b"%d-%d" % (number, each) for each in range(3)]
        data = batch(
            values,
            timestamps=[stamp, stamp - 5, stamp + 2],
            codec=number % 5,
            pid=number % 3,
            epoch=0,
            sequence=3 * (number // 3),
        )
        append(log, data, leader_epoch=number // 15)


def abort_some(log: Log, pid: int) -> None:
    """Two transactions, the second of which is aborted."""
    for number, kind in enumerate((ControlType.COMMIT, ControlType.ABORT)):
        rows = [(START_MS, None, b"in transaction", ())]
        data = records.build(rows, producer_id=pid, producer_epoch=0, base_sequence=number, transactional=True)
        append(log, data, leader_epoch=9)
        marker = records.build_marker(kind, timestamp=START_MS, producer_id=pid, producer_epoch=0, coordinator_epoch=1)
        log.append_as_leader(Validated(marker, records.read_header(marker), -1), 9, Origin.COORDINATOR)


def test_a_tail_of_zeros_or_of_garbage_is_cut(tmp_path: Path) -> None:
    async def play(bench: Bench) -> None:
        log = await bench.create()
        fill(log)
        before = await answers(bench.world, log, TIMES)
        path = Path(log.active.file.path)
        await bench.abandon()
        whole = path.read_bytes()
        for tail in (bytes(1), bytes(61), bytes(5000), random.Random(1).randbytes(3000)):
            path.write_bytes(whole + tail)
            assert await answers(bench.world, await bench.reopen(clean=False), TIMES) == before
            await bench.abandon()

    on_real_disk(tmp_path, play, segment_bytes=1500)


def deleted(path: Path) -> None:
    path.unlink()


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def halved(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2 + 1])


def shortened(path: Path) -> None:
    """By whole entries of an index. Only the log itself shows that they are missing."""
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 24 // 2 * 24])


def zeros(path: Path) -> None:
    path.write_bytes(bytes(max(path.stat().st_size, 48)))


def garbage(path: Path) -> None:
    path.write_bytes(random.Random(path.name).randbytes(max(path.stat().st_size, 48)))


def followed_by_zeros(path: Path) -> None:
    """As a preallocated index is left behind."""
    path.write_bytes(path.read_bytes() + bytes(240))


Damage = Callable[[Path], None]
DAMAGES = [deleted, emptied, halved, shortened, zeros, garbage, followed_by_zeros]


def damaged_in_the_middle(path: Path, kind: str) -> None:
    data = bytearray(path.read_bytes())
    middle = [position for position, _, _ in records.walk(data)][2]
    if kind == "checksum":
        data[middle + 65] ^= 1
    elif kind == "length":
        data[middle + 8] ^= 0x20  # announces more than there is: looks like a torn tail
    else:
        data[middle : middle + 40] = bytes(40)
    path.write_bytes(data)


@pytest.mark.parametrize("kind", ["checksum", "length", "zeros"])
def test_damage_in_what_was_synced_is_refused_and_stays_refused(tmp_path: Path, kind: str) -> None:
    async def play(bench: Bench) -> None:
        log = await bench.create()
        fill(log)
        path = Path(log.active.file.path)
        await bench.store.close(1)
        damaged_in_the_middle(path, kind)
        data = path.read_bytes()
        for attempt in range(3):
            bench.store = bench._new_store()
            if attempt == 0:
                Path(bench.directory / names.CLEAN_SHUTDOWN).unlink()
            await bench.store.open()
            assert TP not in bench.store.logs
            assert isinstance(bench.store.unloaded[TP], CorruptLog)
            # It is not made anew over the damaged one, no clean stop is claimed, what is known of it is kept.
            with pytest.raises(Exception, match="not loaded"):
                await create_log(bench.store, TP, log.topic_id)
            await bench.store.close(1)
            assert not Path(bench.directory / names.CLEAN_SHUTDOWN).exists()
            assert path.read_bytes() == data
            assert str(log.log_end) in Path(bench.directory / names.RECOVERY_POINTS).read_text()
        bench.store.logs.clear()

    on_real_disk(tmp_path, play)


def test_a_closed_segment_that_lost_its_end_is_refused(tmp_path: Path) -> None:
    async def play(bench: Bench) -> None:
        log = await bench.create()
        fill(log)
        path = Path(log.segments[1].file.path)
        await bench.store.close(1)
        path.write_bytes(path.read_bytes()[:-5])
        bench.store = bench._new_store()
        await bench.store.open()
        assert isinstance(bench.store.unloaded[TP], CorruptLog)

    on_real_disk(tmp_path, play, segment_bytes=1500)


def test_a_recovery_in_a_process_of_its_own_finds_the_same_and_fails_the_same(tmp_path: Path) -> None:
    async def play(bench: Bench) -> None:
        log = await bench.create()
        fill(log)
        await bench.abandon()
        request = LoadRequest(bench.partition_directory, 0, 0, False, 200)
        here = await finished(bench.world, load_log, request)
        there = await finished(bench.world, load_log, request, where="process")
        assert (there.log_end, there.segments, there.epochs) == (here.log_end, here.segments, here.epochs)
        assert producer_snapshot.encode(dict(there.producers)) == producer_snapshot.encode(dict(here.producers))
        damaged_in_the_middle(Path(bench.partition_directory / "00000000000000000000.log"), "checksum")
        with pytest.raises(CorruptLog, match="damaged below the recovery point"):
            await finished(bench.world, load_log, replace(request, recovery_point=120), where="process")

    on_real_disk(tmp_path, play)


@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_a_gap_between_segments_that_were_not_synced_ends_the_log(tmp_path: Path, policy: str) -> None:
    """The kernel wrote the newer file back and not the end of the older one."""

    async def play(bench: Bench) -> None:
        log = await bench.create()
        fill(log)
        before = await all_records(bench.world, log)
        path, next_base = Path(log.segments[1].file.path), log.segments[2].base_offset
        await bench.abandon()
        data = path.read_bytes()
        last = [position for position, _, _ in records.walk(data)][-1]
        path.write_bytes(data[:last])
        log = await bench.reopen(clean=False)
        assert log.log_end == next_base - 3
        assert await all_records(bench.world, log) == before[: next_base - 3]
        assert len(log.segments) == 2

    on_real_disk(tmp_path, play, segment_bytes=1500, cleanup_policy=(policy,))


def without_the_last_batch_of(log: Log, at: int) -> None:
    """The file of an old segment got shorter, by whole batches."""
    path = Path(log.segments[at].file.path)
    data = path.read_bytes()
    path.write_bytes(data[: [position for position, _, _ in records.walk(data)][-1]])


@pytest.mark.parametrize("clean", [True, False])
def test_a_synced_segment_that_is_shorter_than_its_indexes_say_is_refused(tmp_path: Path, clean: bool) -> None:
    async def play(bench: Bench) -> None:
        log = await bench.create()
        fill(log)
        await bench.store.close(1)
        without_the_last_batch_of(log, 1)
        if not clean:
            (Path(bench.directory) / names.CLEAN_SHUTDOWN).unlink()
        await bench.abandon()
        bench.store = bench._new_store()
        await bench.store.open()
        assert isinstance(bench.store.unloaded[TP], CorruptLog)
        assert "before its indexes do" in str(bench.store.unloaded[TP])

    on_real_disk(tmp_path, play, segment_bytes=1500)


@pytest.mark.parametrize(("number", "leap"), [(2, 1), (2, 3), (2, 4), (2, 1 << 23), (-1, 1)])
def test_a_batch_whose_offset_is_not_its_own_is_cut_and_not_the_batch_behind_it(
    tmp_path: Path, number: int, leap: int
) -> None:
    """No checksum covers the offset. The batch would leave a hole, and its records would be found where others were."""

    async def first_life(bench: Bench) -> tuple[list[tuple[int, bytes]], Path]:
        log = await bench.create()
        fill(log)
        stored = await all_records(bench.world, log)
        await bench.abandon()
        return stored, Path(log.segments[1].file.path)

    before, path = on_real_disk(tmp_path, first_life, segment_bytes=1500)
    data = bytearray(path.read_bytes())
    position, _, header = list(records.walk(data))[number]
    data[position : position + 8] = (header.base_offset + leap).to_bytes(8, "big")
    path.write_bytes(data)

    async def second_life(bench: Bench) -> None:
        log = await bench.reopen(clean=False)
        assert log.log_end == header.base_offset
        assert await all_records(bench.world, log) == before[: log.log_end]
        append(log, batch())
        assert (await all_records(bench.world, log))[-1] == (header.base_offset, b"value")

    on_real_disk(tmp_path, second_life, segment_bytes=1500)


def test_epochs_that_the_log_knows_better_are_made_anew_from_it(tmp_path: Path) -> None:
    """The file beside it was not written any more when the node died."""

    async def play(bench: Bench) -> None:
        log = await bench.create()
        fill(log)
        right = log.epoch_cache.entries
        assert len(right) == 3
        path = Path(log.directory) / names.EPOCH_CHECKPOINT
        await bench.abandon()
        for wrong in ([right[0], (2, right[1][1])], [right[0], (1, right[1][1] + 3), right[2]], [(7, 0)]):
            path.write_bytes(encode_epochs(wrong))
            log = await bench.reopen(clean=False)
            assert log.epoch_cache.entries == right
            assert decode_epochs(path.read_bytes()) == right
            await bench.abandon()

    on_real_disk(tmp_path, play)


def test_records_of_an_unknown_topic_are_left_alone(tmp_path: Path) -> None:
    async def play(bench: Bench) -> None:
        fill(await bench.create())
        await bench.store.close(1)
        for content in (None, b"", b"version: 1\n", bytes(20)):
            path = Path(bench.partition_directory / names.PARTITION_METADATA)
            path.unlink(missing_ok=True)
            if content is not None:
                path.write_bytes(content)
            bench.store = bench._new_store()
            await bench.store.open()
            assert TP in bench.store.unloaded

    on_real_disk(tmp_path, play)


def test_a_directory_that_is_no_log_of_ours_is_not_taken_for_one(tmp_path: Path) -> None:
    async def play(bench: Bench) -> None:
        await bench.create()
        other = Path(bench.directory / "copied-0")
        shutil.copytree(Path(bench.partition_directory), other)
        (other / "00000000000000000000.log").write_bytes(bytes(batch()))
        with pytest.raises(Exception, match="there is a log already"):
            await create_log(bench.store, TopicPartition("copied", 0), bench.log.topic_id)

    on_real_disk(tmp_path, play)


def test_leftovers_of_a_crash_are_swept_away(tmp_path: Path) -> None:
    async def play(bench: Bench) -> None:
        log = await bench.create()
        fill(log)
        before = await answers(bench.world, log, TIMES)
        await bench.abandon()
        directory = Path(bench.partition_directory)
        for name in ("00000000000000000000.log.deleted", "00000000000000000000.index.cleaned", "x.snapshot.tmp"):
            (directory / name).write_bytes(b"left")
        (directory / "00000000000000000777.index").write_bytes(bytes(8))
        (directory / "00000000000000099999.snapshot").write_bytes(bytes(8))
        assert await answers(bench.world, await bench.reopen(clean=False), TIMES) == before
        left = {path.name for path in directory.iterdir()}
        assert not any(name.endswith((".deleted", ".cleaned", ".tmp")) for name in left)
        assert not left & {"00000000000000000777.index", "00000000000000099999.snapshot"}

    on_real_disk(tmp_path, play, segment_bytes=1500)


@pytest.mark.parametrize("name", [names.RECOVERY_POINTS, names.LOG_STARTS, names.HIGH_WATERMARKS])
def test_a_clean_stop_whose_checkpoint_cannot_be_read_is_not_believed(tmp_path: Path, name: str) -> None:
    async def play(bench: Bench) -> None:
        await bench.create()
        append(bench.log, batch([b"a"]))
        await bench.store.close(7)
        Path(bench.store.directory / name).write_bytes(b"nonsense\n")
        found = await finished(bench.world, look_around, bench.store.directory)
        assert (found.clean, found.broker_epoch) == (False, -1)

    on_real_disk(tmp_path, play)


def test_the_clean_end_of_a_deleted_log_does_not_hold_for_the_next_log_of_its_name(tmp_path: Path) -> None:
    async def play(bench: Bench) -> None:
        await bench.create()
        append(bench.log, batch([b"a", b"b"]))
        bench.log.clean_end = 2
        await bench.store.clean_ends.written()
        log = await bench.reopen()
        assert log.clean_end == 2
        bench.store.delete(log.partition)
        made = await create_log(bench.store, log.partition, Uuid(b"another topic id"))
        assert made.clean_end is None

    on_real_disk(tmp_path, play)


def test_after_a_clean_stop_no_checkpoint_names_a_log_that_was_deleted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def play(bench: Bench) -> None:
        log = await bench.create()
        append(log, batch([b"a", b"b"]))
        log.clean_end, log.log_start = 2, 1
        for file in (bench.store.clean_ends, bench.store.log_starts, bench.store.recovery_points):
            await file.written()
        bench.store.delete(log.partition)
        await bench.store.close(7)
        caplog.clear()
        bench.store = bench._new_store()
        await bench.store.open()
        assert caplog.messages == []

    on_real_disk(tmp_path, play)


def test_removed_logs_are_reported_at_the_start_and_not_by_the_thousand(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def play(bench: Bench) -> None:
        await bench.create()
        append(bench.log, batch([b"a"]))
        await bench.store.close(7)
        shutil.rmtree(bench.partition_directory)
        await bench.abandon()
        bench.store = bench._new_store()
        await bench.store.open()
        (line,) = caplog.messages
        assert line.startswith(f"orders-0 is not in {tmp_path}, though the checkpoints name it")
        caplog.clear()
        many = {TopicPartition("orders", index): 1 for index in range(ABSENT_NAMED + 5)}
        Path(bench.directory / names.RECOVERY_POINTS).write_bytes(encode_offsets(many))
        bench.store = bench._new_store()
        await bench.store.open()
        assert len(caplog.messages) == ABSENT_NAMED + 1
        assert caplog.messages[-1] == f"5 more that the checkpoints name are not in {tmp_path}"

    on_real_disk(tmp_path, play)
