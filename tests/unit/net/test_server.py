"""What holds over all connections: limits, idleness, holds, memory, and a graceful end."""

from __future__ import annotations

import math
import struct

import pytest

from highwater.model import Endpoint
from highwater.net.context import RequestContext
from highwater.net.server import Limits, ListenerSpec, Server
from highwater.net.stats import CloseReason
from highwater.world import ConnectionRefused
from tests.unit.net.parties import ASK, Peer, Scene, ask, framed, header, registry

MIB = 1024 * 1024


def answer_at_once(ctx: RequestContext, body: memoryview) -> None:
    ctx.respond_parts([b"ok"])


# --- connections


def test_connections_beyond_the_limit_are_closed_and_the_place_is_given_again() -> None:
    with Scene(limits=Limits(connections=3)) as scene:
        peers = [scene.dial() for _ in range(4)]
        scene.wait(lambda: peers[3].lost)
        assert not any(peer.lost for peer in peers[:3])
        assert scene.server.stats.closed[CloseReason.LIMIT] == 1
        peers[0].transport.close()
        scene.wait(lambda: scene.server.stats.connections == 2)
        again = scene.dial()
        scene.settle()
        assert not again.lost


def test_clients_do_not_crowd_out_the_quorum() -> None:
    with Scene(limits=Limits(connections=2, reserved_connections=1)) as scene:
        peers = [scene.dial() for _ in range(2)] + [scene.dial(9093)]
        scene.settle()
        assert not any(peer.lost for peer in peers)
        beyond = scene.dial(9093)
        scene.wait(lambda: beyond.lost)


@pytest.mark.parametrize("overridden", [False, True])
def test_connections_of_one_address_are_limited(overridden: bool) -> None:
    with Scene() as probe:
        probe.dial().send(ask(1))
        probe.wait(lambda: len(probe.asked) == 1)
        ip = probe.asked[0].peer.host
    limits = Limits(connections_per_ip=5, connections_per_ip_overrides={ip: 2}) if overridden else None
    with Scene(limits=limits or Limits(connections_per_ip=2)) as scene:
        peers = [scene.dial() for _ in range(3)]
        scene.wait(lambda: peers[2].lost)
        peers[0].transport.close()
        scene.wait(lambda: scene.server.stats.connections == 1)
        again = scene.dial()
        scene.settle()
        assert not again.lost


# --- idleness, on virtual time


def test_an_idle_connection_is_closed_and_a_busy_one_is_not() -> None:
    with Scene() as scene:
        scene.asked.react = answer_at_once
        idle, busy = scene.dial(), scene.dial()
        for n in range(7):
            scene.sim.advance(99)
            assert idle.lost is (n == 6)
            busy.send(ask(n))
        scene.settle()
        assert not busy.lost
        assert scene.server.stats.closed[CloseReason.IDLE] == 1


def test_a_frame_that_stops_arriving_is_closed_at_the_idle_time() -> None:
    with Scene() as scene:
        peer = scene.dial()
        peer.send(struct.pack(">i", 1000) + b"half of it")
        scene.sim.advance(590)
        assert not peer.lost
        scene.sim.advance(20)
        assert peer.lost


def test_no_connection_is_closed_for_being_idle_where_that_is_switched_off() -> None:
    with Scene(limits=Limits(idle_seconds=math.inf)) as scene:
        peer = scene.dial()
        scene.sim.advance(3_000)
        assert not peer.lost


def test_an_idle_time_of_nothing_leaves_a_moment_for_a_request_and_time_for_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sweeps = 0
    sweep = Server._sweep

    def counted(server: Server) -> None:
        nonlocal sweeps
        sweeps += 1
        sweep(server)

    monkeypatch.setattr(Server, "_sweep", counted)
    with Scene(limits=Limits(idle_seconds=0)) as scene:
        scene.asked.react = answer_at_once
        peer = scene.dial()
        peer.send(ask(1))
        scene.wait(lambda: peer.lost)
        assert peer.correlations == [1]
        sweeps = 0
        scene.sim.advance(1)
        assert sweeps <= 20


def test_a_connection_that_waits_for_our_answer_is_not_idle() -> None:
    with Scene() as scene:
        peer = scene.dial()
        peer.send(ask(1))
        scene.sim.advance(3000)
        assert not peer.lost
        scene.asked[0].respond_parts([b""])
        scene.sim.advance(100)
        assert peer.correlations == [1]
        assert not peer.lost
        scene.sim.advance(600)
        assert peer.lost


def test_a_peer_that_never_reads_its_answers_is_idle() -> None:
    with Scene() as scene:
        scene.asked.react = lambda ctx, body: ctx.respond_parts([bytes(MIB)])
        peer = scene.dial()
        peer.transport.pause_reading()
        peer.send(ask(1), ask(2))
        scene.sim.advance(660)
        assert scene.server.stats.closed[CloseReason.IDLE] == 1


def test_a_peer_that_closed_is_not_waited_for_longer_than_the_idle_time() -> None:
    with Scene() as scene:
        peer = scene.dial()
        peer.send(ask(1))
        scene.wait(lambda: len(scene.asked) == 1)
        peer.transport.close()
        scene.sim.advance(660)
        assert scene.server.stats.connections == 0


# --- hold


