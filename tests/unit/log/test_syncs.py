"""How far a log is durable: what a sync says that was begun before more was written, cut or refused."""

from __future__ import annotations

import errno
from collections.abc import Sequence

import pytest

from highwater.log.durability import Durability
from highwater.sim import Simulation
from highwater.world import Exhausted, File
from tests.unit.log.test_faults import DATA


class Written:
    """A file that grows, and the reports of its durability."""

    def __init__(self, sim: Simulation) -> None:
        self.sim = sim
        self.world = sim.world("a")
        self.storage = sim.storage("a")
        self.storage.provide(DATA)
        self.file = self.world.disk.open(DATA / "x.log", create=True)
        self.end = 0
        self.moved = 0
        self.failures: list[Exception] = []
        self.durability = Durability(self.world, DATA, 0, 0, self._unsynced, self._moved, self.failures.append)

    def _unsynced(self) -> tuple[int, Sequence[File]]:
        return self.end, [self.file]

    def _moved(self) -> None:
        self.moved += 1

    def write(self, end: int) -> None:
        self.file.append(bytes(end - self.end))
        self.end = end

    def flush(self) -> None:
        self.world.call(self.durability.flush)

    def settle(self) -> None:
        self.sim.run(self.sim.until(lambda: not self.durability.under_way))


def test_written_records_are_durable_once_synced_and_that_is_reported_once() -> None:
    with Simulation(1) as sim:
        written = Written(sim)
        written.flush()
        assert not written.durability.under_way, "there is nothing to sync"
        written.write(5)
        written.flush()
        assert (written.durability.under_way, written.durability.durable_end) == (True, 0)
        written.settle()
        assert (written.durability.durable_end, written.moved) == (5, 1)
        written.flush()
        assert not written.durability.under_way


def test_records_written_during_a_sync_wait_for_the_next_one() -> None:
    with Simulation(2) as sim:
        written = Written(sim)
        written.write(5)
        written.flush()
        written.write(9)
        written.flush()
        sim.run(sim.until(lambda: written.moved == 1))
        assert written.durability.durable_end == 5
        sim.run(sim.until(lambda: written.moved == 2))
        assert written.durability.durable_end == 9


def test_a_sync_that_was_begun_before_a_cut_says_nothing_and_another_follows() -> None:
    with Simulation(3) as sim:
        written = Written(sim)
        written.write(5)
        written.flush()
        written.world.call(written.durability.cut, 3)
        written.end = 4
        sim.run(sim.until(lambda: written.moved > 0))
        assert (written.durability.durable_end, written.moved) == (4, 1)


def test_a_cut_takes_back_what_was_durable_beyond_it_and_no_more() -> None:
    with Simulation(4) as sim:
        written = Written(sim)
        written.write(5)
        written.flush()
        written.settle()
        written.durability.cut(7)
        assert written.durability.durable_end == 5
        written.durability.cut(2)
        assert written.durability.durable_end == 2
        written.end = 2
        written.flush()
        assert not written.durability.under_way
        written.durability.settled(1)
        assert written.durability.durable_end == 2
        written.durability.settled(6)
        assert written.durability.durable_end == 6


def test_names_are_synced_with_the_directory_and_only_then_in_step() -> None:
    with Simulation(5) as sim:
        written = Written(sim)
        assert written.durability.directory_in_step
        written.durability.directory_changed = True
        assert not written.durability.directory_in_step
        written.flush()
        assert (written.durability.directory_changed, written.durability.directory_in_step) == (False, False)
        written.settle()
        assert written.durability.directory_in_step
        assert written.storage.durable_bytes(DATA / "x.log") == b""
        assert written.moved == 0


def test_a_sync_that_failed_is_final() -> None:
    with Simulation(6) as sim:
        written = Written(sim)
        written.storage.fail("sync", "*.log", errno.EIO)
        written.write(5)
        written.flush()
        written.flush()
        written.settle()
        assert [type(failed) for failed in written.failures] == [OSError]
        written.flush()
        assert (written.durability.under_way, written.durability.durable_end, written.moved) == (False, 0, 0)


@pytest.mark.parametrize("with_directory", [False, True])
def test_a_sync_that_no_descriptor_was_left_for_is_tried_until_it_is_done(
    with_directory: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with Simulation(7) as sim:
        written = Written(sim)
        written.durability.directory_changed = with_directory
        written.storage.fail("sync", "*.log", error=Exhausted(errno.EMFILE, "none left"), times=2)
        written.write(5)
        written.flush()
        sim.run(sim.until(lambda: written.moved > 0))
        assert (written.durability.durable_end, written.failures) == (5, [])
        assert written.durability.directory_in_step
        assert caplog.text.count("is not synced yet") == 1, "however often it is tried"


@pytest.mark.parametrize("fails", [False, True])
def test_a_stopped_durability_reports_nothing(fails: bool) -> None:
    with Simulation(8) as sim:
        written = Written(sim)
        if fails:
            written.storage.fail("sync", "*.log", errno.EIO)
        written.write(5)
        written.flush()
        written.durability.stop()
        written.settle()
        assert (written.moved, written.failures, written.durability.durable_end) == (0, [], 0)
        written.flush()
        assert not written.durability.under_way
