"""What a start makes of epochs, producers and aborted transactions, and where it finds that the log ends."""

from __future__ import annotations

from pathlib import Path

from highwater.log import names
from highwater.log.checkpoint import encode_epochs
from highwater.log.loaded import LoadedLog, LoadRequest
from highwater.log.loader import load_log
from highwater.world.jobs import finished
from tests.unit.log.bench import Bench, append, batch, known_producers, on_real_disk
from tests.unit.log.test_recovery import abort_some, fill


async def loaded(bench: Bench, log_start: int = 0, clean: bool = False) -> LoadedLog:
    return await finished(bench.world, load_log, LoadRequest(bench.partition_directory, 0, log_start, clean, 200))


def test_epochs_lie_within_the_log(tmp_path: Path) -> None:
    """The file may name an epoch in which nothing was written, or whose records are deleted."""

    async def play(bench: Bench) -> None:
        log = await bench.create()
        for epoch in (1, 2, 4):
            append(log, batch([b"v"] * 3), leader_epoch=epoch)
        await log.epoch_file.written()
        await bench.abandon()
        path = Path(log.directory / names.EPOCH_CHECKPOINT)
        for clean in (False, True):
            path.write_bytes(encode_epochs([(1, 0), (2, 3), (4, 6), (7, 9), (8, 20)]))
            assert (await loaded(bench, 4, clean)).epochs == [(2, 4), (4, 6)]
            assert path.read_bytes() == encode_epochs([(2, 4), (4, 6)])

    on_real_disk(tmp_path, play)


def test_a_log_whose_records_are_all_deleted_remembers_its_last_epoch(tmp_path: Path) -> None:
    async def play(bench: Bench) -> None:
        log = await bench.create()
        append(log, batch([b"v"] * 3), leader_epoch=5)
        await log.epoch_file.written()
        await bench.abandon()
        assert (await loaded(bench, 3)).epochs == [(5, 3)]

    on_real_disk(tmp_path, play)


def test_a_log_that_is_emptied_knows_no_epoch(tmp_path: Path) -> None:
    """Its records are lost, and with them what their epochs say."""

    async def play(bench: Bench) -> None:
        log = await bench.create()
        append(log, batch([b"v"] * 3), leader_epoch=5)
        await log.epoch_file.written()
        await bench.abandon()
        found = await loaded(bench, 500)
        assert (found.log_start, found.log_end, found.epochs) == (500, 500, [])

    on_real_disk(tmp_path, play)


def test_aborted_transactions_of_several_segments_are_found_again(tmp_path: Path) -> None:
    """Each segment had a snapshot of its producers; those behind the first marker would hide it."""

    async def play(bench: Bench) -> None:
        log = await bench.create()
        for pid in range(20, 26):
            abort_some(log, pid)
            fill(log, 3)
            log.roll()
        before = log.aborted_transactions(0, log.log_end), known_producers(log)
        assert len(before[0]) == 6
        for each in Path(log.directory).glob(f"*{names.TXN_INDEX}"):
            each.write_bytes(b"")
        log = await bench.reopen(clean=False)
        assert (log.aborted_transactions(0, log.log_end), known_producers(log)) == before

    on_real_disk(tmp_path, play)


def test_batches_after_damage_are_dropped_even_if_no_offset_is_missing(tmp_path: Path) -> None:
    """The process that wrote those bytes may have written those that follow as well."""

    async def play(bench: Bench) -> None:
        log = await bench.create()
        append(log, batch([b"0", b"1"]))
        log.roll()
        append(log, batch([b"2"]))
        await bench.abandon()
        first = Path(log.segments[0].file.path)
        first.write_bytes(first.read_bytes() + bytes(100))
        found = await loaded(bench)
        assert ([segment.base_offset for segment in found.segments], found.log_end) == ([0], 2)

    on_real_disk(tmp_path, play)


def test_a_log_whose_very_first_record_is_lost_ends_before_it(tmp_path: Path) -> None:
    """Nothing was ever compacted in it: the gap is a loss."""

    async def play(bench: Bench) -> None:
        log = await bench.create()
        append(log, batch([b"0"]))
        log.roll()
        append(log, batch([b"1"]))
        await bench.abandon()
        Path(log.segments[0].file.path).write_bytes(b"")
        found = await loaded(bench)
        assert ([segment.base_offset for segment in found.segments], found.log_end) == ([0], 0)

    on_real_disk(tmp_path, play)


def test_epochs_that_a_raised_log_start_took_along_are_found_again_where_it_was_lost(tmp_path: Path) -> None:
    """The file of the epochs was written, and the checkpoint of the log start was not."""

    async def play(bench: Bench) -> None:
        log = await bench.create()
        for epoch in (1, 2):
            append(log, batch([b"v"] * 3), leader_epoch=epoch)
        await bench.store.close(7)
        Path(log.directory / names.EPOCH_CHECKPOINT).write_bytes(encode_epochs([(2, 3)]))
        assert (await loaded(bench, clean=True)).epochs == [(1, 0), (2, 3)]

    on_real_disk(tmp_path, play)


def test_a_log_whose_segments_are_all_deleted_remembers_its_last_epoch(tmp_path: Path) -> None:
    async def play(bench: Bench) -> None:
        log = await bench.create()
        append(log, batch([b"v"] * 3), leader_epoch=5)
        log.roll()
        log.move_high_watermark(3)
        log.drop_oldest()
        assert log.log_start == log.log_end == 3
        await bench.store.close(7)
        for clean in (True, False):
            Path(log.directory / names.EPOCH_CHECKPOINT).write_bytes(encode_epochs([(5, 0)]))  # as it was before
            assert (await loaded(bench, 3, clean)).epochs == [(5, 3)]

    on_real_disk(tmp_path, play)
