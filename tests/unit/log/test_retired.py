"""Directories of logs that are deleted, or kept aside: when they are out of the way, and when they are gone."""

from __future__ import annotations

import errno
from pathlib import PurePath

import pytest

from highwater.log.retired import Retired
from highwater.model import TopicPartition, Uuid
from highwater.sim import Simulation, SimWorld

DATA = PurePath("/data")
TP = TopicPartition("orders", 0)
ID = Uuid(bytes(range(16)))


class Place:
    """A directory of a log, with a file in it, among those that are retired."""

    def __init__(self, sim: Simulation) -> None:
        self.sim = sim
        self.world: SimWorld = sim.world("a")
        self.storage = sim.storage("a")
        self.storage.provide(DATA)
        self.directory = DATA / str(TP)
        self.world.call(self.world.disk.mkdir, self.directory)
        self.world.call(self._fill)
        self.retired = Retired(self.world, DATA)

    def _fill(self) -> None:
        self.world.disk.open(self.directory / "0.log", create=True).close()

    @property
    def names(self) -> list[str]:
        return self.world.call(self.world.disk.list, DATA)


def test_a_deleted_log_is_out_of_the_way_at_once_and_gone_after_a_while() -> None:
    with Simulation(1) as sim:
        place = Place(sim)
        place.world.call(place.retired.delete, TP, place.directory, 10.0)
        (aside,) = place.names
        assert (aside.startswith("orders-0."), place.retired.pending) == (True, False)
        sim.advance(9.0)
        assert place.names == [aside]
        sim.advance(3.0)
        assert place.names == []


def test_a_directory_that_cannot_be_renamed_blocks_its_name_until_it_can(caplog: pytest.LogCaptureFixture) -> None:
    with Simulation(2) as sim:
        place = Place(sim)
        place.storage.fail("rename", "*/orders-0", errno.EIO, times=3)
        place.world.call(place.retired.delete, TP, place.directory, 1.0)
        assert (place.retired.is_in_the_way(TP), place.names) == (True, ["orders-0"])
        sim.run(sim.until(lambda: not place.retired.is_in_the_way(TP)))
        sim.advance(5.0)
        assert (place.names, place.retired.pending) == ([], False)
        assert caplog.text.count("could not be renamed yet") == 1, "however often it is tried"


def test_a_directory_that_was_removed_by_hand_does_not_block_its_name() -> None:
    with Simulation(3) as sim:
        place = Place(sim)
        place.storage.fail("rename", "*/orders-0", errno.EIO)
        place.world.call(place.retired.delete, TP, place.directory, 1.0)
        assert place.retired.is_in_the_way(TP)
        place.world.call(place.world.disk.unlink, place.directory / "0.log")
        place.world.call(place.world.disk.rmdir, place.directory)
        sim.run(sim.until(lambda: not place.retired.pending))


@pytest.mark.parametrize("renamed_first", [True, False])
def test_a_directory_put_aside_stays_until_it_is_released(renamed_first: bool) -> None:
    with Simulation(4) as sim:
        place = Place(sim)
        if not renamed_first:
            place.storage.fail("rename", "*/orders-0", errno.EIO, times=None)
        place.world.call(place.retired.keep, TP, ID, place.directory, 7, 1.0)
        sim.advance(60.0)
        assert (place.retired.keeps(ID, 0), place.retired.kept(), len(place.names)) == (True, [(ID, 0)], 1)
        place.world.call(place.retired.let_go, ID, 0, 1.0)
        assert not place.retired.keeps(ID, 0)
        sim.advance(10.0)
        place.storage.mend()
        sim.advance(60.0)
        assert place.names == []


def test_a_directory_put_aside_with_more_records_than_the_new_copy_stays() -> None:
    with Simulation(5) as sim:
        place = Place(sim)
        place.world.call(place.retired.keep, TP, ID, place.directory, 7, 1.0)
        place.world.call(place.retired.let_go, ID, 0, 1.0, 6)
        sim.advance(5.0)
        assert (place.retired.keeps(ID, 0), len(place.names)) == (True, 1)
        place.world.call(place.retired.let_go, ID, 0, 1.0, 7)
        sim.advance(5.0)
        assert (place.retired.keeps(ID, 0), place.names) == (False, [])
