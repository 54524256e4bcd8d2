"""What a cleaner does when nothing is to be done, when it is stopped, and when a cleaning fails."""

from __future__ import annotations

import errno
from dataclasses import replace

import pytest

from highwater.log import names
from highwater.log.scan import scan
from highwater.log.soundness import indexes_hold
from highwater.wire import records
from highwater.wire.records import HEADER_SIZE
from tests.unit.log.bench import TOPIC_ID, TP, append, create_log
from tests.unit.log.compaction.stage import NAME, Stage, table_of
from tests.unit.log.compaction.test_limits import ANOTHER, node


def fill(stage: Stage, batches: int = 60) -> None:
    for number in range(batches):
        stage.write([(b"k%d" % (number % 5), b"%d" % number)])


def aside(stage: Stage) -> list[str]:
    """What a cleaning has written and not put in its place."""
    return [name for name in stage.world.disk.list(stage.bench.partition_directory) if name.endswith(names.CLEANED)]


def test_a_cleaner_that_found_nothing_looks_again() -> None:
    stage = Stage(1)

    async def play() -> None:
        await stage.create()
        stage.cleaner.start()
        await stage.sim.sleep(14)
        assert stage.cleaner.account.looked_at is None, "log.cleaner.backoff.ms is not over yet"
        await stage.sim.sleep(26)
        assert stage.cleaner.account.looked_at is not None
        assert (stage.cleaner.account.cleanings, stage.cleaner.account.max_ratio) == (0, 0.0)
        fill(stage)
        await stage.sim.until(lambda: stage.cleaner.account.max_ratio > 0)
        await stage.sim.until(lambda: stage.cleaner.account.cleanings > 0)
        await stage.sim.sleep(40)
        assert stage.cleaner.account.max_ratio == 0.0, "of what is dirty now"
        stage.cleaner.stop()
        assert table_of(await stage.read()) == stage.expected

    with stage.sim:
        stage.sim.run(play)


def test_a_cleaner_whose_pause_is_made_shorter_looks_sooner() -> None:
    stage = Stage(1)

    async def play() -> None:
        await stage.create()
        stage.cleaner.start()
        await stage.sim.sleep(1)
        stage.node = node(log_cleaner_backoff_ms=1000)
        stage.cleaner.reconfigured()
        await stage.sim.sleep(3)
        assert stage.cleaner.account.looked_at is not None
        stage.cleaner.stop()

    with stage.sim:
        stage.sim.run(play)


def test_a_cleaner_that_is_closed_ends_what_is_under_way_and_leaves_nothing_behind() -> None:
    stage = Stage(2, node(log_cleaner_io_max_bytes_per_second=400))

    async def play() -> None:
        await stage.create()
        fill(stage)
        stage.cleaner.start()
        stage.cleaner._look()
        await stage.sim.until(lambda: bool(aside(stage)))
        begun = stage.world.clock.monotonic()
        await stage.cleaner.close()
        assert stage.world.clock.monotonic() - begun < 5
        assert (aside(stage), stage.cleaner.account.under_way, stage.cleaner.account.setbacks) == ([], {}, {})
        assert table_of(await stage.read()) == stage.expected

    with stage.sim:
        stage.sim.run(play)


def test_how_far_a_cleaning_is_can_be_seen() -> None:
    stage = Stage(2, node(log_cleaner_io_max_bytes_per_second=400))

    async def play() -> None:
        await stage.create()
        fill(stage)
        stage.cleaner.start()
        stage.cleaner._look()
        under_way = stage.cleaner.account.under_way
        assert under_way[TP].share == 0
        await stage.sim.until(lambda: under_way[TP].share > 0.2)
        await stage.cleaner.close()

    with stage.sim:
        stage.sim.run(play)


def test_a_cleaner_that_is_stopped_gives_up_what_would_take_hours() -> None:
    stage = Stage(2, node(log_cleaner_io_max_bytes_per_second=1), segment_bytes=20_000)

    async def play() -> None:
        await stage.create()
        fill(stage, 300)
        stage.cleaner.start()
        stage.cleaner._look()
        await stage.sim.sleep(30)
        assert stage.cleaner.account.under_way[TP].share < 0.1
        stage.cleaner.stop()
        await stage.sim.sleep(5)
        assert (stage.cleaner.account.under_way, stage.cleaner.account.setbacks) == ({}, {})

    with stage.sim:
        stage.sim.run(play)


