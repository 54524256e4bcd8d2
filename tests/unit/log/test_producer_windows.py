"""The last five batches of each producer are known after every kind of end, wherever segments were rolled."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from pathlib import Path, PurePath
from typing import Any

import pytest

from highwater.log.log import Log
from highwater.log.producer_state import WINDOW, Producer
from highwater.log.snapshots import ProducerSnapshots
from highwater.sim.simulation import Simulation
from tests.unit.log.bench import Bench, append, batch, on_real_disk, until

PRODUCERS = (4, 7)
End = Callable[[Bench], Coroutine[Any, Any, Log]]


def write(log: Log, pid: int, number: int) -> tuple[int, bool]:
    """Batch `number` of a producer, of two records; its offset, and whether the log had it."""
    appended = append(log, batch([b"%d" % number] * 2, pid=pid, epoch=0, sequence=number * 2))
    return appended.base_offset, appended.duplicate


def repeat(log: Log, offsets: dict[tuple[int, int], int]) -> None:
    """All that a client may have in flight: each batch is known by the offset that it had."""
    end = log.log_end
    for (pid, number), offset in offsets.items():
        assert write(log, pid, number) == (offset, True), f"batch {number} of producer {pid}"
    assert log.log_end == end


async def settled(log: Log) -> None:
    """Nothing of what a roll has begun is left to do: its snapshot is written, its files are synced."""
    written: list[bool] = []
    log.snapshots.when_idle(lambda: written.append(True))
    await until(lambda: bool(written) and not log.durability.under_way)


async def stopped(bench: Bench) -> Log:
    return await bench.reopen(clean=True)


async def killed(bench: Bench) -> Log:
    await settled(bench.log)
    return await bench.reopen(clean=False)


async def cut(bench: Bench) -> Log:
    """Back to where the last of the known batches ends."""
    end = bench.log.log_end
    for number in range(20, 24):
        write(bench.log, 99, number)
    assert await bench.truncate(end)
    return bench.log


async def cut_and_killed(bench: Bench) -> Log:
    await cut(bench)
    return await killed(bench)


@pytest.mark.parametrize("end", [stopped, killed, cut, cut_and_killed])
@pytest.mark.parametrize("roll_after_each", [True, False])
def test_five_batches_are_known_though_segments_were_rolled_between_them(
    tmp_path: Path, end: End, roll_after_each: bool
) -> None:
    async def play(bench: Bench) -> None:
        log = await bench.create()
        offsets = {}
        for number in range(8):
            for pid in PRODUCERS:
                offsets[pid, number], known = write(log, pid, number)
                assert not known
                if roll_after_each:
                    log.roll()
        log.roll()
        for pid in PRODUCERS:
            for number in range(8 - WINDOW):
                del offsets[pid, number]
        log = await end(bench)
        repeat(log, offsets)
        assert write(log, 4, 8) == (log.log_end - 2, False)
        assert (await end(bench)).producers.producers[4].last_sequence == 17

    on_real_disk(tmp_path, play)


@pytest.mark.parametrize("end", [stopped, killed, cut])
def test_batches_that_retention_has_deleted_are_known(tmp_path: Path, end: End) -> None:
    async def play(bench: Bench) -> None:
        log = await bench.create()
        offsets = {}
        for number in range(WINDOW):
            offsets[4, number], _ = write(log, 4, number)
            log.roll()
        log.move_high_watermark(log.log_end)
        await settled(log)
        while len(log.segments) > 1:
            bench.store.retired.remove_files_later(log.drop_oldest(), 0)
        repeat(await end(bench), offsets)

    on_real_disk(tmp_path, play)


def test_batches_are_read_from_the_log_where_the_newest_snapshots_are_gone(tmp_path: Path) -> None:
    async def play(bench: Bench) -> None:
        log = await bench.create()
        offsets = {}
        for number in range(WINDOW):
            offsets[4, number], _ = write(log, 4, number)
            log.roll()
            await until(lambda: not log.snapshots._queue)
        await bench.store.close(1)
        await bench.abandon()
        snapshots = sorted(Path(bench.partition_directory).glob("*.snapshot"))
        assert len(snapshots) == WINDOW
        snapshots[-1].unlink()
        snapshots[-2].write_bytes(b"damaged")
        repeat(await killed(bench), offsets)

    on_real_disk(tmp_path, play)


def test_snapshots_that_wait_for_the_disk_do_not_pile_up() -> None:
    """Each has all producers. The last one is written, whatever was passed over."""
    with Simulation(1) as sim:
        world = sim.world("a")
        sim.storage("a").provide(PurePath("/data"))
        snapshots = ProducerSnapshots(world, PurePath("/data"))
        results: list[Exception | None] = []
        for offset in range(1, 51):
            world.call(snapshots.write, offset, {7: Producer(0, 0)}, results.append)
        assert len(snapshots._queue) == 2
        sim.run(sim.until(lambda: len(results) == 50))
        assert results == [None] * 50
        assert world.disk.list(PurePath("/data")) == [f"{1:020d}.snapshot", f"{50:020d}.snapshot"]
