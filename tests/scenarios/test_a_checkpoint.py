"""Scenario A14: the epochs' file, rewritten while the power goes."""

from __future__ import annotations

from itertools import count
from pathlib import PurePath

from highwater.log.checkpoint import encode_epochs
from highwater.sim import Event
from highwater.sim.simulation import Simulation
from highwater.sim.trace import Phase
from tests.unit.log.bench import Bench, all_records, append, batch, settings

NODE = "n1"
DIRECTORY = PurePath("/data")
FILE = DIRECTORY / "orders-0" / "leader-epoch-checkpoint"
WITH_RECORDS = [(0, 0), (3, 1)]
OLD, NEW = [*WITH_RECORDS, (5, 2)], [*WITH_RECORDS, (7, 2)]
"""The last epoch of each has no record yet: no scan of the log could find it again."""


def rewrites_epochs(event: Event) -> bool:
    return FILE.name in event.subject or (event.kind, event.subject) == ("sync_dir", str(FILE.parent))


def file_after(seed: int, phase: Phase, nth: int) -> bytes | None:
    """The file after a power cut at this step of its rewriting; None if it has not so many steps."""
    with Simulation(seed) as sim:
        world = sim.world(NODE)
        sim.storage(NODE).provide(DIRECTORY)
        bench = Bench(world, DIRECTORY, settings(flush_messages=1))

        async def write_old() -> None:
            log = await bench.create()
            append(log, batch((b"a",)), 0)
            append(log, batch((b"b",)), 3)
            log.assign_epoch(*OLD[-1])

        sim.run(world.perform(write_old()))
        sim.loop.run_until(lambda: bench.log.epoch_file.in_step and bench.log.durable_end == 2)
        assert bench.log.epoch_cache.entries == OLD
        point = sim.crash_at(NODE, rewrites_epochs, nth, phase)
        world.call(bench.log.assign_epoch, *NEW[-1])
        sim.loop.run_until(lambda: point.hit is not None or bench.log.epoch_file.in_step)
        if point.hit is None:
            return None
        left = bytes(sim.storage(NODE).file(FILE).data)
        assert left in (encode_epochs(OLD), encode_epochs(NEW)), f"{phase} {point.hit.kind}: {left!r}"
        world = sim.restart(NODE)
        bench = Bench(world, DIRECTORY, settings(flush_messages=1))

        async def reopen() -> list[tuple[int, bytes]]:
            await bench.store.open()
            return await all_records(world, bench.log)

        assert sim.run(world.perform(reopen())) == [(0, b"a"), (1, b"b")]
        assert bench.log.epoch_cache.entries == WITH_RECORDS
        return left


def test_a14_a_power_cut_while_epochs_are_rewritten_leaves_the_old_ones_or_the_new() -> None:
    """KAFKA-16541, 15046. Before, in the midst of and after every operation on the file and its directory, with
    several fates of what was not synced: the file is the one of before or of after, byte for byte, and the log opens
    with it."""
    phases: tuple[Phase, ...] = ("before", "during", "after")
    found: list[bytes] = []
    for phase in phases:
        for nth in count(1):
            files = [file_after(seed, phase, nth) for seed in range(8)]
            if files[0] is None:
                break
            found += [each for each in files if each is not None]
    assert set(found) == {encode_epochs(OLD), encode_epochs(NEW)}
    assert len(found) > 80
