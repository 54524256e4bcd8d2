"""A toy service in the simulated world: an echo that logs to disk and syncs before it answers, under faults."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from functools import cache
from pathlib import PurePath

from highwater.model import Endpoint
from highwater.sim import Knobs, Simulation, SimWorld
from highwater.world import ConnectionRefused, Dead, Disk, Step, Unreachable
from tests.unit.world.contract_ends import End

DATA = PurePath("/data")
PORT = 7
LINE = 16


class LoggingEcho(End):
    def __init__(self, world: SimWorld) -> None:
        super().__init__()
        self._world = world

    def buffer_updated(self, nbytes: int) -> None:
        super().buffer_updated(nbytes)
        data = bytes(self._buffer[:nbytes])
        file = self._world.disk.open(DATA / "log", create=True)
        file.append(data)
        self._world.disk.flush([file], lambda error: self._answer(data, error))

    def _answer(self, data: bytes, error: OSError | None) -> None:
        if error is None and not self.transport.is_closing():
            self.transport.write(data)


def checkpoint(disk: Disk, size: int) -> Generator[Step, None, int]:
    file = disk.open(DATA / "checkpoint.tmp", create=True)
    file.truncate(0)
    file.append(str(size).encode())
    yield Step("written")
    file.sync()
    yield Step("synced")
    disk.rename(DATA / "checkpoint.tmp", DATA / "checkpoint")
    disk.sync_dir(DATA)
    return size


async def serve(world: SimWorld) -> None:
    await world.net.listen(lambda: LoggingEcho(world), Endpoint(world.name, PORT))

    def again() -> None:
        stat = world.disk.stat(DATA / "log")
        if stat is not None:
            world.run(checkpoint, stat.size, done=lambda _: None)
        world.clock.call_later(0.05 + world.random("checkpoint").random() / 20, again)

    again()


async def chat(world: SimWorld, servers: list[str]) -> None:
    random = world.random("chat")
    for number in range(20):
        end = End()
        try:
            await world.net.dial(lambda end=end: end, Endpoint(random.choice(servers), PORT))  # type: ignore[misc]
            async with asyncio.timeout(2):
                for _ in range(random.randint(1, 5)):
                    end.transport.write(f"{world.name} {number}".ljust(LINE).encode())
                    await asyncio.sleep(random.random() / 100)
                await end.received(LINE)
        except (ConnectionRefused, Unreachable, TimeoutError):
            continue
        finally:
            if hasattr(end, "transport"):
                end.transport.close()


@cache
def run(seed: int) -> Simulation:
    """The same in every interpreter, if the simulation is what it promises to be."""
    servers = ["s1", "s2", "s3"]
    with Simulation(seed, Knobs(connect_timeout=1.0)) as sim:
        schedule = sim.world("schedule").random("faults")
        for name in servers:
            world = sim.world(name)
            sim.storage(name).provide(DATA)
            world.spawn("serve", serve(world))

        def strike() -> None:
            one, other = schedule.sample([*servers, "c1", "c2"], 2)
            match schedule.choice(["cut", "one way", "heal", "stall", "reset", "crash", "power"]):
                case "cut":
                    sim.cut(one, other)
                case "one way":
                    sim.cut(one, other, one_way=True)
                case "heal":
                    sim.heal()
                case "stall":
                    sim.stall(one, other, schedule.random())
                case "reset":
                    sim.reset(one, other)
                case kill:
                    name = schedule.choice(servers)
                    sim.crash(name, power_loss=kill == "power")
                    world = sim.restart(name)
                    world.spawn("serve", serve(world))

        async def scenario() -> None:
            clients = [sim.world(name) for name in ("c1", "c2")]
            for at in range(20):
                sim.at(0.1 + at / 20, strike)
            sim.at(1.2, sim.heal)
            async with asyncio.TaskGroup() as group:
                for client in clients:
                    group.create_task(client.perform(chat(client, servers)))

        try:
            sim.run(scenario())
        except Dead as error:
            raise AssertionError("only servers crash") from error
        return sim