def test_while_held_only_api_versions_is_answered_and_the_rest_waits_in_order() -> None:
    with Scene() as scene:
        scene.asked.react = answer_at_once
        scene.server.hold()
        first, second = scene.dial(), scene.dial()
        first.send(framed(header(18, 0, 1)), ask(2), framed(header(18, 0, 3)), ask(4))
        second.send(framed(header(18, 0, 1)))
        scene.wait(lambda: first.correlations == [1] and second.correlations == [1])
        scene.settle()
        assert scene.asked == []
        scene.server.release()
        scene.wait(lambda: first.correlations == [1, 2, 3, 4])
        second.send(ask(9))
        scene.wait(lambda: second.correlations == [1, 9])


def test_one_listener_is_held_while_the_other_serves() -> None:
    with Scene() as scene:
        scene.asked.react = answer_at_once
        scene.server.hold("PLAINTEXT")
        client, node = scene.dial(9092), scene.dial(9093)
        client.send(ask(1))
        node.send(ask(2))
        scene.wait(lambda: node.correlations == [2])
        scene.settle()
        assert client.frames == []
        scene.server.release("PLAINTEXT")
        scene.wait(lambda: client.correlations == [1])


def test_a_held_connection_that_leaves_is_forgotten() -> None:
    with Scene() as scene:
        scene.server.hold()
        peer = scene.dial()
        peer.send(ask(1))
        scene.settle()
        scene.sim.reset("client", "server")
        scene.wait(lambda: scene.server.stats.connections == 0)
        scene.server.release()
        scene.settle()
        assert scene.asked == []


def test_large_requests_that_wait_for_a_hold_count_against_the_budget() -> None:
    with Scene(limits=Limits(queued_bytes=2 * MIB)) as scene:
        scene.server.hold()
        peers = [scene.dial() for _ in range(10)]
        for peer in peers:
            peer.send(ask(1, bytes(MIB)))
        scene.settle()
        assert scene.server.stats.bytes_in < 5 * MIB
        scene.asked.react = answer_at_once
        scene.server.release()
        scene.wait(lambda: all(peer.correlations == [1] for peer in peers))
        assert scene.server.budget.receiving == 0


# --- the end


def test_a_graceful_close_answers_pending_requests_and_accepts_no_connection() -> None:
    with Scene() as scene:
        peer, idle = scene.dial(), scene.dial()
        peer.send(ask(1))
        scene.wait(lambda: len(scene.asked) == 1)
        closing = scene.world.spawn("close", scene.server.close())
        scene.wait(lambda: idle.lost)
        peer.send(ask(2))
        with pytest.raises(ConnectionRefused):
            scene.sim.run(scene.clients.perform(scene.clients.net.dial(Peer, Endpoint("server", 9092))))
        assert not closing.done()
        scene.asked[0].respond_parts([b"done"])
        scene.wait(closing.done)
        assert len(scene.asked) == 1
        scene.settle()
        assert peer.lost
        assert scene.server.stats.closed[CloseReason.SHUTDOWN] == 2


def test_a_graceful_close_does_not_wait_for_ever() -> None:
    with Scene() as scene:
        peer = scene.dial()
        peer.send(ask(1))
        scene.wait(lambda: len(scene.asked) == 1)
        closing = scene.world.spawn("close", scene.server.close(grace=3.0))
        scene.sim.advance(2.9)
        assert not closing.done()
        scene.sim.advance(0.2)
        assert closing.done()


def test_a_listener_that_cannot_be_bound_leaves_no_other_open() -> None:
    with Scene() as scene:
        specs = [
            ListenerSpec("ONE", Endpoint("server", 9100), registry(scene.asked)),
            ListenerSpec("TWO", Endpoint("server", 9092), registry(scene.asked)),
        ]
        with pytest.raises(OSError, match="9092|in use"):
            scene.sim.run(scene.world.perform(Server(scene.world, specs).start()))
        with pytest.raises(ConnectionRefused):
            scene.sim.run(scene.clients.perform(scene.clients.net.dial(Peer, Endpoint("server", 9100))))


def test_nothing_is_left_of_the_connections_that_came_and_went() -> None:
    with Scene() as scene:
        scene.asked.react = answer_at_once
        for n in range(20):
            peer = scene.dial()
            peer.send(ask(n), struct.pack(">i", 10 * MIB), bytes(n * 10_000))
            peer.transport.close()
        scene.wait(lambda: scene.server.stats.connections == 0)
        assert (scene.server.budget.receiving, scene.server.budget.unanswered) == (0, 0)
        assert scene.server._per_ip == {}
        assert scene.server.stats.requests[ASK] == 20


def test_a_listener_refuses_until_it_is_started() -> None:
    with Scene() as scene:
        specs = [
            ListenerSpec("EARLY", Endpoint("server", 9100), registry(scene.asked)),
            ListenerSpec("LATE", Endpoint("server", 9101), registry(scene.asked)),
        ]
        server = Server(scene.world, specs)
        scene.sim.run(scene.world.perform(server.start("EARLY")))
        scene.dial(9100)
        with pytest.raises(ConnectionRefused):
            scene.dial(9101)
        assert list(server.endpoints) == ["EARLY"]
        scene.sim.run(scene.world.perform(server.start("LATE")))
        scene.dial(9101)
        assert list(server.endpoints) == ["EARLY", "LATE"]
