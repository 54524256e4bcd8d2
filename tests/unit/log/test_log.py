"""One log on a real disk: appended, rolled, read by offset and by time."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from highwater.errors import Code, KafkaError
from highwater.log import lookup, peek
from highwater.log.log import Log
from highwater.log.segment import MAX_RELATIVE_OFFSET
from highwater.wire import records
from highwater.wire.compression import Codec
from highwater.world.jobs import finished
from tests.unit.log.bench import (
    START_MS,
    Bench,
    all_records,
    answers,
    append,
    batch,
    on_real_disk,
    refusal,
    stored,
)


def test_a_batch_gets_the_next_offsets_and_is_stored_as_it_was_sent(tmp_path: Path) -> None:
    async def play(bench: Bench) -> None:
        log = await bench.create()
        sent = [batch([b"a", b"b"]), batch([b"c"]), batch([b"d", b"e", b"f"], codec=Codec.ZSTD)]
        before = [bytes(each) for each in sent]
        bases = [append(log, each, leader_epoch=7).base_offset for each in sent]
        assert bases == [0, 2, 3]
        assert log.log_end == 6
        data = await stored(bench.world, log, 0)
        assert data == b"".join(map(bytes, sent))
        for (position, size, header), original, base in zip(records.walk(data), before, bases, strict=True):
            assert (header.base_offset, header.leader_epoch) == (base, 7)
            kept = data[position : position + size]
            assert kept[8:12] + kept[16:] == original[8:12] + original[16:]

    on_real_disk(tmp_path, play)


@pytest.mark.parametrize("cold", [False, True])
def test_a_read_at_any_offset_begins_with_the_batch_that_holds_it(tmp_path: Path, cold: bool) -> None:
    async def play(bench: Bench) -> None:
        log = await bench.create()
        begins = {}
        for number in range(60):
            count = 1 + number % 4
            base = append(log, batch([b"%d" % number] * count)).base_offset
            begins.update(dict.fromkeys(range(base, base + count), base))
        if cold:
            log = await bench.reopen()
        assert len(log.segments) > 2
        for offset, base in begins.items():
            assert records.read_header(await stored(bench.world, log, offset)).base_offset == base
        assert await stored(bench.world, log, log.log_end) == b""
        for outside in (-1, log.log_end + 1):
            with pytest.raises(KafkaError) as out:
                log.read(outside, 100, log.log_end, True, peek.cached)
            assert out.value.code is Code.OFFSET_OUT_OF_RANGE

    on_real_disk(tmp_path, play, segment_bytes=1500)


def test_a_job_finds_every_position_if_the_system_does_not_say_what_is_cached(tmp_path: Path) -> None:
    async def play(bench: Bench) -> None:
        log = await bench.create()
        for number in range(20):
            append(log, batch([b"%d" % number] * 2))
        log = await bench.reopen()
        for segment in log.segments:
            for file in segment.files:
                file._nowait, file._written_from = False, file.size  # type: ignore[attr-defined]
        with pytest.raises(peek.WouldBlock):
            log.read(7, 100, log.log_end, True, peek.cached)
        async with asyncio.timeout(120):
            assert [offset for offset, _ in await all_records(bench.world, log)] == list(range(40))

    on_real_disk(tmp_path, play, segment_bytes=600)


def test_a_read_ends_at_its_bytes_and_its_limit_and_gives_one_whole_batch_at_least(tmp_path: Path) -> None:
    async def play(bench: Bench) -> None:
        log = await bench.create()
        sizes = []
        for number in range(4):
            data = batch([bytes(50 * (number + 1))])
            append(log, data)
            sizes.append(len(data))

        def size(offset: int, max_bytes: int, limit: int, at_least_one: bool) -> int:
            return sum(part.size for part in log.read(offset, max_bytes, limit, at_least_one, peek.cached))

        everything = sum(sizes)
        assert size(0, 1 << 20, 4, False) == everything
        assert size(1, 1 << 20, 4, False) == everything - sizes[0]
        assert size(0, 1 << 20, 2, True) == sizes[0] + sizes[1]
        assert size(0, sizes[0] + 5, 4, False) == sizes[0] + 5
        assert size(0, 1, 4, True) == sizes[0]
        assert size(3, 0, 4, True) == sizes[3]
        # What holds no whole batch is of no use, and would be taken for data.
        assert size(0, sizes[0] - 1, 4, False) == 0
        assert size(0, 0, 4, False) == 0
        assert size(2, 1 << 20, 2, True) == 0

    on_real_disk(tmp_path, play)


def test_a_read_stays_within_its_segment(tmp_path: Path) -> None:
    async def play(bench: Bench) -> None:
        log = await bench.create()
        for _ in range(10):
            append(log, batch([bytes(100)]))
        bases = [segment.base_offset for segment in log.segments]
        assert len(bases) > 2
        data = await stored(bench.world, log, 0)
        assert records.end_offset(data) == bases[1]
        assert [offset for offset, _ in await all_records(bench.world, log)] == list(range(10))

    on_real_disk(tmp_path, play, segment_bytes=600)


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("cold", [False, True])
def test_a_look_up_by_time_finds_the_first_record_that_is_not_older(tmp_path: Path, codec: Codec, cold: bool) -> None:
    stamps = [[START_MS + 10 * (3 * number + each) for each in range(3)] for number in range(40)]
    stamps[7][1] = START_MS + 5000  # out of order: found before all later ones
    flat = [stamp for batch_stamps in stamps for stamp in batch_stamps]

    async def play(bench: Bench) -> None:
        log = await bench.create()
        for each in stamps:
            append(log, batch([b"x"] * 3, timestamps=each, codec=codec))
        if cold:
            log = await bench.reopen()
        assert len(log.segments) > 1
        for start in (0, 23, 50):
            log.raise_log_start(start)
            for when in (0, START_MS, START_MS + 5, START_MS + 220, START_MS + 1190, START_MS + 5000, START_MS + 5001):
                found = await finished(bench.world, lookup.first_at_or_after, log.segments, when, start)
                expected = next(((at, stamp) for at, stamp in enumerate(flat) if at >= start and stamp >= when), None)
                assert (None if found is None else (found.offset, found.timestamp)) == expected
            latest = await finished(bench.world, lookup.with_largest_timestamp, log.segments, start)
            assert latest is not None
            largest = max(flat[start:])
            assert (latest.offset, latest.timestamp) == (flat.index(largest, start), largest)

    on_real_disk(tmp_path, play, segment_bytes=2500)


def rolls(log: Log) -> int:
    return len(log.segments) - 1


def test_a_segment_rolls_when_the_next_batch_would_not_fit(tmp_path: Path) -> None:
    async def play(bench: Bench) -> None:
        log = await bench.create()
        size = len(batch())
        log.config = replace(log.config, segment_bytes=3 * size)
        for _ in range(3):
            append(log, batch())
        assert rolls(log) == 0
        append(log, batch())
        assert [segment.base_offset for segment in log.segments] == [0, 3]
        append(log, batch([bytes(10 * size)]))  # larger than a segment: alone in one
        append(log, batch())
        assert [segment.base_offset for segment in log.segments] == [0, 3, 4, 5]

    on_real_disk(tmp_path, play)


def test_a_segment_rolls_by_the_age_of_its_data_less_the_jitter(tmp_path: Path) -> None:
    async def play(bench: Bench) -> None:
        log = await bench.create()
        append(log, batch(timestamps=[START_MS]))
        append(log, batch(timestamps=[START_MS + 1000]))
        assert rolls(log) == 0
        append(log, batch(timestamps=[START_MS + 1001]))
        assert rolls(log) == 1
        log._roll_jitter_ms = 400
        append(log, batch(timestamps=[START_MS + 1001 + 600]))
        assert rolls(log) == 1
        append(log, batch(timestamps=[START_MS + 1001 + 601]))
        assert rolls(log) == 2
        # Times far in the future, back and forth: no storm of rolls.
        for number in range(20):
            append(log, batch(timestamps=[START_MS + (10**11 if number % 2 else 0)]))
        assert rolls(log) <= 4

    on_real_disk(tmp_path, play, segment_ms=1000)


def test_the_jitter_lies_below_its_setting_and_below_the_age(tmp_path: Path) -> None:
    async def play(bench: Bench) -> None:
        log = await bench.create()
        drawn = {log._draw_jitter() for _ in range(500)}
        assert len(drawn) > 20
        assert 0 <= min(drawn) <= max(drawn) < 50
        log.config = replace(log.config, segment_ms=10)
        assert max(log._draw_jitter() for _ in range(200)) < 10

    on_real_disk(tmp_path, play, segment_jitter_ms=50, segment_ms=1000)


@pytest.mark.parametrize(("index_bytes", "rising"), [(16, False), (48, True)])
def test_a_segment_rolls_when_an_index_is_full(tmp_path: Path, index_bytes: int, rising: bool) -> None:
    async def play(bench: Bench) -> None:
        log = await bench.create()
        for number in range(60):
            append(log, batch(timestamps=[START_MS + (number if rising else 0)]))
        assert rolls(log) > 3
        for segment in log.segments:
            assert segment.offset_index.file.size <= index_bytes
            assert segment.time_index.file.size <= index_bytes

    on_real_disk(tmp_path, play, segment_index_bytes=index_bytes)


def test_a_segment_rolls_before_a_relative_offset_overflows(tmp_path: Path) -> None:
    async def play(bench: Bench) -> None:
        log = await bench.create()
        for base in (0, MAX_RELATIVE_OFFSET, MAX_RELATIVE_OFFSET + 1, 3 * MAX_RELATIVE_OFFSET):
            log.append_as_follower(memoryview(records.build([(START_MS, None, b"v", ())], base_offset=base)))
        assert [segment.base_offset for segment in log.segments] == [
            0,
            MAX_RELATIVE_OFFSET + 1,
            3 * MAX_RELATIVE_OFFSET,
        ]
        # A reader inside a gap is given what lies behind it.
        for offset in (1, MAX_RELATIVE_OFFSET - 1):
            assert records.read_header(await stored(bench.world, log, offset)).base_offset == MAX_RELATIVE_OFFSET
        log = await bench.reopen(clean=True)
        behind_gap = await stored(bench.world, log, MAX_RELATIVE_OFFSET + 2)
        assert records.read_header(behind_gap).base_offset == 3 * MAX_RELATIVE_OFFSET

    on_real_disk(tmp_path, play)


def test_a_follower_takes_only_intact_batches_that_continue_its_log(tmp_path: Path) -> None:
    async def play(bench: Bench) -> None:
        log = await bench.create()
        good = records.build([(START_MS, None, b"v", ())], base_offset=0, leader_epoch=3)
        log.append_as_follower(memoryview(good))
        assert log.epoch_cache.entries == [(3, 0)]
        bad = bytearray(records.build([(START_MS, None, b"v", ())], base_offset=1))
        bad[-1] ^= 1
        for data, code in (
            (good, Code.OFFSET_OUT_OF_RANGE),
            (bad, Code.CORRUPT_MESSAGE),
            (bytes(100), Code.CORRUPT_MESSAGE),
        ):
            refused = await refusal(lambda data=data: log.append_as_follower(memoryview(data)))  # type: ignore[misc]
            assert refused.code is code
        assert log.log_end == 1

    on_real_disk(tmp_path, play)


def test_a_duplicate_is_answered_with_the_old_offsets_also_after_a_restart(tmp_path: Path) -> None:
    async def play(bench: Bench) -> None:
        log = await bench.create()
        append(log, batch([b"other"]))
        for number in range(6):
            append(log, batch([b"v", b"w"], pid=5, epoch=0, sequence=2 * number))
        for clean in (None, False, True):
            if clean is not None:
                log = await bench.reopen(clean)
            again = append(log, batch([b"v", b"w"], pid=5, epoch=0, sequence=10))
            assert (again.base_offset, again.last_offset, again.duplicate) == (11, 12, True)
            refused = await refusal(lambda log=log: append(log, batch([b"z"], pid=5, epoch=0, sequence=13)))  # type: ignore[misc]
            assert refused.code is Code.OUT_OF_ORDER_SEQUENCE_NUMBER
            assert log.log_end == 13

    on_real_disk(tmp_path, play)


def test_producers_outlive_their_deleted_records(tmp_path: Path) -> None:
    async def play(bench: Bench) -> None:
        log = await bench.create()
        append(log, batch([b"v"] * 10, pid=5, epoch=0, sequence=0))
        for _ in range(3):
            append(log, batch([b"other"] * 10))
        log.roll()
        append(log, batch([b"other"] * 10))
        log.move_high_watermark(log.log_end)
        log.raise_log_start(35)
        await bench.store.expiry.apply(log)
        for clean in (False, True):
            await _log_starts_written(bench)
            log = await bench.reopen(clean)
            assert log.log_start in (35, 40)
            log.producers.check(5, 0, 10)
            with pytest.raises(KafkaError) as gap:
                log.producers.check(5, 0, 3)
            assert gap.value.code is Code.OUT_OF_ORDER_SEQUENCE_NUMBER

    on_real_disk(tmp_path, play)


async def _log_starts_written(bench: Bench) -> None:
    written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    bench.store.log_starts.write(lambda: written.set_result(None))
    await written


def test_a_damaged_length_does_not_send_a_reader_round_in_circles(tmp_path: Path) -> None:
    async def play(bench: Bench) -> None:
        log = await bench.create()
        for number in range(5):
            append(log, batch([b"%d" % number]))
        await bench.store.close(1)
        path = Path(bench.partition_directory / "00000000000000000000.log")
        data = bytearray(path.read_bytes())
        size = len(batch([b"0"]))
        for length in (-12, -size, 0, 48):
            data[size + 8 : size + 12] = length.to_bytes(4, "big", signed=True)
            path.write_bytes(data)
            bench.store = bench._new_store()
            log = _believing(bench)
            refused = await refusal(lambda log=log: stored(bench.world, log, 1))  # type: ignore[misc]
            assert refused.code is Code.CORRUPT_MESSAGE

    on_real_disk(tmp_path, play)


def _believing(bench: Bench) -> Log:
    """The log as a node has it that opened it before the damage."""
    from random import Random

    from highwater.log.index import NO_TIMESTAMP
    from highwater.log.loaded import LoadedLog, LoadedSegment
    from tests.unit.log.bench import TOPIC_ID, TP

    facts = LoadedSegment(0, 0, NO_TIMESTAMP, NO_TIMESTAMP, None, 0)
    loaded = LoadedLog(bench.partition_directory, [facts], 0, 5, 5, [], [], TOPIC_ID)
    return Log(bench.world, TP, TOPIC_ID, bench.config, loaded, Random(1), bench.offline.append)


def test_all_answers_are_the_same_after_any_stop(tmp_path: Path) -> None:
    async def play(bench: Bench) -> None:
        log = await bench.create()
        for number in range(80):
            stamp = START_MS + (number * 37) % 500
            append(log, batch([b"%d" % number] * 2, timestamps=[stamp, stamp + 3], codec=number % 5), number // 30)
        times = range(START_MS - 1, START_MS + 510, 9)
        before = await answers(bench.world, log, times)
        for clean in (True, False, False, True, True, False):
            assert await answers(bench.world, await bench.reopen(clean), times) == before
        assert bench.offline == []

    on_real_disk(tmp_path, play, segment_bytes=2000)


def test_a_segment_begins_where_the_last_one_ended_though_a_gap_follows(tmp_path: Path) -> None:
    """A follower copies the gaps of a compacted log. One between two segments would look like a loss."""

    async def play(bench: Bench) -> None:
        log = await bench.create()
        for base in (0, 10, 20, 1 << 32):
            data = bytearray(batch([b"v" * 200]))
            data[:8] = base.to_bytes(8, "big")
            log.append_as_follower(memoryview(data))
        assert [segment.base_offset for segment in log.segments] == [0, 1, 11, 1 << 32], "the last is too far off"
        assert [offset for offset, _ in await all_records(bench.world, log)] == [0, 10, 20, 1 << 32]

    on_real_disk(tmp_path, play, segment_bytes=300)
