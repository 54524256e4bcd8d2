"""The memory of requests: what arrives, what waits, and what is not answered yet has one budget."""

from __future__ import annotations

import struct

import pytest

from highwater.net.context import RequestContext
from highwater.net.registry import Api
from highwater.net.server import STARVED_SECONDS, Limits
from highwater.net.stats import CloseReason
from highwater.net.turns import Share
from highwater.wire.framing import CHUNK, MAX_FRAME
from highwater.wire.messages.fetch_request import FetchRequest
from tests.unit.net.parties import ASK, Scene, ask, framed, header, raw

MIB = 1024 * 1024


def answer_at_once(ctx: RequestContext, body: memoryview) -> None:
    ctx.respond_parts([b"ok"])


def test_large_requests_of_many_peers_share_a_budget_and_all_get_through() -> None:
    worst = 0
    with Scene(limits=Limits(queued_bytes=4 * MIB)) as scene:

        def react(ctx: RequestContext, body: memoryview) -> None:
            nonlocal worst
            worst = max(worst, scene.server.budget.receiving + scene.server.budget.unanswered)
            scene.world.clock.call_later(0.01, ctx.respond_parts, [b"ok"])

        scene.asked.react = react
        peers = [scene.dial() for _ in range(30)]
        for peer in peers:
            peer.send(ask(1, bytes(MIB)))
        scene.wait(lambda: all(peer.correlations == [1] for peer in peers))
        assert worst <= 4 * MIB + 2 * MIB + CHUNK
        assert (scene.server.budget.receiving, scene.server.budget.unanswered) == (0, 0)


@pytest.mark.parametrize(("key", "most"), [(0, 2), (ASK, 2), (1, 3)])
def test_large_requests_that_are_not_answered_let_in_those_of_nodes_alone(key: int, most: int) -> None:
    """A fetch may be what the others wait for. All others would only wait with them, however many there are."""
    with Scene(limits=Limits(queued_bytes=2 * MIB)) as scene:
        asked, scene.asked.react = scene.asked, None
        scene.server._listening["PLAINTEXT"].registry.add(
            Api(1, (0, 13), FetchRequest, decode=raw, most_bytes=MAX_FRAME), asked.handle
        )
        writers = [scene.dial() for _ in range(2)]
        for writer in writers:
            writer.send(ask(1, bytes(MIB + 100_000)))
        scene.wait(lambda: len(asked) == 2)
        late = scene.dial()
        late.send(framed(header(key, 3, 1) + bytes(100_000)))
        scene.settle()
        assert len(asked) == most


def test_small_requests_pass_while_large_ones_fill_the_budget() -> None:
    with Scene(limits=Limits(queued_bytes=2 * MIB)) as scene:
        writers = [scene.dial() for _ in range(6)]
        for writer in writers:
            writer.send(ask(1, bytes(MIB)))
        scene.wait(lambda: scene.server.budget.unanswered > 2 * MIB)
        follower = scene.dial()
        for n in range(5):
            follower.send(ask(n, b"fetch"))
            scene.wait(lambda: b"fetch" in scene.asked.bodies)
            at = scene.asked.bodies.index(b"fetch")
            scene.asked.bodies[at] = b"done"
            scene.asked[at].respond_parts([b""])
            scene.wait(lambda: len(follower.frames) == n + 1)  # noqa: B023 evaluated at once


def test_beyond_the_budget_every_connection_has_little_at_work() -> None:
    with Scene(limits=Limits(queued_bytes=100_000)) as scene:
        greedy, late = scene.dial(), scene.dial()
        greedy.send(*(ask(n, bytes(20_000)) for n in range(50)))
        scene.settle()
        assert len(scene.asked) == 5
        late.send(*(ask(n, bytes(20_000)) for n in range(50)))
        scene.settle()
        assert len(scene.asked) == 5 + 4
        for n in range(100):
            scene.wait(lambda: len(scene.asked) > n)  # noqa: B023 evaluated at once
            scene.asked[n].respond_parts([b""])
        scene.wait(lambda: greedy.correlations == late.correlations == list(range(50)))


