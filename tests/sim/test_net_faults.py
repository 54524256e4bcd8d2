"""The simulated network under faults: nothing is lost or reordered in a stream, and death looks as it does in TCP."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from highwater.model import Endpoint
from highwater.sim import Knobs, Simulation
from highwater.world import ConnectionRefused, Dead, Unreachable
from tests.sim.test_net import PORT, connect
from tests.unit.world.contract_ends import Echo, End


def test_a_cut_holds_bytes_both_ways_until_it_heals() -> None:
    with Simulation(1) as sim:

        async def scenario() -> None:
            near, far = await connect(sim, sim.world("a"), sim.world("b"))
            sim.cut("a", "b")
            near.transport.write(b"to b")
            far.transport.write(b"to a")
            await sim.sleep(60)
            assert near.got == far.got == b""
            sim.heal("a", "b")
            await asyncio.gather(near.received(4), far.received(4))
            assert near.got == b"to a" and far.got == b"to b"
            assert not near.lost and not far.lost

        sim.run(scenario())


def test_a_one_way_cut_holds_one_direction_alone() -> None:
    with Simulation(1, Knobs(window=100)) as sim:

        async def scenario() -> None:
            near, far = await connect(sim, sim.world("a"), sim.world("b"))
            sim.cut("a", "b", one_way=True)
            near.transport.write(b"to b")
            far.transport.write(b"x" * 100)
            await near.received(100)
            far.transport.write(b"x" * 200)
            await sim.sleep(60)
            assert far.got == b""
            assert len(near.got) == 100, "without acknowledgements no more than the window passes"
            sim.heal()
            await asyncio.gather(near.received(300), far.received(4))

        sim.run(scenario())


def test_a_cut_touches_no_other_pair() -> None:
    with Simulation(1) as sim:

        async def scenario() -> None:
            a, b, c = sim.world("a"), sim.world("b"), sim.world("c")
            near, _ = await connect(sim, a, c, Echo)
            sim.cut("a", "b")
            sim.cut("b", "c")
            near.transport.write(b"hello")
            await near.received(5)
            with pytest.raises(Unreachable):
                await b.net.dial(End, Endpoint("c", PORT))

        sim.run(scenario())


def test_a_dial_over_a_cut_waits_and_is_unreachable_in_the_end() -> None:
    with Simulation(1, Knobs(connect_timeout=10)) as sim:

        async def scenario() -> None:
            a, b = sim.world("a"), sim.world("b")
            await b.net.listen(End, Endpoint("b", PORT))
            for one_way in (("a", "b"), ("b", "a")):
                sim.cut(*one_way, one_way=True)
                begun = sim.now
                with pytest.raises(Unreachable):
                    await a.net.dial(End, Endpoint("b", PORT))
                assert sim.now - begun == pytest.approx(10)
                sim.heal()
            sim.cut("a", "b")
            sim.at(sim.now + 2, sim.heal)
            await a.net.dial(End, Endpoint("b", PORT))

        sim.run(scenario())


def test_bytes_unacknowledged_for_too_long_end_the_connection_for_their_sender_alone() -> None:
    with Simulation(1, Knobs(retransmit_timeout=30)) as sim:

        async def scenario() -> None:
            near, far = await connect(sim, sim.world("a"), sim.world("b"))
            sim.cut("a", "b")
            near.transport.write(b"x")
            await near.called("lost")
            assert isinstance(near.error, TimeoutError)
            assert sim.now == pytest.approx(30, abs=0.1)
            await sim.sleep(100)
            assert not far.lost, "half open: its kernel heard nothing"
            sim.heal()
            far.transport.write(b"anybody there?")
            await far.called("lost")
            assert isinstance(far.error, ConnectionResetError)

        sim.run(scenario())


def test_a_reset_breaks_both_ends_at_once() -> None:
    with Simulation(1) as sim:

        async def scenario() -> None:
            a, b, c = sim.world("a"), sim.world("b"), sim.world("c")
            near, far = await connect(sim, a, b)
            other, _ = await connect(sim, a, c)
            sim.reset("b", "a")
            await near.called("lost")
            await far.called("lost")
            assert isinstance(near.error, ConnectionResetError) and isinstance(far.error, ConnectionResetError)
            assert not other.lost

        sim.run(scenario())


def test_a_stall_delays_and_a_slow_link_is_slow() -> None:
    with Simulation(1) as sim:

        async def scenario() -> None:
            near, far = await connect(sim, sim.world("a"), sim.world("b"))
            sim.stall("a", "b", 3.0)
            begun = sim.now
            near.transport.write(b"1")
            await far.received(1)
            assert 3.0 < sim.now - begun < 3.01
            sim.slow("a", "b", (0.2, 0.3))
            begun = sim.now
            near.transport.write(b"2")
            await far.received(2)
            assert 0.2 <= sim.now - begun <= 0.3
            sim.heal()
            begun = sim.now
            near.transport.write(b"3")
            await far.received(3)
            assert sim.now - begun < 0.01

        sim.run(scenario())


def test_bytes_under_way_when_a_stall_begins_are_stalled_too() -> None:
    with Simulation(1, Knobs(link_delay=(0.1, 0.2))) as sim:

        async def scenario() -> None:
            near, far = await connect(sim, sim.world("a"), sim.world("b"))
            near.transport.write(b"1")
            sim.stall("a", "b", 3.0)
            begun = sim.now
            await far.received(1)
            assert sim.now - begun > 3.0

        sim.run(scenario())


def test_a_killed_process_closes_its_connections_and_then_refuses() -> None:
    with Simulation(1) as sim:

        async def scenario() -> None:
            a = sim.world("a")
            near, _ = await connect(sim, a, sim.world("b"))
            sim.crash("b", power_loss=False)
            await near.called("lost")
            assert (near.calls, near.error) == (["made", "eof", "lost"], None)
            begun = sim.now
            with pytest.raises(ConnectionRefused):
                await a.net.dial(End, Endpoint("b", PORT))
            assert sim.now - begun < 0.01

        sim.run(scenario())


def test_a_process_killed_with_bytes_unread_resets_its_connections() -> None:
    with Simulation(1) as sim:

        async def scenario() -> None:
            near, far = await connect(sim, sim.world("a"), sim.world("b"))
            far.transport.pause_reading()
            near.transport.write(b"never read")
            await sim.sleep(1)
            sim.crash("b", power_loss=False)
            await near.called("lost")
            assert isinstance(near.error, ConnectionResetError)

        sim.run(scenario())


def test_bytes_that_a_killed_process_gave_to_its_kernel_still_arrive() -> None:
    with Simulation(1, Knobs(window=500)) as sim:

        async def scenario() -> None:
            near, far = await connect(sim, sim.world("a"), sim.world("b"))
            near.transport.pause_reading()
            far.transport.write(b"x" * 800)
            sim.crash("b", power_loss=False)
            near.transport.resume_reading()
            await near.called("lost")
            assert len(near.got) == 500

        sim.run(scenario())


def test_a_power_cut_is_silence_until_the_machine_is_back_and_answers_with_a_reset() -> None:
    with Simulation(1) as sim:

        async def scenario() -> None:
            a = sim.world("a")
            near, _ = await connect(sim, a, sim.world("b"))
            sim.crash("b", power_loss=True)
            near.transport.write(b"anybody there?")
            await sim.sleep(60)
            assert near.calls == ["made"], "half open"
            with pytest.raises(Unreachable):
                await a.net.dial(End, Endpoint("b", PORT))
            sim.restart("b")
            await near.called("lost")
            assert isinstance(near.error, ConnectionResetError)
            with pytest.raises(ConnectionRefused):
                await a.net.dial(End, Endpoint("b", PORT))

        sim.run(scenario())


def test_a_killed_peer_behind_a_cut_is_noticed_after_the_heal_alone() -> None:
    with Simulation(1) as sim:

        async def scenario() -> None:
            near, _ = await connect(sim, sim.world("a"), sim.world("b"))
            sim.cut("a", "b")
            sim.crash("b", power_loss=False)
            await sim.sleep(60)
            assert near.calls == ["made"]
            sim.heal()
            await near.called("lost")

        sim.run(scenario())


@pytest.mark.parametrize("seed", range(20))
def test_a_dial_under_way_when_the_peer_is_killed_is_refused_or_closed(seed: int) -> None:
    with Simulation(seed) as sim:

        async def scenario() -> None:
            a, b = sim.world("a"), sim.world("b")
            await b.net.listen(End, Endpoint("b", PORT))
            sim.at(sim.now + seed * 0.0001, sim.crash, "b", False)
            near = End()
            try:
                await a.net.dial(lambda: near, Endpoint("b", PORT))
            except ConnectionRefused:
                return
            await near.called("lost")

        sim.run(scenario())


def test_a_dial_under_way_when_its_own_node_dies_ends_in_dead() -> None:
    with Simulation(1) as sim:

        async def scenario() -> None:
            a, b = sim.world("a"), sim.world("b")
            far = End()
            await b.net.listen(lambda: far, Endpoint("b", PORT))
            sim.slow("a", "b", (1.0, 1.0))
            sim.at(sim.now + 1.5, sim.crash, "a", False)
            with pytest.raises(Dead):
                await a.net.dial(End, Endpoint("b", PORT))
            await far.called("lost")

        sim.run(scenario())


@pytest.mark.parametrize("seed", range(25))
def test_a_stream_is_never_reordered_by_faults_of_its_link(seed: int) -> None:
    with Simulation(seed, Knobs.swarm(Random(seed))) as sim:
        rng = sim.world("chaos").random("chaos")

        async def scenario() -> None:
            near, far = await connect(sim, sim.world("a"), sim.world("b"), Echo)
            sent = bytearray()
            for _ in range(60):
                fault = rng.choice(["cut", "one way", "other way", "heal", "heal", "stall", "slow", "pause", "resume"])
                match fault:
                    case "cut":
                        sim.cut("a", "b")
                    case "one way":
                        sim.cut("a", "b", one_way=True)
                    case "other way":
                        sim.cut("b", "a", one_way=True)
                    case "heal":
                        sim.heal()
                    case "stall":
                        sim.stall("a", "b", rng.random())
                    case "slow":
                        sim.slow("a", "b", (0.0, rng.random()))
                    case "pause":
                        sim.pause("b")
                    case "resume":
                        sim.resume("b")
                piece = rng.randbytes(rng.randint(1, 1000))
                near.transport.write(piece)
                sent += piece
                await sim.sleep(rng.random())
                assert sent.startswith(near.got) and sent.startswith(far.got)
            sim.heal()
            sim.resume("b")
            assert await near.received(len(sent)) == sent
            assert not near.lost and not far.lost

        sim.run(scenario())
