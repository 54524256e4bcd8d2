"""A power cut at each step of a cut: what is found then is what lay before some offset, and nothing behind a hole."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from highwater.wire import records
from tests.unit.log.compaction.stage import NAME, Stage

ON_DISK = ("append", "truncate", "sync", "sync_dir", "rename", "unlink", "create", "open")
RECORDS = 12
Cut = Callable[[Stage], Coroutine[Any, Any, bool]]


def filled(seed: int, policy: str) -> Stage:
    """All of it is synced, and the checkpoints say so."""
    stage = Stage(seed, segment_bytes=400, cleanup_policy=(policy,))

    async def play() -> None:
        log = await stage.create()
        for number in range(RECORDS):
            stage.write([(b"k%d" % number, b"v" * 60)])
        if policy == "compact":
            await stage.clean()
            assert log.clean_end == log.active.base_offset
        log.flush()
        await stage.sim.until(lambda: log.durable_end == log.log_end)
        await stage.bench.store.recovery_points.written(patient=True)
        await stage.bench.store.clean_ends.written(patient=True)
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
