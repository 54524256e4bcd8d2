"""Compaction over files of this machine: in a process of its own, renamed under readers, opened by the next life."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.log.compaction import cleaner as cleaner_module
from highwater.log.compaction.cleaner import Cleaner
from highwater.wire import records
from tests.unit.log.bench import NODE, START_MS, Bench, append, on_real_disk, stored, until

VALUES = 120


async def values(bench: Bench) -> dict[bytes, bytes]:
    """What a reader ends up with, and that nothing is damaged on the way."""
    log, found, offset = bench.log, {}, bench.log.log_start
    while offset < log.log_end:
        data = await stored(bench.world, log, offset, 4096)
        for position, size, _ in records.walk(data):
            assert records.is_intact(data, position, size)
        found.update((record.key, record.value) for record in records.iterate_all(data))
        offset = records.end_offset(data) or log.log_end
    return found  # type: ignore[return-value]


@pytest.mark.parametrize("process_above", [1 << 30, 0], ids=["thread", "process"])
def test_files_take_each_others_places_and_the_next_life_reads_them(
    tmp_path: Path, process_above: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleaner_module, "PROCESS_ABOVE_BYTES", process_above)

    async def play(bench: Bench) -> None:
        log = await bench.create()
        for number in range(VALUES):
            append(log, records.build([(START_MS + number, b"key-%d" % (number % 4), b"%d" % number, ())]))
        log.move_high_watermark(log.log_end)
        expected = {b"key-%d" % (number % 4): b"%d" % number for number in range(VALUES)}
        before = log.size
        cleaner = Cleaner(bench.world, bench.store, lambda: NODE)
        cleaner.start()
        cleaner._look()
        account = cleaner.account
        await until(lambda: not account.under_way and bench.store.clean_ends.in_step)
        cleaner.stop()
        assert not account.setbacks and account.cleanings == 1
        assert log.size < before / 2
        left = {path.suffix for path in Path(bench.partition_directory).iterdir()}
        assert not left & {".swap", ".cleaned"}
        clean_end = log.clean_end
        assert clean_end == log.active.base_offset
        assert await values(bench) == expected
        assert append(log, records.build([(START_MS, b"key-0", b"later", ())])).base_offset == VALUES
        for clean in (False, True):
            log = await bench.reopen(clean)
            assert await values(bench) == {**expected, b"key-0": b"later"}
            assert (log.clean_end, log.log_end) == (clean_end, VALUES + 1)

    on_real_disk(tmp_path, play, cleanup_policy=("compact",), segment_bytes=500, min_cleanable_dirty_ratio=0.0)
