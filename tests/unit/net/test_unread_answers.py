"""Peers that ask and do not read: what their answers may take, who is given up, and who is not kept waiting."""

from __future__ import annotations

from highwater.net.context import RequestContext
from highwater.net.outbox import CROWDED_WINDOW, PAUSED_AT, WINDOW
from highwater.net.server import UNREAD_SECONDS, Limits
from highwater.net.stats import CloseReason
from tests.unit.net.parties import Peer, Scene, ask

MIB = 1 << 20
LARGE = 100_000
LIMITS = Limits(queued_bytes=2 * MIB)
ANSWERS = 1 * MIB


def answer_large(ctx: RequestContext, body: memoryview) -> None:
    ctx.respond_parts([bytes(body[:1]) * LARGE])


def deaf(scene: Scene, requests: int = 40) -> Peer:
    peer = scene.dial()
    peer.transport.pause_reading()
    peer.send(*(ask(number, b"x") for number in range(requests)))
    return peer


def test_a_peer_that_does_not_read_is_not_asked_for_more() -> None:
    with Scene() as scene:
        scene.asked.react = answer_large
        peer = deaf(scene, 60)
        scene.settle()
        assert len(scene.asked) * LARGE < 2 * MIB
        peer.transport.resume_reading()
        scene.wait(lambda: peer.correlations == list(range(60)))
        assert all(len(frame) == LARGE + 4 for frame in peer.frames)
        assert scene.server.budget.unsent == 0


def test_unread_answers_have_a_limit_for_all_connections_together() -> None:
    with Scene(limits=LIMITS) as scene:
        scene.asked.react = answer_large
        for _ in range(30):
            deaf(scene)
        scene.settle()
        assert len(scene.asked) < 30 * 8, "of the 40 that each has asked"
        assert in_memory(scene) <= ANSWERS + 30 * (LARGE + PAUSED_AT + CROWDED_WINDOW), (
            "one answer each, beyond the limit"
        )


def test_requests_that_stall_leave_little_room_for_unread_answers() -> None:
    """All that is kept stays within one limit, whatever a peer keeps it with."""
    limit = 32 * MIB
    with Scene(limits=Limits(queued_bytes=limit)) as scene:
        scene.asked.react = answer_large
        for _ in range(40):
            scene.dial().transport.write((100 * MIB).to_bytes(4, "big") + bytes(MIB))
        scene.settle()
        assert scene.server.budget.receiving > limit * 3 // 4
        for _ in range(60):
            deaf(scene)
        scene.settle()
        assert in_memory(scene) <= limit // 4 + 60 * (LARGE + PAUSED_AT + CROWDED_WINDOW)


def test_unread_answers_leave_less_room_for_requests_that_stall() -> None:
    limit = 32 * MIB
    with Scene(limits=Limits(queued_bytes=limit)) as scene:
        scene.asked.react = answer_large
        for _ in range(20):
            deaf(scene)
        scene.settle()
        assert in_memory(scene) > 8 * MIB
        for _ in range(40):
            scene.dial().transport.write((100 * MIB).to_bytes(4, "big") + bytes(MIB))
        scene.settle()
        kept = scene.server.budget.receiving + in_memory(scene)
        assert kept <= limit + 2 * MIB, "the limit, and one frame that is favoured"


def in_memory(scene: Scene) -> int:
    """Bytes of answers, those in the transports included."""
    found = 0
    for connection in scene.server._connections:
        assert connection._transport is not None
        found += connection._outbox.unsent + connection._transport.get_write_buffer_size()
    return found


def test_the_connection_with_the_most_unread_bytes_is_closed_when_there_are_too_many() -> None:
    """One answer each, of any size, is given beyond the limit: many of them are too many."""
    with Scene(limits=Limits(queued_bytes=8 * MIB)) as scene:
        scene.asked.react = lambda ctx, body: ctx.respond_parts([bytes(900_000 + len(body))])
        peers = []
        for number in range(20):
            peers.append(deaf(scene, 0))
            peers[-1].send(*(ask(again, bytes(number)) for again in range(2)))
        scene.settle()
        assert scene.server.budget.unsent > 4 * MIB
        scene.sim.advance(2 * UNREAD_SECONDS)
        assert scene.server.budget.unsent <= 4 * MIB
        assert 0 < scene.server.stats.closed[CloseReason.UNREAD] < 20
        for peer in peers:
            peer.transport.resume_reading()
        scene.wait(lambda: all(peer.lost or peer.correlations == [0, 1] for peer in peers))
        assert scene.server.budget.unsent == 0


