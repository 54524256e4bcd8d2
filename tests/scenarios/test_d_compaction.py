"""Group D, storage: what compaction may touch, and what a crash in the middle of it leaves (D10, D11)."""

from __future__ import annotations

from collections import Counter

import pytest

from highwater.log import names
from highwater.sim.trace import Event
from tests.unit.log.bench import settings
from tests.unit.log.compaction.stage import NAME, Stage, table_of

GROUPS = 2
ON_DISK = ("append", "truncate", "sync", "sync_dir", "rename", "unlink")


def story(seed: int) -> Stage:
    stage = Stage(seed, segment_bytes=400)

    async def begin() -> None:
        await stage.create()
        stage.write_some(18, 4)
        stage.log.roll()
        stage.write([(b"last", b"one")])
        stage.log.flush()
        await stage.sim.until(lambda: stage.log.durable_end == stage.log.log_end)
        await stage.sim.sleep(1)
        # From now on several of these segments become one.
        stage.changes["segment_bytes"] = 1500
        stage.log.config = settings(**stage.changes)

    stage.sim.run(begin)
    return stage


def steps_of(seed: int) -> int:
    stage, seen = story(seed), Counter[str]()
    with stage.sim:

        def count(event: Event) -> None:
            seen[event.kind] += event.phase == "before" and event.kind in ON_DISK

        stage.sim.on_event(count)
        stage.sim.run(stage.clean)
    assert {"append", "sync", "rename", "sync_dir", "unlink"} <= set(seen), seen
    return seen.total()


@pytest.mark.parametrize("power_loss", [True, False])
@pytest.mark.parametrize("group", range(GROUPS))
def test_d10_a_crash_at_any_step_of_a_compaction_leaves_the_old_log_or_the_new(group: int, power_loss: bool) -> None:
    seed = 11
    found: Counter[str] = Counter()
    for nth in range(1 + group, steps_of(seed) + 1, GROUPS):
        stage = story(seed)
        with stage.sim:
            point = stage.sim.crash_at(NAME, lambda event: event.kind in ON_DISK, nth, power_loss=power_loss)
            stage.world.spawn("clean", stage.clean())
            stage.sim.run(stage.sim.until(lambda point=point: point.hit is not None))  # type: ignore[misc]
            assert point.hit is not None
            found[point.hit.kind] += 1

            async def look(stage: Stage = stage) -> None:
                left = await stage.restart()
                directory = stage.bench.partition_directory
                names_left = stage.world.disk.list(directory)
                assert not any(name.endswith((names.SWAP, names.CLEANED)) for name in names_left)
                assert table_of(await stage.read()) == stage.expected
                end = left.log_end
                await stage.clean()
                assert table_of(await stage.read()) == stage.expected
                assert stage.log.log_end == end

            stage.sim.run(look)
    assert found.total() > 10 and {"append", "rename"} <= set(found), found


def test_d11_nothing_at_or_beyond_the_high_watermark_or_in_the_active_segment_is_compacted() -> None:
    stage = Stage(3)

    async def play() -> None:
        await stage.create()
        for number in range(60):
            stage.write([(b"k", b"%d" % number)])
        stage.log.move_high_watermark(20)
        await stage.clean()
        found = await stage.read()
        assert [record.offset for record in found] == [stage.log.clean_end - 1, *range(stage.log.clean_end, 60)]
        assert stage.log.clean_end <= 20

    with stage.sim:
        stage.sim.run(play)


def test_d11_a_log_that_was_cut_below_what_is_clean_is_compacted_from_there_again() -> None:
    """What is written anew behind the cut has not been looked at, whatever the checkpoint said (KAFKA-3330)."""
    stage = Stage(6)

    async def play() -> None:
        log = await stage.create()
        for number in range(60):
            stage.write([(b"k", b"%d" % number)])
        await stage.clean()
        clean_end = log.clean_end
        assert clean_end is not None and clean_end > 40
        log.move_high_watermark(30)
        await stage.bench.truncate(30)
        assert 20 < log.log_end <= 30 and log.clean_end == log.log_end
        for number in range(60):
            stage.write([(b"k%d" % (number % 2), b"again %d" % number)])
        await stage.clean()
        left = [record.offset for record in await stage.read() if record.offset < log.active.base_offset]
        assert len(left) == 2, "one for each key: the first is in no segment any more"

    with stage.sim:
        stage.sim.run(play)


@pytest.mark.parametrize("clean", [True, False])
def test_d11_the_log_end_stays_though_the_last_batch_is_compacted_away(clean: bool) -> None:
    """A tombstone whose time is over; and the empty segment behind it is lost, too (KAFKA-17076)."""
    stage = Stage(7, delete_retention_ms=0)

    async def play() -> None:
        log = await stage.create()
        stage.write([(b"k", b"1")])
        stage.write([(b"k", None)])
        log.roll()
        for _ in range(3):
            assert log.log_end == 2
            log.clean_end = None
            await stage.clean()
            await stage.sim.sleep(1)
        assert [record.offset for record in await stage.read()] == []
        await stage.stop(clean)
        stage.world = stage.sim.restart(NAME)
        directory = stage.bench.partition_directory
        for name in stage.world.disk.list(directory):
            if name.startswith(f"{2:020d}"):
                stage.world.disk.unlink(directory / name)
        stage.sim.crash(NAME, power_loss=False)
        log = await stage.restart()
        assert log.log_end == 2
        stage.write([(b"k", b"2")])
        assert [(record.offset, record.value) for record in await stage.read()] == [(2, b"2")]

    with stage.sim:
        stage.sim.run(play)
