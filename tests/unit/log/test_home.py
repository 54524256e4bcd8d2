"""The directory of a node: whose it is, and who may open it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath

import pytest

from highwater.config import ConfigError, NodeConfig
from highwater.log import names
from highwater.log.checkpoint import replace_file
from highwater.log.home import Home, open_home
from highwater.log.meta_properties import MetaProperties
from highwater.model import NodeId, Uuid
from highwater.sim import Simulation
from highwater.world import AlreadyLocked
from highwater.world.jobs import finished
from tests.unit.log.bench import NODE

DATA = PurePath("/nowhere")
OURS = MetaProperties("cluster", NODE.node_id, Uuid(bytes(range(16))))


class Machine:
    def __init__(self, sim: Simulation) -> None:
        self.sim = sim
        self.world = sim.world("a")
        self.storage = sim.storage("a")

    def format(self, meta: MetaProperties) -> None:
        self.storage.provide(DATA)
        job = finished(self.world, replace_file, DATA / names.META_PROPERTIES, meta.encode())
        self.sim.run(self.world.perform(job))

    def open(self, config: NodeConfig = NODE) -> Home:
        return self.sim.run(self.world.perform(open_home(self.world, config)))


@pytest.fixture
def machine() -> Iterator[Machine]:
    with Simulation(1) as sim:
        yield Machine(sim)


def test_a_formatted_directory_has_its_ids_and_is_locked_until_it_is_released(machine: Machine) -> None:
    machine.format(OURS)
    home = machine.open()
    assert (home.directory, home.cluster_id, home.directory_id) == (DATA, "cluster", OURS.directory_id)
    with pytest.raises(AlreadyLocked):
        machine.open()
    machine.world.call(home.release)
    machine.open()


@pytest.mark.parametrize(
    ("meta", "why"),
    [
        (MetaProperties("cluster", NodeId(9), OURS.directory_id), "belongs to node 9, this is 1"),
        (MetaProperties("cluster", NODE.node_id), "directory.id was not found"),
    ],
)
def test_a_directory_that_is_not_the_nodes_own_is_refused_and_not_kept_locked(
    machine: Machine, meta: MetaProperties, why: str
) -> None:
    machine.format(meta)
    for _ in range(2):
        with pytest.raises(ConfigError, match=why):
            machine.open()


def test_a_directory_that_is_missing_or_not_formatted_is_refused(machine: Machine) -> None:
    with pytest.raises(ConfigError, match="/nowhere does not exist"):
        machine.open()
    machine.storage.provide(DATA)
    with pytest.raises(ConfigError, match="/nowhere is not formatted"):
        machine.open()


def test_one_directory_is_supported(machine: Machine) -> None:
    with pytest.raises(ConfigError, match="one directory"):
        machine.open(NodeConfig.parse({**NODE.static, "log.dirs": "/one,/two"}))