def test_a_connection_with_few_unread_bytes_is_not_closed_for_one_with_many() -> None:
    """Whoever came first: the one who has the most goes first, and no more go than must."""
    with Scene(limits=Limits(queued_bytes=8 * MIB)) as scene:
        scene.asked.react = lambda ctx, body: ctx.respond_parts([bytes(len(body) * 1_000)])
        peers = [deaf(scene, 0) for _ in range(4)]
        for number, peer in enumerate(peers):
            peer.send(ask(number, bytes(4_000 if number == 2 else 500)))
        scene.settle()
        assert scene.server.budget.crowded
        scene.sim.advance(2 * UNREAD_SECONDS)
        assert scene.server.stats.closed[CloseReason.UNREAD] == 1
        for peer in peers:
            peer.transport.resume_reading()
        scene.wait(lambda: all(peer.lost or peer.correlations for peer in peers))
        assert [peer.correlations for peer in peers] == [[0], [1], [], [3]]


def test_a_connection_that_reads_is_served_while_others_take_all_response_memory() -> None:
    with Scene(limits=LIMITS) as scene:
        scene.asked.react = answer_large
        for _ in range(20):
            deaf(scene)
        follower = scene.dial()
        for number in range(20):
            follower.send(ask(number, b"fetch"))
            scene.wait(lambda: len(follower.frames) == number + 1)  # noqa: B023 evaluated at once
        assert not follower.lost


def test_a_slow_reader_is_not_disconnected() -> None:
    with Scene(limits=LIMITS) as scene:
        scene.asked.react = answer_large
        slow = deaf(scene, 10)
        for _ in range(10):
            slow.transport.resume_reading()
            scene.sim.advance(0.01)
            slow.transport.pause_reading()
            deaf(scene)
            scene.sim.advance(UNREAD_SECONDS / 2)
        slow.transport.resume_reading()
        scene.wait(lambda: slow.correlations == list(range(10)))
        assert scene.server.stats.closed[CloseReason.UNREAD] > 0


def test_of_an_answer_larger_than_the_window_the_transport_holds_a_part() -> None:
    with Scene() as scene:
        content = bytes(range(256)) * 10_000

        def react(ctx: RequestContext, body: memoryview) -> None:
            ctx.respond_parts([content])

        scene.asked.react = react
        peer = scene.dial()
        peer.transport.pause_reading()
        peer.send(ask(1))
        scene.settle()
        (connection,) = scene.server._connections
        assert connection._transport is not None
        assert connection._transport.get_write_buffer_size() <= 2 * WINDOW
        assert scene.server.budget.unsent > len(content)
        peer.transport.resume_reading()
        scene.wait(lambda: len(peer.frames) == 1)
        assert peer.frames[0][4:] == content
        assert scene.server.budget.unsent == 0


def test_nothing_is_counted_for_a_connection_that_is_gone() -> None:
    with Scene() as scene:
        scene.asked.react = answer_large
        deaf(scene)
        scene.settle()
        assert scene.server.budget.unsent > 0
        scene.sim.reset("client", "server")
        scene.wait(lambda: scene.server.stats.connections == 0)
        assert scene.server.budget.unsent == 0


def test_a_transport_is_given_less_while_answers_take_all_the_memory() -> None:
    with Scene() as scene:
        scene.asked.react = lambda ctx, body: ctx.respond_parts([bytes(2 * MIB)])
        scene.server.budget.crowded = True
        deaf(scene, 1)
        scene.settle()
        (connection,) = scene.server._connections
        assert connection._transport is not None
        assert 0 < connection._transport.get_write_buffer_size() <= PAUSED_AT + CROWDED_WINDOW


def test_peers_are_given_up_for_what_lies_in_their_transports_as_well() -> None:
    with Scene(limits=LIMITS) as scene:
        scene.asked.react = lambda ctx, body: ctx.respond_parts([bytes(250_000)])
        for _ in range(6):
            deaf(scene, 1)
        scene.settle()
        assert (scene.server.budget.unsent, scene.server.budget.crowded) == (0, True)
        scene.sim.advance(2 * UNREAD_SECONDS)
        assert scene.server.budget.unread <= ANSWERS // 2
        assert 0 < scene.server.stats.closed[CloseReason.UNREAD] < 6
