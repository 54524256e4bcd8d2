"""Cutting the tail off: in the middle of a segment, at its boundary, to nothing; state beside the log follows."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from highwater.errors import Code
from highwater.log import names
from highwater.log.log import Log
from highwater.log.producer_state import ProducerState
from highwater.log.truncation import restart
from highwater.world import FileSlice
from tests.unit.log.bench import START_MS, TP, Bench, all_records, answers, append, batch, on_real_disk, refusal, until
from tests.unit.log.test_recovery import LAST, TIMES, abort_some, fill


@pytest.mark.parametrize("warm", [True, False])
def test_a_cut_at_any_offset_leaves_what_a_log_would_be_that_never_had_more(tmp_path: Path, warm: bool) -> None:
    """Compared with a log that was filled only so far: the same answers at once, and after each kind of restart."""

    async def fresh(bench: Bench, batches: int) -> dict[str, object]:
        log = await bench.create()
        fill(log, batches)
        found = await answers(bench.world, log, TIMES)
        await bench.store.close(1)
        return found

    async def play(bench: Bench) -> None:
        log = await bench.create()
        fill(log)
        boundaries = [segment.base_offset for segment in log.segments[1:]]
        assert len(boundaries) > 1
        cuts = sorted({119, 118, 100, *boundaries, boundaries[0] + 1, boundaries[0] - 1, 3, 1, 0}, reverse=True)
        for cut in cuts:
            if not warm:
                log = await bench.reopen(clean=cut % 2 == 0)
            await bench.truncate(cut)
            expected = on_real_disk_in_thread(tmp_path / f"fresh-{cut}", partial(fresh, batches=cut // 3))
            assert log.log_end == cut // 3 * 3
            assert await answers(bench.world, log, TIMES) == expected
        assert append(log, batch()).base_offset == 0

    (tmp_path / "cut").mkdir()
    on_real_disk(tmp_path / "cut", play, segment_bytes=1500)


def on_real_disk_in_thread(directory: Path, play):  # type: ignore[no-untyped-def]
    from concurrent.futures import ThreadPoolExecutor

    directory.mkdir(parents=True)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(on_real_disk, directory, play, segment_bytes=1500).result()


def test_the_recovery_point_is_never_beyond_a_cut_even_before_its_epochs_are_written(tmp_path: Path) -> None:
    """A start would take what is missing below the recovery point for damage of synced data."""

    async def play(bench: Bench) -> None:
        log = await bench.create()
        for epoch in range(3):
            append(log, batch(), epoch)
        log.flush()
        await until(lambda: log.durable_end == 3 and log.epoch_file.in_step)
        assert log.recovery_point == 3
        log.replace_tail(1, 1, ProducerState())
        assert (log.epoch_file.in_step, log.recovery_point) == (False, 1)

    on_real_disk(tmp_path, play)


def test_a_cut_to_the_end_or_beyond_forgets_empty_epochs_and_nothing_else(tmp_path: Path) -> None:
    async def play(bench: Bench) -> None:
        log = await bench.create()
        fill(log, 10)
        log.assign_epoch(5, log.log_end)
        parts = log.read(0, 100, log.log_end, True, _cached)
        assert await bench.truncate(log.log_end + 1)
        assert log.epoch_cache.latest == 5
        assert await bench.truncate(log.log_end)
        assert log.epoch_cache.latest == 0
        assert parts[0].intact()

    on_real_disk(tmp_path, play)


def _cached(file, pos, n):  # type: ignore[no-untyped-def]
    return file.read_cached(pos, n)


def test_slices_given_to_readers_are_invalid_after_a_cut_but_not_after_retention(tmp_path: Path) -> None:
    async def play(bench: Bench) -> None:
        log = await bench.create()
        fill(log)
        parts: list[FileSlice] = log.read(0, 100, log.log_end, True, _cached)
        promised = bytes(parts[0].file.read(parts[0].pos, parts[0].size))
        log.move_high_watermark(log.log_end)
        log.drop_oldest()
        log.drop_oldest()
        assert parts[0].intact()
        assert bytes(parts[0].file.read(parts[0].pos, parts[0].size)) == promised
        parts = log.read(log.log_end - 1, 100, log.log_end, True, _cached)
        await bench.truncate(log.log_end - 1)
        assert not parts[0].intact()

    on_real_disk(tmp_path, play, segment_bytes=1500)


def test_aborted_transactions_beyond_the_cut_are_forgotten(tmp_path: Path) -> None:
    async def play(bench: Bench) -> None:
        log = await bench.create()
        for pid in range(10, 14):
            abort_some(log, pid)
        aborted = log.aborted_transactions(0, log.log_end)
        assert len(aborted) == 4
        await bench.truncate(aborted[1].last_offset + 1)
        assert log.aborted_transactions(0, log.log_end) == aborted[:2]
        for clean in (True, False):
            log = await bench.reopen(clean)
            assert log.aborted_transactions(0, log.log_end) == aborted[:2]

    on_real_disk(tmp_path, play, segment_bytes=400)


def test_no_snapshot_above_the_cut_survives_it(tmp_path: Path) -> None:
    async def play(bench: Bench) -> None:
        log = await bench.create()
        fill(log)
        log.roll()  # its snapshot is still being written when the cut begins
        await bench.truncate(50)
        left = [names.base_offset_of(path.name) for path in Path(bench.partition_directory).glob("*.snapshot")]
        assert left
        assert max(left) <= 50

    on_real_disk(tmp_path, play, segment_bytes=1500)


def test_the_recovery_point_does_not_stay_beyond_the_cut(tmp_path: Path) -> None:
    async def play(bench: Bench) -> None:
        log = await bench.create()
        fill(log)
        log = await bench.reopen(clean=True)
        assert await bench.store.truncate(log, 50)
        assert f"{TP.topic} {TP.partition} 48\n" in Path(bench.directory / names.RECOVERY_POINTS).read_text()

    on_real_disk(tmp_path, play)


def test_a_log_may_begin_anew_beyond_its_end(tmp_path: Path) -> None:
    async def play(bench: Bench) -> None:
        log = await bench.create()
        fill(log)
        assert await restart(bench.world, log, 1000)
        assert (log.log_start, log.log_end, log.high_watermark, log.epoch_cache.entries) == (1000, 1000, 1000, [])
        assert log.producers.producers == {}
        assert append(log, batch([b"first"]), leader_epoch=9).base_offset == 1000
        for clean in (False, True):
            log = await bench.reopen(clean)
            assert await all_records(bench.world, log) == [(1000, b"first")]
            assert log.epoch_cache.entries == [(9, 1000)]

    on_real_disk(tmp_path, play, segment_bytes=1500)


@pytest.mark.parametrize(("log_start", "expected"), [(1001, 1001), (1000, 1000), (2000, 1002)])
def test_a_log_that_begins_anew_with_batches_starts_no_lower_than_it_did(
    tmp_path: Path, log_start: int, expected: int
) -> None:
    async def play(bench: Bench) -> None:
        log = await bench.create()
        log.log_start = log.log_end = log_start
        data = batch([b"a", b"b"])
        data[:8], data[12:16] = (1000).to_bytes(8, "big"), (3).to_bytes(4, "big")
        assert await restart(bench.world, log, 1000, memoryview(data))
        assert (log.log_start, log.log_end) == (expected, 1002)

    on_real_disk(tmp_path, play)


def test_a_cut_below_the_log_start_is_a_mistake(tmp_path: Path) -> None:
    async def play(bench: Bench) -> None:
        log = await bench.create()
        fill(log, LAST)
        log.move_high_watermark(log.log_end)
        log.raise_log_start(30)
        with pytest.raises(ValueError, match="below the log start"):
            await bench.truncate(29)
        out = await refusal(lambda: log.read(29, 100, log.log_end, True, _cached))
        assert out.code is Code.OFFSET_OUT_OF_RANGE
        assert START_MS

    on_real_disk(tmp_path, play)


async def with_a_gap(bench: Bench) -> Log:
    """Offsets 0 to 2, and 10 to 12."""
    log = await bench.create()
    append(log, batch([b"0", b"1", b"2"]))
    far = bytearray(batch([b"10", b"11", b"12"]))
    far[:8] = (10).to_bytes(8, "big")
    log.append_as_follower(memoryview(far))
    assert log.log_end == 13
    return log


@pytest.mark.parametrize("cut", [4, 9, 10, 12])
def test_a_log_that_would_end_with_a_gap_is_damaged(tmp_path: Path, cut: int) -> None:
    """A replica that fetches from beyond the gap would never get the records in it."""

    async def play(bench: Bench) -> None:
        log = await with_a_gap(bench)
        assert not await bench.store.truncate(log, cut)
        assert log.trouble is not None and "3 to" in str(log.trouble)
        assert log.offline is None and log.log_end == 13

    on_real_disk(tmp_path, play)


def test_a_log_is_cut_before_a_gap(tmp_path: Path) -> None:
    async def play(bench: Bench) -> None:
        log = await with_a_gap(bench)
        assert await bench.store.truncate(log, 3)
        assert (log.log_end, log.trouble) == (3, None)

    on_real_disk(tmp_path, play)


@pytest.mark.parametrize("cut", [4, 10])
def test_a_compacted_log_that_is_cut_behind_a_gap_ends_before_the_gap(tmp_path: Path, cut: int) -> None:
    """What was compacted away gave way to what is cut now: the leader may still have it, and is asked from there on."""

    async def play(bench: Bench) -> None:
        log = await with_a_gap(bench)
        assert await bench.store.truncate(log, cut)
        assert (log.log_end, log.trouble) == (3, None)

    on_real_disk(tmp_path, play, cleanup_policy=("compact",))


def test_a_gap_below_the_log_start_does_not_matter_to_a_cut_there(tmp_path: Path) -> None:
    async def play(bench: Bench) -> None:
        log = await with_a_gap(bench)
        log.raise_log_start(10)
        assert await bench.store.truncate(log, 10)
        assert (log.log_start, log.log_end, log.trouble) == (10, 10, None)

    on_real_disk(tmp_path, play)


@pytest.mark.parametrize("clean", [True, False])
def test_aborted_transactions_of_a_log_that_began_anew_are_known_to_the_next_life(tmp_path: Path, clean: bool) -> None:
    async def play(bench: Bench) -> None:
        log = await bench.create()
        fill(log, 3)
        assert await bench.store.restart(log, 100)
        abort_some(log, pid=9)
        before = log.aborted_transactions(0, log.log_end)
        assert before
        log = await bench.reopen(clean)
        assert log.aborted_transactions(0, log.log_end) == before

    on_real_disk(tmp_path, play)