def test_a_cleaner_that_has_cleaned_before_is_closed_once_the_next_cleaning_has_ended() -> None:
    stage = Stage(2)

    async def play() -> None:
        await stage.create()
        fill(stage)
        await stage.clean()
        assert stage.cleaner.account.cleanings > 0
        stage.node = node(log_cleaner_io_max_bytes_per_second=400)
        stage.cleaner.reconfigured()
        fill(stage)
        stage.cleaner.start()
        stage.cleaner._look()
        await stage.sim.until(lambda: bool(aside(stage)))
        await stage.cleaner.close()
        assert (aside(stage), stage.cleaner.account.under_way) == ([], {})

    with stage.sim:
        stage.sim.run(play)


def test_a_truncation_waits_for_a_segment_that_takes_its_place_and_then_goes_on() -> None:
    stage = Stage(4)

    async def play() -> None:
        log = await stage.create()
        fill(stage)
        stage.cleaner.start()
        stage.cleaner._look()
        await stage.sim.until(lambda: log.swapping is not None)
        assert await stage.bench.truncate(log.log_end - 1)
        assert (log.swapping, log.log_end) == (None, 59)
        await stage.cleaner.close()

    with stage.sim:
        stage.sim.run(play)


def test_a_log_that_begins_anew_waits_for_a_segment_that_takes_its_place() -> None:
    """Or the next start would find it, whole and durable, and put it into the new log."""
    stage = Stage(4)

    async def play() -> None:
        log = await stage.create()
        fill(stage)
        stage.cleaner.start()
        stage.cleaner._look()
        await stage.sim.until(lambda: log.swapping is not None)
        assert await stage.bench.store.restart(log, 100)
        assert (log.swapping, log.log_start, log.log_end) == (None, 100, 100)
        await stage.cleaner.close()
        await stage.stop(clean=False)
        log = await stage.restart()
        assert ([segment.base_offset for segment in log.segments], log.log_end) == ([100], 100)

    with stage.sim:
        stage.sim.run(play)


def test_a_segment_whose_log_failed_meanwhile_takes_no_place_and_leaves_nothing_behind() -> None:
    stage = Stage(4)

    async def play() -> None:
        log = await stage.create()
        fill(stage)
        before = list(log.segments)
        stage.cleaner.start()
        stage.cleaner._look()
        await stage.sim.until(lambda: log.swapping is not None)
        log.offline = OSError(errno.EIO, "broken")
        await stage.cleaner.close()
        assert log.segments == before
        left = stage.world.disk.list(stage.bench.partition_directory)
        assert [name for name in left if name.endswith((names.SWAP, names.CLEANED))] == []
        assert stage.cleaner.account.setbacks == {}

    with stage.sim:
        stage.sim.run(play)


def test_a_segment_is_as_old_as_the_youngest_of_those_that_it_is_made_of() -> None:
    stage = Stage(3, segment_bytes=700)

    async def play() -> None:
        log = await stage.create()
        while len(log.segments) < 5:
            fill(stage, 5)
            await stage.sim.sleep(1)
        created = {segment.base_offset: segment.created_ms for segment in log.segments}
        log.config = replace(log.config, segment_bytes=100_000)
        await stage.clean()
        bases = [segment.base_offset for segment in log.segments]
        assert len(bases) < len(created)
        for segment, following in zip(log.segments, [*bases[1:], log.log_end], strict=True):
            replaced = [ms for base, ms in created.items() if segment.base_offset <= base < following]
            assert segment.created_ms == max(replaced)

    with stage.sim:
        stage.sim.run(play)


def test_no_more_logs_are_cleaned_at_a_time_than_there_are_threads() -> None:
    stage = Stage(2, node(log_cleaner_io_max_bytes_per_second=400, log_cleaner_threads=1))

    async def play() -> None:
        logs = [await stage.create(), await create_log(stage.bench.store, ANOTHER, TOPIC_ID)]
        for number in range(60):
            for log in logs:
                append(log, records.build([(stage.now_ms, b"%d" % (number % 9), bytes(300), ())]))
                log.move_high_watermark(log.log_end)
        stage.cleaner.start()
        stage.cleaner._look()
        assert len(stage.cleaner.account.under_way) == 1
        await stage.cleaner.close()

    with stage.sim:
        stage.sim.run(play)


