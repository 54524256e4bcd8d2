"""A compacted log that is opened after a stop: which gaps are the cleaner's, and which show a loss."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.log import names
from highwater.log.checkpoint import encode_offsets
from tests.unit.log.bench import START_MS, TP, Bench, all_records, append, batch, on_real_disk
from tests.unit.log.test_recovery import LAST, fill, without_the_last_batch_of


def test_a_gap_below_what_is_clean_is_the_cleaners(tmp_path: Path) -> None:
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


@pytest.mark.parametrize("kinds", [(names.LOG,), (names.LOG, names.INDEX, names.TIME_INDEX)])
@pytest.mark.parametrize("at", [0, 1])
def test_a_lost_segment_of_a_compacted_log_is_known_by_its_indexes_or_by_the_log_start(
    tmp_path: Path, at: int, kinds: tuple[str, ...]
) -> None:
    """A gap between segments may be the cleaner's. But the cleaner removes indexes, too, and moves no log start."""

    async def play(bench: Bench) -> None:
        log = await bench.create()
        fill(log)
        await bench.store.close(1)
        for kind in kinds:
            Path(names.segment_file(log.directory, log.segments[at].base_offset, kind)).unlink()
        await bench.abandon()
        bench.store = bench._new_store()
        await bench.store.open()
        is_known = at == 0 or kinds == (names.LOG,)
        assert (bench.log.incomplete is not None) is is_known

    on_real_disk(tmp_path, play, segment_bytes=1500, cleanup_policy=("compact",))