def test_a_stalled_large_request_gives_way_when_others_wait_for_its_memory() -> None:
    with Scene(limits=Limits(queued_bytes=MIB)) as scene:
        scene.asked.react = answer_at_once
        stalled = [scene.dial() for _ in range(3)]
        for peer in stalled:
            peer.send(struct.pack(">i", MAX_FRAME) + bytes(2 * MIB))
        scene.settle()
        honest = scene.dial()
        honest.send(ask(1, bytes(MIB)))
        scene.wait(lambda: scene.server.stats.closed[CloseReason.STALLED] >= 1, limit=STARVED_SECONDS - 1)
        scene.wait(lambda: honest.correlations == [1], limit=60.0)
        assert scene.server.stats.closed[CloseReason.IDLE] == 0


def test_no_more_than_the_begin_of_a_large_request_is_read_before_there_is_memory_for_it() -> None:
    with Scene(limits=Limits(queued_bytes=MIB)) as scene:
        for _ in range(100):
            scene.dial().send(struct.pack(">i", MAX_FRAME) + bytes(70_000))
        scene.settle()
        assert scene.server.budget.receiving < 2 * MIB


def test_small_requests_that_are_not_whole_count_too() -> None:
    with Scene(limits=Limits(queued_bytes=MIB)) as scene:
        for _ in range(100):
            scene.dial().send(struct.pack(">i", 60_000) + bytes(50_000))
        scene.settle()
        assert sum(each._frames.held for each in scene.server._connections) < 3 * MIB


def held(scene: Scene) -> int:
    """The bytes that all connections have received and not dispatched."""
    return sum(each._frames.held + len(each._parked or b"") for each in scene.server._connections)


WAITING = [ask(n, bytes(3_000)) for n in range(1, 12)]
"""Whole requests of 33 KB together, which one read takes."""


def test_whole_requests_that_wait_for_an_earlier_answer_count_too() -> None:
    with Scene(limits=Limits(queued_bytes=MIB)) as scene:
        scene.asked.react = lambda ctx, body: ctx.slot.mute()
        peers = [scene.dial() for _ in range(100)]
        for peer in peers:
            peer.send(ask(0), *WAITING)
        scene.settle()
        assert held(scene) < 3 * MIB
        assert scene.server.budget.receiving > MIB // 4
        scene.asked.react = answer_at_once
        for ctx in list(scene.asked):
            ctx.respond_parts([b"ok"])
        scene.wait(lambda: all(len(peer.correlations) == 12 for peer in peers))
        assert scene.server.budget.receiving == 0


def test_whole_requests_that_wait_for_their_turn_count_too() -> None:
    with Scene(limits=Limits(queued_bytes=MIB)) as scene:
        turns = scene.server.turns
        turns._is_scheduled = True  # so that none is served
        turns.add(Share(), lambda: None)
        peers = [scene.dial() for _ in range(100)]
        for peer in peers:
            peer.send(*WAITING)
        scene.settle()
        assert held(scene) < 3 * MIB
        scene.asked.react = answer_at_once
        scene.world.call(turns._next)
        scene.wait(lambda: all(len(peer.correlations) == 11 for peer in peers))
        assert scene.server.budget.receiving == 0


def test_small_requests_that_wait_for_a_hold_count_too() -> None:
    with Scene(limits=Limits(queued_bytes=MIB)) as scene:
        scene.world.call(scene.server.hold)
        peers = [scene.dial() for _ in range(100)]
        for peer in peers:
            peer.send(ask(1, bytes(60_000)))
        scene.settle()
        assert held(scene) < 3 * MIB
        scene.asked.react = answer_at_once
        scene.world.call(scene.server.release)
        scene.wait(lambda: all(peer.correlations == [1] for peer in peers))
        assert scene.server.budget.receiving == 0


