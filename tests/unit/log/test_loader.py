"""What lies beside a log's batches, and offsets that are not their own: no checksum covers either."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from highwater.log import names
from highwater.log.checkpoint import encode_epochs
from highwater.log.loader import CorruptLog, LoadRequest, load_log
from highwater.wire import records
from highwater.world.jobs import finished
from tests.unit.log.bench import Bench, append, batch, on_real_disk
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


def test_no_index_names_a_batch_that_was_cut(tmp_path: Path) -> None:
    path = filled_file(tmp_path)
    leaping(path, 2, 4)

    async def play(bench: Bench) -> None:
        request = LoadRequest(bench.partition_directory, 0, 0, False, 0)
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
        await log.epoch_file.written(patient=False)
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
