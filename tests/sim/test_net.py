"""The simulated network when all is well: pieces, back pressure, addresses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from highwater.model import Endpoint
from highwater.sim import Knobs, Simulation, SimWorld
from highwater.world import ConnectionRefused, Unreachable
from tests.unit.world.contract_ends import Echo, End

PORT = 9092


async def connect(
    sim: Simulation, client: SimWorld, server: SimWorld, far: Callable[[], End] = End, port: int = PORT
) -> tuple[End, End]:
    ends: list[End] = []

    def accept() -> End:
        ends.append(far())
        return ends[-1]

    await server.perform(server.net.listen(accept, Endpoint(server.name, port)))
    near = End()
    await client.perform(client.net.dial(lambda: near, Endpoint(server.name, port)))
    await sim.until(lambda: bool(ends) and "made" in ends[0].calls)
    return near, ends[0]


def test_a_write_arrives_in_several_pieces_and_several_writes_in_one() -> None:
    split = joined = 0
    for seed in range(30):
        with Simulation(seed) as sim:

            async def scenario(sim: Simulation = sim) -> list[int]:
                near, far = await connect(sim, sim.world("a"), sim.world("b"))
                for number in range(20):
                    near.transport.write(bytes([number]) * 100)
                await far.received(2000)
                assert far.got == b"".join(bytes([number]) * 100 for number in range(20))
                return far.pieces

            pieces = sim.run(scenario())
            split += sum(size % 100 != 0 for size in pieces)
            joined += sum(size > 100 for size in pieces)
    assert split > 50 and joined > 50


def test_a_small_buffer_of_the_protocol_is_filled_again_and_again() -> None:
    with Simulation(1, Knobs(tiny_segments=0.0)) as sim:

        async def scenario() -> None:
            near, far = await connect(sim, sim.world("a"), sim.world("b"), lambda: End(room=10))
            near.transport.write(bytes(range(95)))
            await far.received(95)
            assert far.got == bytes(range(95))
            assert max(far.pieces) <= 10

        sim.run(scenario())


def test_the_window_bounds_what_a_stopped_reader_costs_the_network() -> None:
    with Simulation(1, Knobs(window=1000)) as sim:

        async def scenario() -> None:
            near, far = await connect(sim, sim.world("a"), sim.world("b"))
            far.transport.pause_reading()
            near.transport.set_write_buffer_limits(high=5000, low=500)
            near.transport.write(b"x" * 6000)
            assert near.transport.get_write_buffer_size() == 5000
            assert "pause" not in near.calls
            near.transport.write(b"x")
            assert near.calls == ["made", "pause"]
            await sim.sleep(1)
            assert near.transport.get_write_buffer_size() == 5001
            assert far.got == b""
            far.transport.resume_reading()
            await far.received(6001)
            assert near.calls == ["made", "pause", "resume"]

        sim.run(scenario())


def test_an_error_in_a_protocol_closes_its_connection_and_is_reported() -> None:
    class Broken(End):
        def buffer_updated(self, nbytes: int) -> None:
            raise ValueError("cannot parse this")

    with Simulation(1) as sim:

        async def scenario() -> None:
            near, far = await connect(sim, sim.world("a"), sim.world("b"), Broken)
            near.transport.write(b"x")
            await near.called("lost")
            await far.called("lost")
            assert isinstance(far.error, OSError)

        with pytest.raises(AssertionError, match="b: protocol failed: ValueError"):
            sim.run(scenario())


def test_the_callbacks_of_a_connection_belong_to_its_node() -> None:
    with Simulation(1) as sim:

        async def scenario() -> None:
            near, far = await connect(sim, sim.world("a"), sim.world("b"), Echo)
            sim.pause("b")
            near.transport.write(b"hello")
            await sim.sleep(5)
            assert near.got == far.got == b""
            sim.resume("b")
            assert await near.received(5) == b"hello"

        sim.run(scenario())


def test_reading_paused_just_before_a_read_stops_it() -> None:
    with Simulation(1) as sim:

        async def scenario() -> None:
            near, far = await connect(sim, sim.world("a"), sim.world("b"))
            sim.pause("b")
            near.transport.write(b"hello")
            await sim.sleep(1)
            far.transport.pause_reading()
            sim.resume("b")
            await sim.sleep(1)
            assert far.got == b""
            far.transport.resume_reading()
            await far.received(5)

        sim.run(scenario())


def test_a_paused_node_still_has_its_connections_made() -> None:
    with Simulation(1) as sim:

        async def scenario() -> None:
            a, b = sim.world("a"), sim.world("b")
            await b.perform(b.net.listen(End, Endpoint("b", PORT)))
            sim.pause("b")
            await a.perform(a.net.dial(End, Endpoint("b", PORT)))

        sim.run(scenario())


def test_every_node_has_its_own_ports_and_shares_those_of_the_loopback() -> None:
    with Simulation(1) as sim:

        async def scenario() -> None:
            a, b = sim.world("a"), sim.world("b")
            await a.net.listen(End, Endpoint("a", PORT))
            await b.net.listen(End, Endpoint("b", PORT))
            await a.net.listen(End, Endpoint("127.0.0.1", PORT))
            with pytest.raises(OSError, match="in use"):
                await b.net.listen(End, Endpoint("localhost", PORT))
            free = await b.net.listen(End, Endpoint("127.0.0.1", 0))
            assert free.endpoint.port not in (0, PORT)
            near = End()
            await a.net.dial(lambda: near, free.endpoint)
            assert near.transport.get_extra_info("peername") == ("127.0.0.1", free.endpoint.port)
            with pytest.raises(Unreachable):
                await a.net.dial(End, Endpoint("no such host", PORT))

        sim.run(scenario())


def test_a_listener_on_all_addresses_is_found_under_each() -> None:
    with Simulation(1) as sim:

        async def scenario() -> None:
            worlds = [sim.world(name) for name in "ab"]
            reached: list[str] = []
            for world in worlds:
                await world.net.listen(
                    lambda world=world: reached.append(world.name) or End(),  # type: ignore[misc, func-returns-value]
                    Endpoint("0.0.0.0", PORT),
                )
            for host in ("a", "b", "localhost"):
                await worlds[1].net.dial(End, Endpoint(host, PORT))
            await sim.until(lambda: len(reached) == 3)
            assert reached == ["a", "b", "b"]

        sim.run(scenario())


def test_a_closed_listener_refuses_and_keeps_its_connections() -> None:
    with Simulation(1) as sim:

        async def scenario() -> None:
            a, b = sim.world("a"), sim.world("b")
            listener = await b.net.listen(Echo, Endpoint("b", PORT))
            near = End()
            await a.net.dial(lambda: near, Endpoint("b", PORT))
            listener.close()
            with pytest.raises(ConnectionRefused):
                await a.net.dial(End, Endpoint("b", PORT))
            near.transport.write(b"still there")
            await near.received(11)

        sim.run(scenario())


def test_a_dial_given_up_leaves_no_connection_behind() -> None:
    for seed in range(30):
        with Simulation(seed) as sim:
            far: list[End] = []

            async def scenario(sim: Simulation = sim, far: list[End] = far, seed: int = seed) -> None:
                a, b = sim.world("a"), sim.world("b")
                await b.net.listen(lambda: far.append(End()) or far[-1], Endpoint("b", PORT))  # type: ignore[func-returns-value]
                dialling = asyncio.create_task(a.net.dial(End, Endpoint("b", PORT)))
                await sim.sleep(0.0001 * seed)
                dialling.cancel()
                await asyncio.wait([dialling])
                await sim.sleep(1)
                if dialling.cancelled():
                    assert all(end.lost for end in far)
                else:
                    assert not far[0].lost

            sim.run(scenario())