@pytest.mark.parametrize("what", ["deleted", "compacted no more"])
def test_a_cleaning_of_a_log_that_changes_meanwhile_is_given_up(what: str) -> None:
    stage = Stage(6, node(log_cleaner_io_max_bytes_per_second=400))

    async def play() -> None:
        log = await stage.create()
        fill(stage)
        stage.cleaner.start()
        stage.cleaner._look()
        await stage.sim.until(lambda: bool(aside(stage)))
        stage.cleaner._timer.cancel()  # type: ignore[union-attr]
        if what == "deleted":
            stage.bench.store.delete(TP)
        else:
            log.config = replace(log.config, cleanup_policy=("delete",))
        await stage.sim.until(lambda: TP not in stage.cleaner.account.under_way, 60)
        assert (stage.cleaner.account.cleanings, stage.cleaner.account.setbacks) == (0, {})
        if what != "deleted":
            await stage.sim.sleep(60)
            assert aside(stage) == [], "nobody writes on"
        stage.cleaner.stop()

    with stage.sim:
        stage.sim.run(play)


def test_a_mistake_in_a_cleaning_is_not_repeated_and_the_next_log_is_cleaned_at_once() -> None:
    stage = Stage(3, node(log_cleaner_threads=1))

    async def play() -> None:
        logs = [await stage.create(), await create_log(stage.bench.store, ANOTHER, TOPIC_ID)]
        for number in range(60):
            for log in logs:
                append(log, records.build([(stage.now_ms, b"%d" % (number % 9), bytes(300), ())]))
                log.move_high_watermark(log.log_end)
        append(logs[0], records.build([(stage.now_ms, b"k", bytes(9000), ())]))  # the dirtiest
        logs[0].move_high_watermark(logs[0].log_end)
        logs[0].roll()
        stage.sim.storage(NAME).fail("append", f"*/{TP}/*{names.CLEANED}", error=RuntimeError("a mistake"))
        stage.sim.forgives = True
        stage.cleaner.start()
        stage.cleaner._look()
        assert list(stage.cleaner.account.under_way) == [TP]
        await stage.sim.until(lambda: stage.cleaner.account.cleanings > 0, 10)
        stage.cleaner.stop()
        assert {each: setback.final for each, setback in stage.cleaner.account.setbacks.items()} == {TP: True}
        assert list(stage.cleaner.account.passes) == [ANOTHER]

    with stage.sim:
        stage.sim.run(play)


@pytest.mark.parametrize(("code", "is_final"), [(errno.ENOSPC, False), (errno.EIO, True)])
def test_a_cleaning_that_fails_is_tried_again_where_that_pays(code: int, is_final: bool) -> None:
    stage = Stage(3)

    async def play() -> None:
        await stage.create()
        fill(stage)
        stage.sim.storage(NAME).fail("append", f"*{names.CLEANED}", code)
        stage.cleaner.start()
        stage.cleaner._look()
        await stage.sim.until(lambda: stage.cleaner.account.failures > 0)
        assert stage.cleaner.account.setbacks[TP].final is is_final
        assert stage.cleaner.account.uncleanable(TP) is is_final
        assert aside(stage) == []
        await stage.sim.sleep(60)
        assert bool(stage.cleaner.account.cleanings) is not is_final
        assert (TP in stage.cleaner.account.setbacks) is is_final, "a cleaning that succeeds makes up for it"
        stage.cleaner.stop()
        stage.cleaner.account.forget_gone({})
        assert (stage.cleaner.account.setbacks, stage.cleaner.account.passes) == ({}, {}), "of logs that are gone"
        assert table_of(await stage.read()) == stage.expected

    with stage.sim:
        stage.sim.run(play)


