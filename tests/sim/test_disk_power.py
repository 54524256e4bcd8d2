"""The simulated disk after a crash: what was synced is there, what was not may be there in any torn shape."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import PurePath

import pytest

from highwater.sim import Knobs, Simulation, SimWorld, matching
from highwater.sim.inode import PAGE
from highwater.sim.trace import Phase
from highwater.world import Dead
from tests.unit.world.contract import flushed

DATA = PurePath("/data")
LOG = DATA / "log"


def begin(seed: int, knobs: Knobs | None = None) -> tuple[Simulation, SimWorld]:
    sim = Simulation(seed, knobs)
    world = sim.world("a")
    sim.storage("a").provide(DATA)
    return sim, world


def content(sim: Simulation, path: PurePath = LOG) -> bytes | None:
    """What a new life of the node finds."""
    world = sim.restart("a")
    stat = world.disk.stat(path)
    return None if stat is None else bytes(world.disk.open(path).read(0, stat.size))


def test_a_killed_process_leaves_every_byte_and_name() -> None:
    for seed in range(20):
        sim, world = begin(seed)
        with sim:
            world.disk.open(LOG, create=True).append(b"never synced")
            world.disk.open(DATA / "x", create=True)
            world.disk.rename(DATA / "x", DATA / "y")
            sim.crash("a", power_loss=False)
            assert content(sim) == b"never synced"
            assert sim.restart("a").disk.list(DATA) == ["log", "y"]


def test_a_power_cut_keeps_what_was_synced_and_any_part_of_the_rest() -> None:
    synced, written = b"s" * 5000, bytes(range(1, 256)) * 100
    kinds: Counter[str] = Counter()
    for seed in range(300):
        sim, world = begin(seed)
        with sim:
            file = world.disk.open(LOG, create=True)
            file.append(synced)
            file.sync()
            world.disk.sync_dir(DATA)
            assert sim.storage("a").durable_bytes(LOG) == synced
            file.append(written)
            sim.crash("a")
            left = content(sim)
        assert left is not None and left.startswith(synced)
        tail = left[len(synced) :]
        assert len(tail) <= len(written)
        assert all(byte in (0, written[at]) for at, byte in enumerate(tail)), "no byte from nowhere"
        kinds[kind_of(tail, written)] += 1
    assert set(kinds) == {"nothing", "all", "prefix", "zeros at the end", "hole"}
    assert min(kinds.values()) >= 10


def kind_of(tail: bytes, written: bytes) -> str:
    if not tail:
        return "nothing"
    if tail == written:
        return "all"
    if written.startswith(tail):
        return "prefix"
    return "zeros at the end" if written.startswith(tail.rstrip(b"\0")) else "hole"


def test_holes_lie_on_pages_and_pages_are_torn() -> None:
    whole = torn = 0
    for seed in range(200):
        sim, world = begin(seed)
        with sim:
            file = world.disk.open(LOG, create=True)
            file.append(b"s" * 1000)
            file.sync()
            world.disk.sync_dir(DATA)
            file.append(b"x" * 10 * PAGE)
            sim.crash("a")
            left = content(sim) or b""
        for start in range(PAGE, len(left) - PAGE, PAGE):
            page = left[start : start + PAGE]
            assert page == page.rstrip(b"\0") + bytes(PAGE - len(page.rstrip(b"\0"))), "torn at one place"
            whole += not page.strip(b"\0")
            torn += 0 < len(page.rstrip(b"\0")) < PAGE
    assert whole > 10 and torn > 10


def test_a_truncation_not_synced_may_be_undone_and_never_mixes_old_and_new() -> None:
    seen = set()
    for seed in range(200):
        sim, world = begin(seed)
        with sim:
            file = world.disk.open(LOG, create=True)
            file.append(b"old " * 10)
            file.sync()
            world.disk.sync_dir(DATA)
            file.truncate(20)
            file.append(b"new!" * 3)
            sim.crash("a")
            left = content(sim)
        assert left is not None and left.startswith(b"old " * 5)
        if len(left) > 32:
            assert left == b"old " * 10
        else:
            assert (b"new!" * 3).startswith(left[20:].rstrip(b"\0"))
        seen.add(left)
    assert {b"old " * 10, b"old " * 5, b"old " * 5 + b"new!" * 3} <= seen and len(seen) > 5


def test_a_name_not_synced_may_vanish_and_a_synced_one_does_not() -> None:
    seen = set()
    for seed in range(40):
        sim, world = begin(seed)
        with sim:
            world.disk.open(DATA / "synced", create=True)
            world.disk.sync_dir(DATA)
            for name in ("x", "y"):
                file = world.disk.open(DATA / name, create=True)
                file.append(b"synced bytes under a name that is not")
                file.sync()
            sim.crash("a")
            names = sim.restart("a").disk.list(DATA)
        assert "synced" in names
        seen.add(tuple(names))
    assert len(seen) == 4


def test_with_the_knob_a_sync_keeps_the_name_too() -> None:
    for seed in range(20):
        sim, world = begin(seed, Knobs(sync_keeps_entry=True))
        with sim:
            world.disk.mkdir(DATA / "t-0")
            file = world.disk.open(DATA / "t-0" / "log", create=True)
            file.append(b"x")
            file.sync()
            sim.crash("a")
            assert content(sim, DATA / "t-0" / "log") == b"x"


def test_a_new_directory_not_synced_takes_everything_in_it_along() -> None:
    seen = set()
    for seed in range(30):
        sim, world = begin(seed)
        with sim:
            world.disk.mkdir(DATA / "t-0")
            file = world.disk.open(DATA / "t-0" / "log", create=True)
            file.append(b"x")
            file.sync()
            world.disk.sync_dir(DATA / "t-0")
            sim.crash("a")
            seen.add(content(sim, DATA / "t-0" / "log"))
    assert seen == {None, b"x"}


def replaced_checkpoint(seed: int, sync_file: bool, sync_directory: bool) -> bytes | None:
    sim, world = begin(seed)
    with sim:
        checkpoint, temporary = DATA / "checkpoint", DATA / "checkpoint.tmp"
        for text in (b"old", b"new"):
            file = world.disk.open(temporary, create=True)
            file.append(text)
            if sync_file or text == b"old":
                file.sync()
            world.disk.rename(temporary, checkpoint)
            if sync_directory or text == b"old":
                world.disk.sync_dir(DATA)
        sim.crash("a")
        return content(sim, checkpoint)


def test_a_file_replaced_by_rename_is_old_or_new_and_new_once_the_directory_is_synced() -> None:
    seeds = range(60)
    assert {replaced_checkpoint(seed, sync_file=True, sync_directory=False) for seed in seeds} == {b"old", b"new"}
    assert {replaced_checkpoint(seed, sync_file=True, sync_directory=True) for seed in seeds} == {b"new"}


def test_a_rename_before_the_sync_of_its_bytes_can_leave_an_empty_file() -> None:
    seen = {replaced_checkpoint(seed, sync_file=False, sync_directory=True) for seed in range(60)}
    assert {b"", b"new"} <= seen and b"old" not in seen


@pytest.mark.parametrize(("phase", "left"), [("before", b"old"), ("after", b"new")])
def test_a_crash_can_be_placed_at_the_rename_of_a_checkpoint(phase: Phase, left: bytes) -> None:
    sim, world = begin(1)
    with sim:
        world.disk.open(DATA / "checkpoint", create=True).append(b"old")
        world.disk.open(DATA / "x", create=True)
        world.disk.open(DATA / "checkpoint.tmp", create=True).append(b"new")
        point = sim.crash_at("a", matching("rename", "*checkpoint*"), phase=phase, power_loss=False)
        world.disk.rename(DATA / "x", DATA / "y")
        with pytest.raises(Dead):
            world.disk.rename(DATA / "checkpoint.tmp", DATA / "checkpoint")
        assert point.hit is not None and point.hit.subject == "/data/checkpoint.tmp -> /data/checkpoint"
        assert content(sim, DATA / "checkpoint") == left


def test_an_unlinked_file_may_come_back_unless_the_directory_was_synced() -> None:
    seen = set()
    for seed in range(30):
        for synced in (False, True):
            sim, world = begin(seed)
            with sim:
                world.disk.open(LOG, create=True)
                world.disk.sync_dir(DATA)
                world.disk.unlink(LOG)
                if synced:
                    world.disk.sync_dir(DATA)
                sim.crash("a")
                seen.add((synced, content(sim)))
    assert seen == {(False, None), (False, b""), (True, None)}


def test_a_lying_sync_keeps_nothing() -> None:
    lost = 0
    for seed in range(40):
        sim, world = begin(seed)
        with sim:
            file = world.disk.open(LOG, create=True)
            world.disk.sync_dir(DATA)
            sim.storage("a").lie("*/log")
            file.append(b"x" * 100)
            file.sync()
            sim.crash("a")
            lost += content(sim) != b"x" * 100
    assert lost > 20


def test_after_a_failed_sync_a_later_success_means_nothing() -> None:
    lost = 0
    for seed in range(40):
        sim, world = begin(seed)
        with sim:
            file = world.disk.open(LOG, create=True)
            world.disk.sync_dir(DATA)
            sim.storage("a").fail("sync", "*/log")
            file.append(b"x" * 100)
            with pytest.raises(OSError):
                file.sync()
            file.sync()
            sim.crash("a")
            lost += content(sim) != b"x" * 100
    assert lost > 20


def test_after_a_failed_sync_a_file_that_is_emptied_and_written_anew_can_be_synced() -> None:
    """The pages that were lost are gone, and those written since are dirty."""
    for seed in range(20):
        sim, world = begin(seed)
        with sim:
            file = world.disk.open(LOG, create=True)
            world.disk.sync_dir(DATA)
            sim.storage("a").fail("sync", "*/log")
            file.append(b"x" * 100)
            with pytest.raises(OSError):
                file.sync()
            file.truncate(0)
            file.append(b"y" * 50)
            file.sync()
            sim.crash("a")
            assert content(sim) == b"y" * 50


def test_a_round_of_the_group_commit_covers_what_was_written_before_it() -> None:
    for seed in range(20):
        sim, world = begin(seed)
        with sim:
            file = world.disk.open(LOG, create=True)
            world.disk.sync_dir(DATA)

            async def scenario(sim: Simulation = sim, world: SimWorld = world) -> None:
                file = world.disk.open(LOG)
                file.append(b"before")
                answer = asyncio.ensure_future(flushed(world, file))
                await asyncio.sleep(0.0001)
                file.append(b"during")
                assert await answer is None
                assert sim.storage("a").durable_bytes(LOG) == b"before"

            sim.run(scenario())
            sim.crash("a")
            left = content(sim)
            assert left is not None and left.startswith(b"before")
            del file


def test_a_truncation_during_a_round_does_not_confuse_it() -> None:
    sim, world = begin(1)
    with sim:

        async def scenario() -> None:
            file = world.disk.open(LOG, create=True)
            world.disk.sync_dir(DATA)
            file.append(b"0123456789")
            answer = asyncio.ensure_future(flushed(world, file))
            await asyncio.sleep(0.0001)
            file.truncate(4)
            file.append(b"new bytes")
            assert await answer is None
            assert sim.storage("a").durable_bytes(LOG) == b"0123456789", "as it was when the round began"

        sim.run(scenario())


def test_a_crash_during_a_round_keeps_an_arbitrary_part_and_answers_no_request() -> None:
    seen = set()
    for seed in range(60):
        sim, world = begin(seed)
        with sim:
            files = [world.disk.open(DATA / name, create=True) for name in "ab"]
            world.disk.sync_dir(DATA)
            answers: list[object] = []
            for file in files:
                file.append(b"x" * 100)
            sim.crash_at("a", matching("sync", "*/b"))
            world.disk.flush(files, answers.append)
            sim.advance(1)
            assert answers == [] and not sim.is_alive("a")
            again = sim.restart("a")
            assert again.disk.open(DATA / "a").size == 100, "synced before the crash"
            seen.add(again.disk.open(DATA / "b").size)
    assert len(seen) > 5


def test_the_power_cut_after_a_kill_takes_what_the_kernel_still_held() -> None:
    seen = set()
    for seed in range(30):
        sim, world = begin(seed)
        with sim:
            file = world.disk.open(LOG, create=True)
            world.disk.sync_dir(DATA)
            file.append(b"x" * 100)
            sim.crash("a", power_loss=False)
            sim.crash("a", power_loss=True)
            seen.add(content(sim))
    assert len(seen) > 5


def test_a_check_finds_rotten_bytes() -> None:
    sim, world = begin(1)
    with sim:
        world.disk.open(LOG, create=True).append(b"0123456789")
        sim.storage("a").damage(LOG, 3, b"\xff")
        assert world.disk.open(LOG).read_cached(0, 10) == b"012\xff456789"
