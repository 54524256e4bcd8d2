"""What lies beside a log's batches, and offsets that are not their own: no checksum covers either."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from highwater.log import names
from highwater.log.appended import Origin
from highwater.log.checkpoint import decode_epochs, encode_epochs, encode_offsets
from highwater.log.found import look_around
from highwater.log.loaded import CorruptLog, LoadRequest
from highwater.log.loader import load_log
from highwater.model import TopicPartition
from highwater.wire import records
from highwater.wire.records.append import Validated
from highwater.wire.records.control import ControlType
from highwater.world.jobs import finished
from tests.unit.log.bench import START_MS, Bench, append, batch, on_real_disk
from tests.unit.log.test_recovery import abort_some, fill


def filled_file(tmp_path: Path, count: int = 5) -> Path:
    """Of a log with one segment."""

    async def play(bench: Bench) -> Path:
        log = await bench.create()
        fill(log, count)
        await bench.abandon()
        return Path(log.active.file.path)

    return on_real_disk(tmp_path, play)


def leaping(path: Path, number: int, leap: int) -> int:
    """Give a batch an offset that is not its own; returns the one that was."""
    data = bytearray(path.read_bytes())
    position, _, header = list(records.walk(data))[number]
    data[position : position + 8] = (header.base_offset + leap).to_bytes(8, "big")
    path.write_bytes(data)
    return header.base_offset


@pytest.mark.parametrize("recovery_point", [7, 9, 13])
def test_a_synced_batch_whose_offset_is_not_its_own_is_refused(tmp_path: Path, recovery_point: int) -> None:
    """It ends beyond the recovery point by its false offset alone."""
    path = filled_file(tmp_path)
    assert leaping(path, 2, 4) == 6
    damaged = path.read_bytes()

    async def play(bench: Bench) -> None:
        request = LoadRequest(bench.partition_directory, recovery_point, 0, False, 200)
        with pytest.raises(CorruptLog, match="damaged below the recovery point"):
            await finished(bench.world, load_log, request)
        assert path.read_bytes() == damaged
        loaded = await finished(bench.world, load_log, replace(request, recovery_point=6))
        assert loaded.log_end == 6

    on_real_disk(tmp_path, play)


@pytest.mark.parametrize("interval", [0, 10_000])
def test_no_index_names_a_batch_that_was_cut_and_none_lacks_the_last_time(tmp_path: Path, interval: int) -> None:
    path = filled_file(tmp_path)
    leaping(path, 2, 4)

    async def play(bench: Bench) -> None:
        request = LoadRequest(bench.partition_directory, 0, 0, False, interval)
        cut = await finished(bench.world, load_log, request)
        assert (cut.log_end, len(cut.repairs)) == (6, 1)
        again = await finished(bench.world, load_log, replace(request, clean=True))
        assert (again.log_end, again.repairs) == (6, [])
        assert again.segments[0].largest == cut.segments[0].largest

    on_real_disk(tmp_path, play)


def test_epochs_that_begin_before_their_first_batch_outlive_a_raised_log_start(tmp_path: Path) -> None:
    """Compaction took the first batch of epoch 2. The log itself does not know any more where that epoch began."""

    async def play(bench: Bench) -> None:
        log = await bench.create()
        append(log, batch([b"0", b"1", b"2"]), leader_epoch=0)
        append(log, batch([b"3", b"4", b"5"]), leader_epoch=1)
        log.assign_epoch(2, 6)
        far = batch([b"9", b"10"])
        far[:8], far[12:16] = (9).to_bytes(8, "big"), (2).to_bytes(4, "big")
        log.append_as_follower(memoryview(far))
        log.raise_log_start(3)
        await log.epoch_file.written()
        await bench.abandon()
        request = LoadRequest(bench.partition_directory, 0, 3, False, 200)
        assert (await finished(bench.world, load_log, request)).epochs == [(1, 3), (2, 6)]

    on_real_disk(tmp_path, play)


def test_epochs_that_do_not_rise_are_made_anew_from_the_log(tmp_path: Path) -> None:
    async def play(bench: Bench) -> None:
        log = await bench.create()
        fill(log)
        right = log.epoch_cache.entries
        await bench.store.close(7)
        for wrong in ([right[0], right[2], right[1]], [right[0], (1, 60), (2, 45)]):
            Path(log.directory / names.EPOCH_CHECKPOINT).write_bytes(encode_epochs(wrong))
            request = LoadRequest(bench.partition_directory, log.log_end, 0, True, 200)
            loaded = await finished(bench.world, load_log, request)
            assert loaded.epochs == right
            assert [line for line in loaded.repairs if "its entries do not rise" in line]

    on_real_disk(tmp_path, play)


def test_aborted_transactions_of_another_segment_are_not_taken_for_its_own(tmp_path: Path) -> None:
    async def play(bench: Bench) -> None:
        log = await bench.create()
        for pid in range(10, 14):
            abort_some(log, pid)
        aborted = log.aborted_transactions(0, log.log_end)
        await bench.store.close(7)
        first, *_, last = sorted(Path(log.directory).glob(f"*{names.TXN_INDEX}"))
        last.write_bytes(first.read_bytes())
        await bench.abandon()
        bench.store = bench._new_store()
        await bench.store.open()
        assert bench.log.aborted_transactions(0, log.log_end) == aborted

    on_real_disk(tmp_path, play, segment_bytes=400)


def cut_off(path: Path, size: int) -> None:
    path.write_bytes(path.read_bytes()[:-size])


@pytest.mark.parametrize(("recovery_point", "is_refused"), [(15, True), (13, True), (12, False)])
def test_a_synced_last_batch_that_is_damaged_is_refused_and_one_that_was_not_synced_is_cut(
    tmp_path: Path, recovery_point: int, is_refused: bool
) -> None:
    path = filled_file(tmp_path)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)

    async def play(bench: Bench) -> None:
        request = LoadRequest(bench.partition_directory, recovery_point, 0, False, 200)
        if is_refused:
            with pytest.raises(CorruptLog, match="damaged below the recovery point"):
                await finished(bench.world, load_log, request)
            assert path.read_bytes() == data
        else:
            assert (await finished(bench.world, load_log, request)).log_end == 12

    on_real_disk(tmp_path, play)


def test_a_last_batch_that_is_cut_off_is_cut_even_if_it_was_synced(tmp_path: Path) -> None:
    """A file system that lost the end of a file is a power cut that lasted longer than was thought."""
    cut_off(filled_file(tmp_path), 5)

    async def play(bench: Bench) -> None:
        request = LoadRequest(bench.partition_directory, 15, 0, False, 200)
        loaded = await finished(bench.world, load_log, request)
        assert (loaded.log_end, len(loaded.repairs)) == (12, 1)

    on_real_disk(tmp_path, play)


def test_a_segment_that_lost_its_synced_end_while_others_follow_is_refused(tmp_path: Path) -> None:
    async def first_life(bench: Bench) -> tuple[Path, int]:
        log = await bench.create()
        fill(log)
        await bench.abandon()
        return Path(log.segments[0].file.path), log.segments[1].base_offset

    path, following = on_real_disk(tmp_path, first_life, segment_bytes=1500)
    cut_off(path, 5)

    async def play(bench: Bench) -> None:
        request = LoadRequest(bench.partition_directory, following - 1, 0, False, 200)
        with pytest.raises(CorruptLog, match="damaged below the recovery point"):
            await finished(bench.world, load_log, request)
        loaded = await finished(bench.world, load_log, replace(request, recovery_point=following - 3))
        assert loaded.log_end == following - 3

    on_real_disk(tmp_path, play, segment_bytes=1500)


def test_a_batch_behind_a_gap_stays_though_what_follows_it_is_torn(tmp_path: Path) -> None:
    """Compaction leaves gaps. Only a batch that goes back speaks against the one before it."""

    async def play(bench: Bench) -> None:
        log = await bench.create()
        append(log, batch([b"0", b"1"]))
        far = batch([b"7"])
        far[:8] = (7).to_bytes(8, "big")
        log.append_as_follower(memoryview(far))
        await bench.abandon()
        path = Path(log.active.file.path)
        path.write_bytes(path.read_bytes() + batch()[:-3])
        request = LoadRequest(bench.partition_directory, 0, 0, False, 200)
        assert (await finished(bench.world, load_log, request)).log_end == 8

    on_real_disk(tmp_path, play)


def test_an_aborted_transaction_whose_marker_was_cut_off_is_named_no_more(tmp_path: Path) -> None:
    """No other marker is left in the segment: only the index shows that there was one."""

    async def play(bench: Bench) -> None:
        log = await bench.create()
        rows = [(START_MS, None, b"in transaction", ())]
        append(log, records.build(rows, producer_id=7, producer_epoch=0, base_sequence=0, transactional=True))
        cut_at = log.active.size
        marker = records.build_marker(
            ControlType.ABORT, timestamp=START_MS, producer_id=7, producer_epoch=0, coordinator_epoch=1
        )
        log.append_as_leader(Validated(marker, records.read_header(marker), -1), 0, Origin.COORDINATOR)
        assert len(log.aborted_transactions(0, log.log_end)) == 1
        await bench.abandon()
        path = Path(log.active.file.path)
        path.write_bytes(path.read_bytes()[:cut_at])
        loaded = await finished(bench.world, load_log, LoadRequest(bench.partition_directory, 0, 0, False, 200))
        assert (loaded.log_end, [segment.aborted for segment in loaded.segments]) == (1, [()])

    on_real_disk(tmp_path, play)


def test_a_swap_that_was_interrupted_is_finished_and_logged(tmp_path: Path) -> None:
    path = filled_file(tmp_path)
    for kind in (names.LOG, names.INDEX, names.TIME_INDEX):
        file = path.with_suffix(kind)
        file.rename(f"{file}{names.SWAP}")

    async def play(bench: Bench) -> None:
        loaded = await finished(bench.world, load_log, LoadRequest(bench.partition_directory, 0, 0, False, 200))
        assert loaded.log_end == 15
        assert f"finished an interrupted compaction: {path.name}" in loaded.repairs

    on_real_disk(tmp_path, play)


def test_epochs_that_a_raised_log_start_ended_are_written_no_more(tmp_path: Path) -> None:
    async def play(bench: Bench) -> None:
        log = await bench.create()
        for epoch in range(3):
            append(log, batch([b"x", b"y"]), leader_epoch=epoch)
        await log.epoch_file.written()
        assert log.raise_log_start(3)
        assert not log.raise_log_start(3)
        await bench.abandon()
        written = decode_epochs(Path(log.directory / names.EPOCH_CHECKPOINT).read_bytes())
        assert written == log.epoch_cache.entries == [(1, 3), (2, 4)]

    on_real_disk(tmp_path, play)


@pytest.mark.parametrize(
    ("mark", "broker_epoch"), [(b'{"brokerEpoch": 7}', 7), (b"", -1), (b"junk", -1), (b"{}", -1), (b"[]", -1)]
)
def test_a_mark_of_a_clean_stop_is_believed_whatever_it_says_of_the_epoch(
    tmp_path: Path, mark: bytes, broker_epoch: int
) -> None:
    """Kafka of old left it empty."""
    (tmp_path / names.CLEAN_SHUTDOWN).write_bytes(mark)
    for checkpoint in (names.RECOVERY_POINTS, names.LOG_STARTS):
        (tmp_path / checkpoint).write_bytes(b"0\n0\n")

    async def play(bench: Bench) -> None:
        found = await finished(bench.world, look_around, bench.directory)
        assert (found.clean, found.broker_epoch) == (True, broker_epoch)
        again = await finished(bench.world, look_around, bench.directory)
        assert (again.clean, again.broker_epoch) == (False, -1)

    on_real_disk(tmp_path, play)


def test_a_marker_at_the_very_beginning_of_a_segment_is_in_its_index(tmp_path: Path) -> None:
    async def play(bench: Bench) -> None:
        log = await bench.create()
        rows = [(START_MS, None, b"in transaction", ())]
        append(log, records.build(rows, producer_id=7, producer_epoch=0, base_sequence=0, transactional=True))
        log.roll()
        marker = records.build_marker(
            ControlType.ABORT, timestamp=START_MS, producer_id=7, producer_epoch=0, coordinator_epoch=1
        )
        log.append_as_leader(Validated(marker, records.read_header(marker), -1), 0, Origin.COORDINATOR)
        aborted = log.aborted_transactions(0, 2)
        await bench.store.close(7)
        loaded = await finished(bench.world, load_log, LoadRequest(bench.partition_directory, 2, 0, True, 200))
        assert ([each for segment in loaded.segments for each in segment.aborted], loaded.repairs) == (aborted, [])

    on_real_disk(tmp_path, play)


def test_an_empty_segment_behind_a_gap_says_where_the_log_goes_on(tmp_path: Path) -> None:
    """Offsets below it were given out once, and must not be again."""
    path = filled_file(tmp_path)
    path.with_name(f"{99:020}.log").touch()

    async def play(bench: Bench) -> None:
        loaded = await finished(bench.world, load_log, LoadRequest(bench.partition_directory, 15, 0, True, 200))
        assert loaded.log_end == 99

    on_real_disk(tmp_path, play)


def test_synced_segments_that_overlap_are_refused_and_left_as_they_are(tmp_path: Path) -> None:
    async def first_life(bench: Bench) -> list[Path]:
        log = await bench.create()
        fill(log)
        await bench.store.close(7)
        return [Path(segment.file.path) for segment in log.segments]

    paths = on_real_disk(tmp_path, first_life, segment_bytes=1500)
    base = int(paths[1].stem)
    for kind in (names.LOG, names.INDEX, names.TIME_INDEX):
        file = paths[1].with_suffix(kind)
        file.rename(file.with_name(f"{base - 1:020}{kind}"))
    logs = {path: path.stat().st_size for path in paths[0].parent.glob(f"*{names.LOG}")}

    async def play(bench: Bench) -> None:
        request = LoadRequest(bench.partition_directory, 120, 0, True, 200)
        with pytest.raises(CorruptLog, match=f"the next begins at {base - 1}"):
            await finished(bench.world, load_log, request)
        assert {path: path.stat().st_size for path in paths[0].parent.glob(f"*{names.LOG}")} == logs

    on_real_disk(tmp_path, play, segment_bytes=1500)


@pytest.mark.parametrize(("messages", "is_flushed"), [(1, True), (2, False), (2**63 - 1, False)])
def test_only_where_every_record_is_flushed_nothing_counts_before(
    tmp_path: Path, messages: int, is_flushed: bool
) -> None:
    async def play(bench: Bench) -> None:
        assert (await bench.create()).flush_each_append is is_flushed

    on_real_disk(tmp_path, play, flush_messages=messages)


def test_a_directory_is_looked_through_for_partitions_and_nothing_else(tmp_path: Path) -> None:
    for name in ("orders-0", "orders-1", "__cluster_metadata-0", "notes", "orders-2.abc-delete"):
        (tmp_path / name).mkdir()
    (tmp_path / "orders-9").write_bytes(b"a file")
    (tmp_path / "orders-1" / f"{0:020}.log").write_bytes(b"12345")
    (tmp_path / "orders-1" / f"{9:020}.log").write_bytes(b"123")
    (tmp_path / "orders-1" / f"{9:020}.index").write_bytes(b"1234567")
    known = {TopicPartition("orders", 0): 3, TopicPartition("gone", 0): 4}
    (tmp_path / names.RECOVERY_POINTS).write_bytes(encode_offsets(known))

    async def play(bench: Bench) -> None:
        found = await finished(bench.world, look_around, bench.directory)
        assert sorted((str(partition), size) for partition, _, size in found.partitions) == [
            ("orders-0", 0),
            ("orders-1", 8),
        ]
        assert found.forget_absent() == {TopicPartition("gone", 0)}
        assert found.recovery_points == {TopicPartition("orders", 0): 3}

    on_real_disk(tmp_path, play)


def test_the_high_watermark_is_restored_within_the_ends_of_the_log(tmp_path: Path) -> None:
    async def play(bench: Bench) -> None:
        log = await bench.create()
        fill(log, 4)
        for committed, expected in ((7, 7), (99, 12), (0, 0)):
            log.high_watermark = committed
            log = await bench.reopen()
            assert (log.high_watermark, log.log_end) == (expected, 12)

    on_real_disk(tmp_path, play)


@pytest.mark.parametrize("missing", [names.INDEX, names.TIME_INDEX])
def test_an_index_that_is_missing_is_made_anew_and_logged(tmp_path: Path, missing: str) -> None:
    path = filled_file(tmp_path, 20)
    whole = path.with_suffix(missing).read_bytes()
    path.with_suffix(missing).unlink()

    async def play(bench: Bench) -> None:
        request = LoadRequest(bench.partition_directory, 60, 0, True, 200)
        loaded = await finished(bench.world, load_log, request)
        assert loaded.repairs == [f"rebuilt the indexes of {path.name}"]
        assert path.with_suffix(missing).read_bytes()[: len(whole)] == whole

    on_real_disk(tmp_path, play)


def test_a_segment_that_is_believed_knows_when_it_began(tmp_path: Path) -> None:
    filled_file(tmp_path, 20)

    async def play(bench: Bench) -> None:
        request = LoadRequest(bench.partition_directory, 60, 0, False, 200)
        read = await finished(bench.world, load_log, request)
        believed = await finished(bench.world, load_log, replace(request, clean=True))
        assert believed.repairs == []
        assert believed.segments == read.segments
        assert read.segments[0].first_timestamp == START_MS + 2

    on_real_disk(tmp_path, play)


def test_a_swap_takes_away_all_segments_that_it_replaces(tmp_path: Path) -> None:
    async def first_life(bench: Bench) -> list[Path]:
        log = await bench.create()
        fill(log)
        await bench.abandon()
        return [Path(segment.file.path) for segment in log.segments]

    first, second, *others = on_real_disk(tmp_path, first_life, segment_bytes=1500)
    swap = Path(f"{first}{names.SWAP}")
    swap.write_bytes(first.read_bytes() + second.read_bytes())

    async def play(bench: Bench) -> None:
        loaded = await finished(bench.world, load_log, LoadRequest(bench.partition_directory, 0, 0, False, 200))
        assert [segment.base_offset for segment in loaded.segments] == [0, *(int(path.stem) for path in others)]
        assert loaded.log_end == 120
        assert not second.exists()

    on_real_disk(tmp_path, play, segment_bytes=1500)