def test_a_log_whose_compacted_segment_could_not_take_its_place_is_offline() -> None:
    """The next start finishes it or takes it back."""
    stage = Stage(9)

    async def play() -> None:
        log = await stage.create()
        fill(stage)
        stage.sim.storage(NAME).fail("rename", f"*{names.CLEANED}")
        stage.cleaner.start()
        stage.cleaner._look()
        await stage.sim.until(lambda: stage.cleaner.account.failures > 0)
        stage.cleaner.stop()
        assert log.offline is not None
        await stage.stop(clean=False)
        await stage.restart()
        assert table_of(await stage.read()) == stage.expected

    with stage.sim:
        stage.sim.run(play)


@pytest.mark.parametrize("nth", [3, 4, 5])
def test_a_compacted_segment_takes_its_place_once_there_are_descriptors_again(nth: int) -> None:
    """That the directory could not be opened for one of its syncs says nothing about the disk."""
    stage = Stage(9)

    async def play() -> None:
        log = await stage.create()
        fill(stage)
        storage = stage.sim.storage(NAME)
        storage.fail("open", str(stage.bench.partition_directory), errno.EMFILE, nth, times=5)
        stage.cleaner.start()
        stage.cleaner._look()
        await stage.sim.until(lambda: stage.cleaner.account.cleanings > 0)
        stage.cleaner.stop()
        assert len(storage.struck) == 5
        assert (log.offline, log.swapping) == (None, None)
        assert table_of(await stage.read()) == stage.expected

    with stage.sim:
        stage.sim.run(play)


def test_damage_that_a_cleaning_finds_is_reported_to_the_owner_of_the_log() -> None:
    stage = Stage(4)

    async def play() -> None:
        log = await stage.create()
        fill(stage)
        first = log.segments[0]
        stage.sim.storage(NAME).damage(first.file.path, HEADER_SIZE + 5, b"\xff\xff")
        stage.cleaner.start()
        stage.cleaner._look()
        await stage.sim.until(lambda: bool(stage.cleaner.account.failures))
        assert list(log.reads.damage) == [first.base_offset]
        assert aside(stage) == []
        stage.cleaner.stop()

    with stage.sim:
        stage.sim.run(play)


@pytest.mark.parametrize("offset", [2**40, 2**20])
def test_an_offset_that_is_not_of_its_segment_is_damage_that_a_cleaning_reports(offset: int) -> None:
    """No checksum covers the offset of a batch. No index could hold the first; the second is in another segment."""
    stage = Stage(4)

    async def play() -> None:
        log = await stage.create()
        fill(stage)
        first = log.segments[0]
        last = max(batch.position for batch in scan(first.file, 0, 0))
        stage.sim.storage(NAME).damage(first.file.path, last, offset.to_bytes(8, "big"))
        stage.cleaner.start()
        stage.cleaner._look()
        await stage.sim.until(lambda: bool(stage.cleaner.account.failures))
        assert list(log.reads.damage) == [first.base_offset]
        assert aside(stage) == []
        stage.cleaner.stop()

    with stage.sim:
        stage.sim.run(play)


def test_compacted_segments_have_correct_indexes_and_are_counted() -> None:
    stage = Stage(5, segment_bytes=4_000, index_interval_bytes=100)

    async def play() -> None:
        await stage.create()
        for number in range(80):
            stage.write([(b"k%d" % (number % 40), b"%d" % number)])
        stage.log.roll()
        await stage.clean()
        closed = stage.log.segments[:-1]
        assert max(segment.offset_index.entries for segment in closed) > 3
        assert all(indexes_hold(segment, 100) for segment in closed)
        done = stage.cleaner.account.passes[TP].cleaned.bytes
        assert done.written == sum(segment.size for segment in closed) < done.read == done.mapped
        assert stage.cleaner.account.bytes_written == done.written
        assert stage.cleaner.account.bytes_read == done.read + done.mapped

    with stage.sim:
        stage.sim.run(play)


def test_compacted_segments_outlive_a_power_cut() -> None:
    for seed in range(8):
        stage = Stage(seed)

        async def play(stage: Stage = stage) -> None:
            await stage.create()
            fill(stage)
            stage.log.roll()
            stage.log.flush()
            await stage.sim.until(lambda: stage.log.durable_end == stage.log.log_end)
            await stage.clean()
            stage.sim.crash(NAME, power_loss=True)
            await stage.restart()
            assert table_of(await stage.read()) == stage.expected

        with stage.sim:
            stage.sim.run(play)
