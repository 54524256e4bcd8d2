"""The simulated disk while its node lives: errors by rule, a full disk, cold reads, rounds of the group commit."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Generator, Iterator
from pathlib import PurePath

import pytest

from highwater.sim import Knobs, Simulation, SimWorld
from highwater.sim.disk import StaleHandle
from highwater.world import AlreadyLocked, Disk, Poisoned, Step
from highwater.world.jobs import finished
from tests.unit.world.contract import flushed

DATA = PurePath("/data")
LOG = DATA / "log"


@pytest.fixture
def sim() -> Iterator[Simulation]:
    with Simulation(1) as simulation:
        yield simulation


@pytest.fixture
def world(sim: Simulation) -> SimWorld:
    world = sim.world("a")
    sim.storage("a").provide(DATA)
    return world


def test_a_failed_append_leaves_nothing_and_the_next_one_succeeds(sim: Simulation, world: SimWorld) -> None:
    file = world.disk.open(LOG, create=True)
    file.append(b"kept")
    sim.storage("a").fail("append", "*/log", nth=2)
    file.append(b" too")
    with pytest.raises(OSError) as caught:
        file.append(b"x" * 10_000)
    assert caught.value.errno == errno.EIO
    assert (file.size, file.append(b"!")) == (8, 8)
    assert file.read_cached(0, 100) == b"kept too!"


def test_where_the_trim_fails_too_the_file_is_poisoned_for_good(sim: Simulation, world: SimWorld) -> None:
    file = world.disk.open(LOG, create=True)
    sim.storage("a").fail("append")
    sim.storage("a").fail("trim")
    for _ in range(3):
        with pytest.raises(Poisoned):
            file.append(b"x" * 10_000)
    assert file.size == 0
    stat = world.disk.stat(LOG)
    assert stat is not None and stat.size > 0, "a part of the bytes stayed"


def test_an_append_by_a_handle_that_missed_another_ones_write_is_an_error(sim: Simulation, world: SimWorld) -> None:
    def writes_too(disk: Disk) -> Generator[Step, None, None]:
        disk.open(LOG).append(b"from a job")
        yield Step()

    file = world.disk.open(LOG, create=True)
    sim.run(finished(world, writes_too))
    with pytest.raises(StaleHandle):
        file.append(b"from the loop")


def test_rules_fit_operation_path_and_number(sim: Simulation, world: SimWorld) -> None:
    storage = sim.storage("a")
    storage.fail("create", "*/b")
    world.disk.open(DATA / "a", create=True)
    with pytest.raises(OSError):
        world.disk.open(DATA / "b", create=True)
    world.disk.open(DATA / "b", create=True)
    fault = storage.fail("rename", code=errno.EROFS, times=2)
    for _ in range(2):
        with pytest.raises(OSError, match="Read-only"):
            world.disk.rename(DATA / "a", DATA / "c")
    world.disk.rename(DATA / "a", DATA / "c")
    assert fault.struck == 2
    forever = storage.fail("unlink", times=None)
    for _ in range(3):
        with pytest.raises(OSError):
            world.disk.unlink(DATA / "c")
    storage.mend()
    world.disk.unlink(DATA / "c")
    assert forever.struck == 3


@pytest.mark.parametrize("operation", ["read", "sync", "truncate", "sync_dir", "mkdir", "rmdir"])
def test_every_operation_can_fail(sim: Simulation, world: SimWorld, operation: str) -> None:
    file = world.disk.open(LOG, create=True)
    uses: dict[str, Callable[[], object]] = {
        "read": lambda: file.read(0, 1),
        "sync": file.sync,
        "truncate": lambda: file.truncate(0),
        "sync_dir": lambda: world.disk.sync_dir(DATA),
        "mkdir": lambda: world.disk.mkdir(DATA / "x"),
        "rmdir": lambda: world.disk.rmdir(DATA / "x"),
    }
    if operation == "rmdir":
        world.disk.mkdir(DATA / "x")
    sim.storage("a").fail(operation)  # type: ignore[arg-type]
    with pytest.raises(OSError):
        uses[operation]()
    uses[operation]()


def test_a_full_disk_refuses_and_takes_again_once_there_is_room(sim: Simulation, world: SimWorld) -> None:
    sim.storage("a").capacity = 100
    old, file = world.disk.open(DATA / "old", create=True), world.disk.open(LOG, create=True)
    old.append(b"x" * 60)
    file.append(b"y" * 30)
    with pytest.raises(OSError) as caught:
        file.append(b"z" * 20)
    assert caught.value.errno == errno.ENOSPC
    assert (file.size, file.read_cached(0, 100)) == (30, b"y" * 30)
    file.append(b"z" * 10)
    world.disk.unlink(DATA / "old")
    assert file.append(b"z" * 20) == 40
    file.truncate(0)
    assert file.append(b"z" * 100) == 0
    with pytest.raises(OSError):
        file.append(b"z")


def test_a_lock_is_held_by_one_life_of_the_node(sim: Simulation, world: SimWorld) -> None:
    release = world.disk.lock(DATA / ".lock")
    with pytest.raises(AlreadyLocked):
        world.disk.lock(DATA / ".lock")
    release()
    world.disk.lock(DATA / ".lock")
    again = sim.restart("a")
    again.disk.lock(DATA / ".lock")


def test_bytes_not_written_lately_may_be_cold(sim: Simulation) -> None:
    with Simulation(1, Knobs(cold_read=0.5, warm_tail=100)) as sim:
        world = sim.world("a")
        sim.storage("a").provide(DATA)
        file = world.disk.open(LOG, create=True)
        file.append(b"x" * 1000)
        assert all(file.read_cached(900, 100) is not None for _ in range(50))
        answers = [file.read_cached(0, 10) for _ in range(50)]
        assert 10 < answers.count(None) < 40
        assert all(answer in (None, b"x" * 10) for answer in answers)
        again = sim.restart("a").disk.open(LOG)
        assert None in [again.read_cached(900, 100) for _ in range(50)], "nothing was written by this life"


def test_a_round_takes_time_and_calls_made_meanwhile_share_the_next(sim: Simulation, world: SimWorld) -> None:
    async def scenario() -> None:
        files = [world.disk.open(DATA / name, create=True) for name in "abc"]
        for file in files:
            file.append(b"x")
        answered: list[tuple[str, float]] = []
        world.disk.flush([files[0]], lambda _: answered.append(("a", sim.now)))
        await asyncio.sleep(0.0001)
        for name, file in (("b", files[1]), ("c", files[2]), ("again a", files[0])):
            world.disk.flush([file], lambda _, name=name: answered.append((name, sim.now)))  # type: ignore[misc]
        await sim.until(lambda: len(answered) == 4)
        times = dict(answered)
        assert 0 < times["a"] < times["b"] == times["c"] == times["again a"]
        assert sim.trace.counts["a", "flushed"] == 2
        assert sim.trace.counts["a", "sync"] == 4

    sim.run(scenario())


def test_rounds_do_not_overlap() -> None:
    with Simulation(1, Knobs(flush_round=(0.01, 0.01))) as sim:
        world = sim.world("a")
        sim.storage("a").provide(DATA)
        file = world.disk.open(LOG, create=True)
        answered: list[float] = []
        for at in (0.0, 0.005, 0.015):
            sim.at(at, world.disk.flush, [file], lambda _: answered.append(sim.now))
        sim.advance(1)
        assert answered == pytest.approx([0.01, 0.02, 0.03])


def test_a_round_reports_the_error_to_the_callers_for_that_file(sim: Simulation, world: SimWorld) -> None:
    async def scenario() -> None:
        good, bad = world.disk.open(DATA / "good", create=True), world.disk.open(DATA / "bad", create=True)
        sim.storage("a").fail("sync", "*/bad")
        answers = await asyncio.gather(flushed(world, good), flushed(world, bad), flushed(world, good, bad))
        assert [getattr(answer, "errno", None) for answer in answers] == [None, errno.EIO, errno.EIO]

    sim.run(scenario())


def test_one_fault_is_mended_and_the_others_stay(sim: Simulation, world: SimWorld) -> None:
    storage = sim.storage("a")
    first = storage.fail("append", "*/log", times=None)
    storage.fail("append", "*/other", times=None)
    storage.mend(first)
    world.disk.open(LOG, create=True).append(b"kept")
    with pytest.raises(OSError):
        world.disk.open(DATA / "other", create=True).append(b"lost")
    assert [(strike.operation, strike.path.name, strike.code) for strike in storage.struck] == [
        ("append", "other", errno.EIO)
    ]


def test_damage_is_known_until_the_bytes_are_cut_off(sim: Simulation, world: SimWorld) -> None:
    file = world.disk.open(LOG, create=True)
    file.append(b"written")
    sim.storage("a").damage(LOG, 3, b"X")
    assert (sim.storage("a").damaged(), file.read_cached(0, 10)) == ([LOG], b"wriXten")
    file.truncate(4)
    assert sim.storage("a").damaged() == [LOG]
    file.truncate(3)
    assert sim.storage("a").damaged() == []


def test_pages_that_a_sync_failed_to_write_are_gone_for_the_next_process(sim: Simulation, world: SimWorld) -> None:
    """They count as clean, so that the kernel drops them when it likes, and reads again what is on the disk."""
    file = world.disk.open(LOG, create=True)
    file.append(b"synced")
    assert sim.run(flushed(world, file)) is None
    file.append(b" never")
    sim.storage("a").fail("sync", "*/log")
    assert sim.run(flushed(world, file)) is not None
    assert file.read_cached(0, 100) == b"synced never"
    again = sim.restart("a")
    assert len(bytes(again.disk.open(LOG).read_cached(0, 100) or b"")) <= len(b"synced never")
    node = sim.storage("a").file(LOG)
    assert node.durable_bytes() == bytes(node.data) and not node.lost_pages


def test_a_slow_disk_takes_as_many_times_as_long(sim: Simulation, world: SimWorld) -> None:
    file = world.disk.open(LOG, create=True)

    def seconds_of_a_sync() -> float:
        file.append(b"x")
        begun = sim.now
        sim.run(flushed(world, file))
        return sim.now - begun

    usual = max(seconds_of_a_sync() for _ in range(20))
    sim.storage("a").drag = 1000.0
    assert min(seconds_of_a_sync() for _ in range(20)) > 10 * usual


def test_an_empty_disk_has_nothing_of_the_one_before(sim: Simulation, world: SimWorld) -> None:
    world.disk.open(LOG, create=True).append(b"x" * 100)
    sim.crash("a")
    sim.storage("a").wipe()
    sim.storage("a").provide(DATA)
    assert (sim.restart("a").disk.list(DATA), sim.storage("a").used) == ([], 0)