def test_small_requests_do_not_wait_for_the_memory_that_large_ones_keep() -> None:
    with Scene(limits=Limits(queued_bytes=MIB)) as scene:
        scene.asked.react = answer_at_once
        for _ in range(20):
            scene.dial().send(struct.pack(">i", MAX_FRAME) + bytes(200_000))
        scene.settle()
        assert scene.server.budget.has_waiting
        honest = scene.dial()
        honest.send(ask(1, bytes(50_000)))
        scene.wait(lambda: honest.correlations == [1], limit=1.0)


def test_stalled_large_requests_do_not_have_their_time_one_after_the_other() -> None:
    with Scene(limits=Limits(queued_bytes=4 * MIB)) as scene:
        scene.asked.react = answer_at_once
        for _ in range(60):
            scene.dial().send(struct.pack(">i", MAX_FRAME) + bytes(200_000))
        scene.settle()
        honest = scene.dial()
        honest.send(ask(1, bytes(MIB)))
        scene.wait(lambda: honest.correlations == [1], limit=60.0)


@pytest.mark.parametrize(("size", "stalls"), [(1, True), (100_000, False)])
def test_a_large_request_that_comes_byte_by_byte_is_stalled(size: int, stalls: bool) -> None:
    with Scene() as scene:
        peer = scene.dial()
        peer.send(struct.pack(">i", MAX_FRAME) + bytes(500_000))
        scene.settle()
        (connection,) = scene.server._connections
        for _ in range(5):
            scene.sim.advance(1.0)
            peer.send(bytes(size))
            scene.settle()
        assert connection.stalls(scene.server.world.clock.monotonic() - 4.0) is stalls


def test_large_requests_that_come_byte_by_byte_give_way_when_others_wait_for_their_memory() -> None:
    """A peer that sends a byte now and then is not idle, and must not keep what others wait for."""
    with Scene(limits=Limits(queued_bytes=4 * MIB)) as scene:
        scene.asked.react = answer_at_once
        slow = [scene.dial() for _ in range(10)]
        for peer in slow:
            peer.send(struct.pack(">i", MAX_FRAME) + bytes(500_000))
        scene.settle()
        honest = scene.dial()
        honest.send(ask(1, bytes(MIB)))
        for _ in range(20):
            scene.sim.advance(1.0)
            for peer in slow:
                if not peer.lost:
                    peer.send(b"x")
        assert honest.correlations == [1]
        assert scene.server.stats.closed[CloseReason.STALLED] >= 1


def test_a_stalled_large_request_may_stay_while_no_other_waits() -> None:
    with Scene() as scene:
        peer = scene.dial()
        peer.send(struct.pack(">i", MAX_FRAME) + bytes(MIB))
        scene.sim.advance(300)
        assert not peer.lost


def test_a_large_request_that_we_keep_waiting_is_not_stalled() -> None:
    with Scene(limits=Limits(queued_bytes=MIB)) as scene:
        scene.server.hold("PLAINTEXT")
        held = scene.dial()
        held.send(ask(1, bytes(2 * MIB)))
        scene.settle()
        waiting = scene.dial(9093)
        waiting.send(struct.pack(">i", MAX_FRAME) + bytes(2 * MIB))
        scene.sim.advance(100)
        assert not held.lost
        assert not waiting.lost
        scene.asked.react = answer_at_once
        scene.server.release("PLAINTEXT")
        scene.wait(lambda: held.correlations == [1])


def test_a_broken_stream_gives_its_memory_back_before_its_last_answer() -> None:
    with Scene() as scene:
        peer = scene.dial()
        peer.send(ask(1))
        peer.send(struct.pack(">i", MAX_FRAME) + bytes(2 * MIB))
        scene.settle()
        assert scene.server.budget.receiving > MIB
        scene.asked[0].slot.close_connection()
        assert scene.server.budget.receiving == 0
