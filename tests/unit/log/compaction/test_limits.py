"""What a cleaner may take: so many bytes per second, so much memory for keys; also when that changes on the way."""

from __future__ import annotations

import multiprocessing
import resource
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from highwater import kernel
from highwater.config import NodeConfig
from highwater.kernel import Section
from highwater.log.compaction import rewrite
from highwater.log.compaction.account import Pass
from highwater.log.compaction.rewrite import SLOT_BYTES
from highwater.model import TopicPartition
from highwater.wire import records
from tests.unit.log.bench import NODE, TOPIC_ID, TP, append, create_log
from tests.unit.log.compaction.stage import Stage, table_of

ANOTHER = TopicPartition("orders", 1)


def node(**settings: object) -> NodeConfig:
    return NODE.with_dynamic({name.replace("_", "."): str(value) for name, value in settings.items()}, {})


def with_room_for(keys: int) -> NodeConfig:
    """The least memory that is allowed, of which the load factor leaves this much."""
    size = (1 << 20) + SLOT_BYTES
    return node(
        log_cleaner_dedupe_buffer_size=size, log_cleaner_io_buffer_load_factor=(keys + 0.5) / (size // SLOT_BYTES)
    )


def fill(stage: Stage, batches: int, keys: int = 50) -> None:
    for number in range(batches):
        stage.write([(b"key-%d" % (number % keys), b"%06d" % number * 50)])


@pytest.mark.parametrize("limit", [20_000, 200_000])
def test_the_throttle_holds_within_a_fifth(limit: int) -> None:
    stage = Stage(1, node(log_cleaner_io_max_bytes_per_second=limit), segment_bytes=20_000)

    async def play() -> None:
        await stage.create()
        fill(stage, 800)
        await stage.clean()
        (done,) = stage.cleaner.account.passes.values()
        assert sum(done.cleaned.bytes) > 500_000
        assert sum(done.cleaned.bytes) / done.seconds == pytest.approx(limit, rel=0.2)
        assert table_of(await stage.read()) == stage.expected

    with stage.sim:
        stage.sim.run(play)


def test_cleanings_at_the_same_time_share_what_the_throttle_allows() -> None:
    limit = 50_000
    stage = Stage(2, node(log_cleaner_io_max_bytes_per_second=limit, log_cleaner_threads=2), segment_bytes=20_000)

    async def play() -> None:
        first = await stage.create()
        second = await create_log(stage.bench.store, ANOTHER, TOPIC_ID)
        for number in range(500):
            for log in (first, second):
                append(log, records.build([(stage.now_ms, b"%d" % (number % 9), bytes(300), ())]))
                log.move_high_watermark(log.log_end)
        begun = stage.sim.now
        await stage.clean()
        account = stage.cleaner.account
        passes = account.passes.values()
        assert {each.log for each in passes} == {first, second}
        longest = max(each.seconds for each in passes)
        assert stage.sim.now - begun == pytest.approx(longest, rel=0.05), "they were not cleaned side by side"
        total = sum(sum(each.cleaned.bytes) for each in passes)
        assert total == account.bytes_read + account.bytes_written
        assert total / longest == pytest.approx(limit, rel=0.2)

    with stage.sim:
        stage.sim.run(play)


def test_a_cleaning_that_is_far_too_slow_begins_anew_when_the_throttle_is_loosened() -> None:
    stage = Stage(3, node(log_cleaner_io_max_bytes_per_second=1), segment_bytes=20_000)

    async def play() -> None:
        await stage.create()
        fill(stage, 300)
        stage.cleaner.start()
        stage.cleaner._look()
        await stage.sim.sleep(30)
        assert stage.cleaner.account.under_way[TP].share < 0.1
        stage.node = node(log_cleaner_io_max_bytes_per_second=1_000_000, log_cleaner_backoff_ms=100)
        stage.cleaner.reconfigured()
        await stage.sim.sleep(5)
        assert stage.cleaner.account.cleanings == 1
        assert not stage.cleaner.account.under_way and not stage.cleaner.account.setbacks
        assert table_of(await stage.read()) == stage.expected

    with stage.sim:
        stage.sim.run(play)


def test_a_map_that_is_too_small_for_all_keys_takes_several_cleanings() -> None:
    limit, keys = 90, 400
    stage = Stage(4, with_room_for(limit), segment_bytes=5_000)
    passes: dict[float, Pass] = {}

    async def play() -> None:
        await stage.create()
        last = stage.cleaner.account.passes
        stage.sim.on_event(lambda _: passes.update((each.ended, each) for each in last.values()))
        for number in range(3 * keys):
            stage.write([(b"key-%d" % (number % keys), b"%d" % number)])
        stage.log.roll()
        stage.write([(b"last", b"one")])
        await stage.clean()
        found = await stage.read()
        assert table_of(found) == stage.expected
        assert len(found) == keys + 1, "each key is left once"
        assert len(passes) == stage.cleaner.account.cleanings >= 3 * keys / limit
        assert max(each.cleaned.keys for each in passes.values()) == limit

    with stage.sim:
        stage.sim.run(play)


def test_a_batch_with_more_keys_than_the_map_holds_is_compacted_too() -> None:
    stage = Stage(5, with_room_for(50), segment_bytes=20_000)

    async def play() -> None:
        await stage.create()
        for turn in range(2):
            stage.write([(b"key-%d" % each, b"%d" % turn) for each in range(300)], codec=3)
        stage.log.roll()
        stage.write([(b"last", b"one")])
        await stage.clean()
        found = await stage.read()
        assert table_of(found) == stage.expected
        assert len(found) == 301

    with stage.sim:
        stage.sim.run(play)


def growth_by_a_full_map(size: int) -> int:
    """In a process of its own, which has no memory to spare."""
    slots = size // SLOT_BYTES
    sections = [_of_keys(first) for first in range(0, slots, 1000)]
    before = _resident()
    table = kernel.KeyTable(slots, bytes(16))
    for section in sections:
        table.put_all(section, 0, int(0.9 * slots))
    assert table.size == int(0.9 * slots)
    return _resident() - before


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def _of_keys(first: int) -> Section:
    data = b"".join(b"\x1c\0\0\0\x10%s\1\0" % (first + each).to_bytes(8, "big") for each in range(1000))
    return Section(data, 1000, first, 0, None)


@pytest.mark.skipif(kernel.IMPLEMENTATION != "cython", reason="the plain twin is not meant to save memory")
def test_a_full_map_takes_the_memory_it_may_and_no_more() -> None:
    size = 24 << 20
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        assert 0.9 * size < pool.submit(growth_by_a_full_map, size).result() < 1.1 * size


def test_a_segment_cleaned_in_several_pieces_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewrite, "_STEP_BYTES", 100)
    stage = Stage(2, segment_bytes=2_000)

    async def play() -> None:
        await stage.create()
        for number in range(60):
            stage.write([(b"k%d" % number, b"%d" % number)])
        stage.log.roll()
        await stage.clean()
        assert [record.offset for record in await stage.read()] == list(range(60))

    with stage.sim:
        stage.sim.run(play)
