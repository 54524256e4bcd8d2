"""A power cut at any step of a compaction: the log is the old one or the new one, and never a mixture."""

from __future__ import annotations

from collections import Counter

import pytest

from highwater.log import names
from highwater.sim.trace import Event
from tests.unit.log.compaction.stage import NAME, Stage, table_of

GROUPS = 2
ON_DISK = ("append", "truncate", "sync", "sync_dir", "rename", "unlink")


def story(seed: int) -> Stage:
    stage = Stage(seed, segment_bytes=400)

    async def begin() -> None:
        await stage.create()
        stage.write_some(14, 4)
        stage.log.roll()
        stage.write([(b"last", b"one")])
        stage.log.flush()
        await stage.sim.until(lambda: stage.log.durable_end == stage.log.log_end)
        await stage.sim.sleep(1)

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
def test_a_crash_at_any_step_leaves_the_same_values(group: int, power_loss: bool) -> None:
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
