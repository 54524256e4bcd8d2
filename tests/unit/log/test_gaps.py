"""Gaps that compaction left, and cuts behind them: the log then ends where its file does."""

from __future__ import annotations

from highwater.wire import records
from tests.unit.log.compaction.stage import NAME, Stage


def copied(stage: Stage, base: int, count: int = 1) -> None:
    """As a follower gets it: one batch at this offset, which may lie beyond the log's end."""
    data = records.build([(stage.now_ms, b"k%d" % number, b"v" * 60, ()) for number in range(count)])
    records.stamp(data, 0, base, 0)
    stage.log.append_as_follower(memoryview(data))


def ends(stage: Stage) -> tuple[int, int, list[int]]:
    return stage.log.log_start, stage.log.log_end, [segment.base_offset for segment in stage.log.segments]


def kept_by_a_kill(stage: Stage) -> bool:
    async def play() -> bool:
        stage.log.flush()
        await stage.sim.until(lambda: stage.log.durable_end == stage.log.log_end)
        before = ends(stage)
        await stage.stop(clean=False)
        await stage.restart()
        return ends(stage) == before

    return stage.sim.run(play)


def test_a_log_that_was_cut_behind_a_gap_is_whole_after_a_kill() -> None:
    stage = Stage(3, segment_bytes=600)

    async def play() -> None:
        await stage.create()
        for base in (0, 1, 10):  # 2 to 9 were compacted away at the leader
            copied(stage, base)
        assert await stage.bench.store.truncate(stage.log, 10)
        copied(stage, 10, 4)
        for base in range(14, 30):
            copied(stage, base)

    with stage.sim:
        stage.sim.run(play)
        assert len(stage.log.segments) > 3
        assert kept_by_a_kill(stage)


def test_a_log_that_was_cut_to_its_start_amid_a_batch_is_whole_after_a_kill() -> None:
    stage = Stage(3, segment_bytes=800, cleanup_policy=("delete",))

    async def play() -> None:
        log = await stage.create()
        copied(stage, 0, 4)
        copied(stage, 4, 5)
        log.move_high_watermark(9)
        log.raise_log_start(6)
        await stage.bench.store.log_starts.written(lambda: True)
        assert await stage.bench.store.truncate(log, 6)
        copied(stage, 6, 7)
        for base in range(13, 30):
            copied(stage, base)

    with stage.sim:
        stage.sim.run(play)
        assert len(stage.log.segments) > 3
        assert kept_by_a_kill(stage)


def test_a_cut_in_a_gap_that_reaches_below_the_log_start_begins_anew_at_the_start() -> None:
    stage = Stage(3, cleanup_policy=("compact", "delete"))

    async def play() -> None:
        log = await stage.create()
        for base in (0, 1, 10):
            copied(stage, base)
        log.move_high_watermark(11)
        log.raise_log_start(6)
        await stage.bench.store.log_starts.written(lambda: True)
        assert await stage.bench.store.truncate(log, 8)
        assert ends(stage) == (6, 6, [6])

    with stage.sim:
        stage.sim.run(play)
        assert kept_by_a_kill(stage)


def test_a_segment_below_the_log_start_that_a_power_cut_brings_back_costs_nothing() -> None:
    """Of the renames of a retention it may keep the later ones alone: the gap lies below the start."""
    stage = Stage(3, segment_bytes=600, cleanup_policy=("delete",))

    async def play() -> None:
        log = await stage.create()
        for base in range(30):
            copied(stage, base)
        await stage.sim.until(lambda: log.durable_end > 25)
        log.move_high_watermark(30)
        log.raise_log_start(log.segments[2].base_offset + 1)
        await stage.bench.store.log_starts.written(lambda: True)
        start, first, gone = log.log_start, log.segments[2].base_offset, log.segments[1]
        await stage.stop(clean=False)
        stage.world = stage.sim.restart(NAME)
        for name in stage.world.disk.list(log.directory):
            if name.startswith(f"{gone.base_offset:020d}"):
                stage.world.disk.unlink(log.directory / name)
        await stage.restart()
        assert ends(stage)[:2] == (start, 30)
        assert ends(stage)[2][0] == first

    with stage.sim:
        stage.sim.run(play)


def test_a_log_that_is_cut_amid_the_gap_at_the_end_of_a_segment_ends_with_its_batches() -> None:
    stage = Stage(3)

    async def play() -> None:
        await stage.create()
        for base in (0, 1):
            copied(stage, base)
        stage.log.log_end = 6  # 2 to 5 were compacted away
        stage.log.roll()
        copied(stage, 6)
        assert await stage.bench.store.truncate(stage.log, 4)
        assert ends(stage) == (0, 2, [0])

    with stage.sim:
        stage.sim.run(play)
