"""A node on a simulated machine: formatted once, then started, crashed and started again on the same disk."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from pathlib import PurePath

from highwater.config import NodeConfig
from highwater.node import Node
from highwater.sim.simulation import Simulation
from highwater.sim.world import SimWorld
from highwater.storage.format import Format, InitialVoter, format_directories
from highwater.world import Disk, Step
from highwater.world.jobs import finished


class HostedNode:
    """Runs the lives of one node. `gave_up` is called when a life ends by a crash or by the node's own failure."""

    def __init__(self, sim: Simulation, name: str, properties: Mapping[str, str]) -> None:
        self._sim = sim
        self.name = name
        self.config = NodeConfig.parse(properties)
        self.node: Node | None = None
        self.gave_up: BaseException | None = None
        """Why the node itself ended its last life."""
        self._to_format: str | None = None

    async def format(self, cluster_id: str, voters: Sequence[InitialVoter]) -> None:
        world = self._sim.world(self.name)
        self._sim.storage(self.name).provide(PurePath(self.config.log_dirs[0]))
        await self._format(world, cluster_id, voters)

    def begin_anew(self, cluster_id: str) -> None:
        """Replaces the disk by an empty one, which is formatted when the next life begins."""
        storage = self._sim.storage(self.name)
        storage.wipe()
        storage.provide(PurePath(self.config.log_dirs[0]))
        self._to_format = cluster_id

    async def _format(self, world: SimWorld, cluster_id: str, voters: Sequence[InitialVoter]) -> None:
        directory = PurePath(self.config.log_dirs[0])
        wanted = Format(
            cluster_id,
            self.config.node_id,
            [directory],
            PurePath(self.config.metadata_log_dir),
            self.config.controller_listener_names[0],
            voters,
        )

        def job(disk: Disk) -> Generator[Step, None, None]:
            yield Step()
            format_directories(disk, wanted, now_ms=world.clock.wall_ms(), random=world.random("format"))

        await world.perform(finished(world, job))

    async def start(self) -> None:
        """Begins a life. Returns when the node serves its clients. Raises Dead if it crashes before that."""
        world = self._sim.restart(self.name)
        self.gave_up = None
        if self._to_format is not None:
            await self._format(world, self._to_format, [])
            self._to_format = None
        self.node = None
        node = self.node = await world.perform(Node.open(world, self.config, lambda failed: self._end(world, failed)))
        self._world = world
        await world.perform(node.start())

    def _end(self, world: SimWorld, failed: BaseException) -> None:
        """Ends the process, as an exit does whose code nobody checks."""
        self.gave_up = failed
        world.crash()

    async def stop(self) -> None:
        """A controlled shutdown, and the end of the process."""
        assert self.node is not None
        await self._world.perform(self.node.stop())
        self._sim.crash(self.name, power_loss=False)
