"""A compacted log that is opened after a stop: which gaps are the cleaner's, and which show a loss."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.log import names
from highwater.log.checkpoint import encode_offsets
from highwater.log.log import Log
from tests.unit.log.bench import START_MS, TP, Bench, all_records, append, batch, on_real_disk
from tests.unit.log.test_recovery import LAST, fill, without_the_last_batch_of


def test_a_gap_below_the_clean_end_is_the_work_of_the_cleaner(tmp_path: Path) -> None:
    """As other programs leave it behind. It is no loss, though nothing was known to be synced."""

    async def first_life(bench: Bench) -> tuple[list[tuple[int, bytes]], int]:
        log = await bench.create()
        fill(log)
        stored = await all_records(bench.world, log)
        await bench.abandon()
        without_the_last_batch_of(log, 1)
        end = log.segments[2].base_offset
        (Path(bench.directory) / names.CLEANER_POINTS).write_bytes(encode_offsets({TP: end}))
        return stored, end

    before, end = on_real_disk(tmp_path, first_life, segment_bytes=1500, cleanup_policy=("compact",))

    async def second_life(bench: Bench) -> None:
        log = await bench.reopen(clean=False)
        gone = range(end - 3, end)
        assert await all_records(bench.world, log) == [each for each in before if each[0] not in gone]

    on_real_disk(tmp_path, second_life, segment_bytes=1500, cleanup_policy=("compact",))


@pytest.mark.parametrize("clean", [True, False])
def test_a_gap_of_another_cleaner_is_no_damage_though_the_index_is_sparse(tmp_path: Path, clean: bool) -> None:
    """Kafka's cleaner indexes once per write, not once per index.interval.bytes, which may also be lowered later."""

    async def first_life(bench: Bench) -> list[tuple[int, bytes]]:
        log = await bench.create()
        for number in range(LAST):
            append(log, batch([b"%d" % number] * 3, timestamps=[START_MS] * 3))
        stored = await all_records(bench.world, log)
        gone = range(log.segments[2].base_offset - 3, log.segments[2].base_offset)
        await bench.store.close(1)
        without_the_last_batch_of(log, 1)
        (Path(bench.directory) / names.CLEANER_POINTS).write_bytes(encode_offsets({TP: log.segments[2].base_offset}))
        return [each for each in stored if each[0] not in gone]

    compacted = {"segment_bytes": 1500, "cleanup_policy": ("compact",)}
    left = on_real_disk(tmp_path, first_life, index_interval_bytes=1 << 20, **compacted)

    async def second_life(bench: Bench) -> None:
        log = await bench.reopen(clean=clean)
        assert await all_records(bench.world, log) == left

    on_real_disk(tmp_path, second_life, **compacted)


@pytest.mark.parametrize("clean", [True, False])
def test_a_segment_of_which_a_cleaner_left_nothing_is_no_loss(tmp_path: Path, clean: bool) -> None:
    """Kafka's cleaner leaves the empty files."""

    async def play(bench: Bench) -> None:
        log = await bench.create()
        fill(log)
        await bench.store.close(1)
        for kind in (names.LOG, names.INDEX, names.TIME_INDEX):
            Path(names.segment_file(log.directory, log.segments[1].base_offset, kind)).write_bytes(b"")
        if not clean:
            (Path(bench.directory) / names.CLEAN_SHUTDOWN).unlink()
        await open_again(bench)
        assert bench.log.incomplete is None

    on_real_disk(tmp_path, play, segment_bytes=1500, cleanup_policy=("compact",))


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("kinds", [(names.LOG,), (names.LOG, names.INDEX, names.TIME_INDEX)])
def test_a_lost_segment_of_a_compacted_log_is_known_by_its_index(
    tmp_path: Path, kinds: tuple[str, ...], clean: bool
) -> None:
    """A gap between segments may be the cleaner's. But the cleaner removes indexes, too. A producer snapshot alone
    proves nothing: Kafka's clean stop leaves one at the log end of that time, and later cleaning may leave a gap there.
    """

    async def play(bench: Bench) -> None:
        log = await bench.create()
        fill(log)
        await bench.store.close(1)
        lose(log, 1, kinds)
        if not clean:
            (Path(bench.directory) / names.CLEAN_SHUTDOWN).unlink()
        await open_again(bench)
        is_known = kinds == (names.LOG,)
        assert (bench.log.incomplete is not None) is is_known
        assert bench.log.incomplete is None or not bench.log.incomplete.is_refilled

    on_real_disk(tmp_path, play, segment_bytes=1500, cleanup_policy=("compact",))


@pytest.mark.parametrize("kinds", [(names.LOG,), (names.LOG, names.INDEX, names.TIME_INDEX)])
def test_the_lost_first_segment_of_a_compacted_log_is_known_by_the_log_start(
    tmp_path: Path, kinds: tuple[str, ...]
) -> None:
    async def play(bench: Bench) -> None:
        log = await bench.create()
        fill(log)
        await bench.store.close(1)
        lose(log, 0, kinds)
        await open_again(bench)
        assert bench.log.incomplete is not None

    on_real_disk(tmp_path, play, segment_bytes=1500, cleanup_policy=("compact",))


def lose(log: Log, at: int, kinds: tuple[str, ...]) -> None:
    for kind in kinds:
        Path(names.segment_file(log.directory, log.segments[at].base_offset, kind)).unlink()


async def open_again(bench: Bench) -> None:
    await bench.abandon()
    bench.store = bench._new_store()
    await bench.store.open()
