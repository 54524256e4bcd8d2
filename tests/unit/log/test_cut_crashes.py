"""A power cut at each step of a cut, at either end: what is found then has no hole."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from highwater.log import names
from highwater.log.checkpoint import encode_offsets
from highwater.wire import records
from tests.unit.log.compaction.stage import DATA, NAME, Stage

ON_DISK = ("append", "truncate", "sync", "sync_dir", "rename", "unlink", "create", "open")
RECORDS = 12
Cut = Callable[[Stage], Coroutine[Any, Any, bool]]


def filled(seed: int, policy: str, **changes: Any) -> Stage:
    """All of it is synced, and the checkpoints say so."""
    stage = Stage(seed, segment_bytes=400, cleanup_policy=(policy,), **changes)

    async def play() -> None:
        log = await stage.create()
        for number in range(RECORDS):
            stage.write([(b"k%d" % number, b"v" * 60)])
        if policy == "compact":
            await stage.clean()
            assert log.clean_end == log.active.base_offset
        log.flush()
        await stage.sim.until(lambda: log.durable_end == log.log_end)
        await stage.bench.store.recovery_points.written(lambda: True)
        await stage.bench.store.clean_ends.written(lambda: True)
        assert len(log.segments) > 2

    stage.sim.run(play)
    return stage


def found_after_a_crash(stage: Stage, step: int, cut: Cut) -> list[int] | None:
    """The offsets that the next life has; None where there are fewer steps."""
    point = stage.sim.crash_at(NAME, lambda event: event.kind in ON_DISK, step, power_loss=True)
    done: list[bool] = []

    async def go() -> None:
        done.append(await cut(stage))

    stage.world.spawn("cut", go())
    stage.sim.run(stage.sim.until(lambda: point.hit is not None or done))
    if done:
        return None
    stage.sim.run(stage.restart)
    files = [bytes(segment.file.read(0, segment.size)) for segment in stage.log.segments]
    found = [header.base_offset for data in files for _, _, header in records.walk(memoryview(data))]
    if found:
        assert stage.log.log_end == found[-1] + 1
    return found


@pytest.mark.parametrize("policy", ["delete", "compact"])
@pytest.mark.parametrize(
    ("cut", "kept"),
    [
        (lambda stage: stage.bench.store.truncate(stage.log, 4), 4),
        (lambda stage: stage.bench.store.restart(stage.log, 100), 0),
    ],
    ids=["cut", "begun anew"],
)
@pytest.mark.parametrize("seed", range(3))
def test_a_power_cut_amid_a_cut_leaves_no_hole_and_no_log_that_is_refused(
    seed: int, policy: str, cut: Cut, kept: int
) -> None:
    step, found = 1, [0]
    while found is not None:
        stage = filled(seed, policy)
        with stage.sim:
            found = found_after_a_crash(stage, step, cut)
            if found:
                assert found == list(range(found[0], found[-1] + 1)), f"step {step}"
            if found is not None and kept:
                assert found[:kept] == list(range(kept)), f"step {step}"
        step += 1
    assert step > 10


async def let_go(stage: Stage) -> bool:
    return await stage.bench.store.expiry.apply(stage.log) > 1


@pytest.mark.parametrize("seed", range(6))
def test_a_power_cut_amid_a_retention_costs_nothing_that_is_kept(seed: int) -> None:
    """Though no checkpoint says yet that anything was synced."""
    step, found = 1, [0]
    while found is not None:
        stage = filled(seed, "delete", retention_bytes=0)
        stage.sim.storage(NAME).file(DATA / names.RECOVERY_POINTS).data[:] = encode_offsets({})
        with stage.sim:
            last = stage.log.active.base_offset
            stage.log.move_high_watermark(last)
            found = found_after_a_crash(stage, step, let_go)
            if found is not None:
                assert found == list(range(found[0], RECORDS)) and found[0] <= last, f"step {step}"
        step += 1
    assert step > 10


@pytest.mark.parametrize("cut", [2, 11], ids=["segments go", "the last segment is cut"])
@pytest.mark.parametrize("seed", range(6))
def test_a_cut_is_durable_when_it_is_done(seed: int, cut: int) -> None:
    """A batch that a power cut brought back would stand in the place of the one that is appended next."""
    stage = filled(seed, "delete")
    with stage.sim:
        assert stage.sim.run(stage.world.perform(stage.bench.store.truncate(stage.log, cut)))
        stage.sim.crash(NAME, power_loss=True)
        stage.sim.run(stage.restart)
        assert stage.log.log_end == cut
