"""A connection of the server: order, coalescing, backpressure, and how it ends."""

from __future__ import annotations

import logging
import struct
from array import array
from itertools import count

import pytest

from highwater.net.context import RequestContext
from highwater.net.outbox import AlreadyAnswered
from highwater.net.server import Limits
from highwater.net.stats import CloseReason
from tests.unit.net.parties import ASK, Scene, ask, framed, header


def test_answers_leave_in_the_order_of_the_requests_though_given_in_another() -> None:
    with Scene() as scene:
        peer = scene.dial()
        peer.send(*(ask(n) for n in range(5)))
        scene.wait(lambda: len(scene.asked) == 5)
        for n in (3, 1, 4, 2):
            scene.asked[n].respond_parts([b"answer %d" % n])
        scene.settle()
        assert peer.frames == []
        scene.asked[0].respond_parts([b"answer 0"])
        scene.wait(lambda: len(peer.frames) == 5)
        assert peer.frames == [struct.pack(">i", n) + b"answer %d" % n for n in range(5)]


def test_a_handler_learns_the_client_and_the_listener() -> None:
    with Scene() as scene:
        peer = scene.dial(9093)
        peer.send(framed(header(ASK, 9, 77, b"me") + b"\x00" + b"body"), framed(header(ASK, 1, 78, None)))
        scene.wait(lambda: len(scene.asked) == 2)
        first, second = scene.asked
        assert (first.api_key, first.version, first.correlation_id, first.client_id) == (ASK, 9, 77, "me")
        assert (first.listener, first.flexible_response) == ("CONTROLLER", True)
        assert (second.client_id, second.flexible_response) == (None, False)
        assert first.peer.port == peer.transport.get_extra_info("sockname")[1]
        assert first.connection is second.connection
        assert scene.asked.bodies == [b"body", b""]


def test_a_client_may_change_its_name_between_requests() -> None:
    with Scene() as scene:
        peer = scene.dial()
        names = [b"", b"a", None, b"a", b"a", b"b", None, None]
        peer.send(*(framed(header(ASK, 0, 1, name)) for name in names))
        scene.wait(lambda: len(scene.asked) == len(names))
        assert [ctx.client_id for ctx in scene.asked] == ["", "a", None, "a", "a", "b", None, None]


def test_unknown_tags_of_a_flexible_header_are_passed_over() -> None:
    with Scene() as scene:
        peer = scene.dial()
        peer.send(framed(header(ASK, 9, 1) + b"\x02\x00\x01x\x05\x02yz" + b"body"))
        scene.wait(lambda: len(scene.asked) == 1)
        assert scene.asked.bodies == [b"body"]


def test_ten_thousand_pipelined_requests_are_answered_in_order_with_few_at_work_at_once() -> None:
    most = 0
    with Scene(limits=Limits(slots=64)) as scene:

        def react(ctx: RequestContext, body: memoryview) -> None:
            nonlocal most
            most = max(most, len(scene.asked))
            scene.world.clock.call_later(0.001, answer, ctx)

        def answer(ctx: RequestContext) -> None:
            scene.asked.remove(ctx)
            ctx.respond_parts([b"ok"])

        scene.asked.react = react
        peer = scene.dial()
        peer.send(*(ask(n) for n in range(10_000)))
        scene.wait(lambda: len(peer.data) == 10_000 * 10)
        assert peer.correlations == list(range(10_000))
        assert most == 64


def test_a_peer_that_does_not_read_stops_being_read() -> None:
    with Scene(limits=Limits(slots=100, slot_bytes=1_000_000)) as scene:
        scene.asked.react = lambda ctx, body: ctx.respond_parts([bytes(10_000)])
        peer = scene.dial()
        peer.transport.pause_reading()
        peer.send(*(ask(n) for n in range(5000)))
        scene.settle()
        taken = len(scene.asked)
        assert taken < 300
        scene.settle()
        assert len(scene.asked) == taken
        peer.transport.resume_reading()
        scene.wait(lambda: len(scene.asked) == 5000)
        scene.wait(lambda: len(peer.data) == 5000 * 10_008)
        assert peer.correlations == list(range(5000))


def test_unanswered_bytes_of_one_connection_are_bounded() -> None:
    with Scene(limits=Limits(slot_bytes=50_000)) as scene:
        peer = scene.dial()
        peer.send(*(ask(n, bytes(10_000)) for n in range(20)))
        scene.settle()
        assert len(scene.asked) == 5
        for n in range(20):
            scene.wait(lambda: len(scene.asked) > n)  # noqa: B023 evaluated at once
            scene.asked[n].slot.skip()
        scene.settle()
        assert scene.server.budget.unanswered == 0


def test_a_skipped_answer_frees_its_place() -> None:
    with Scene() as scene:
        peer = scene.dial()
        peer.send(*(ask(n) for n in range(3)))
        scene.wait(lambda: len(scene.asked) == 3)
        scene.asked[2].respond_parts([b""])
        scene.asked[1].slot.skip()
        scene.asked[0].slot.skip()
        scene.wait(lambda: peer.correlations == [2])


def test_a_request_is_answered_once() -> None:
    with Scene() as scene:
        peer = scene.dial()
        peer.send(ask(0))
        scene.wait(lambda: len(scene.asked) == 1)
        scene.asked[0].respond_parts([b"x"])
        with pytest.raises(AlreadyAnswered):
            scene.asked[0].respond_parts([b"x"])
        with pytest.raises(AlreadyAnswered):
            scene.asked[0].slot.skip()


def test_a_handler_may_close_once_earlier_requests_are_answered() -> None:
    with Scene() as scene:
        peer = scene.dial()
        peer.send(*(ask(n) for n in range(4)))
        scene.wait(lambda: len(scene.asked) == 4)
        scene.asked[2].slot.close_connection()
        scene.asked[3].respond_parts([b"never sent"])
        scene.asked[1].respond_parts([b"b"])
        scene.settle()
        assert not peer.lost
        scene.asked[0].respond_parts([b"a"])
        scene.wait(lambda: peer.lost)
        assert peer.correlations == [0, 1]
        assert scene.server.stats.closed[CloseReason.ASKED] == 1
        assert scene.server.budget.unanswered == 0


def test_a_failing_handler_costs_its_connection_and_one_line(caplog: pytest.LogCaptureFixture) -> None:
    with Scene() as scene:

        def react(ctx: RequestContext, body: memoryview) -> None:
            if body == b"bad":
                raise ZeroDivisionError
            ctx.respond_parts([b"ok"])

        scene.asked.react = react
        scene.sim.forgives = True
        peer, other = scene.dial(), scene.dial()
        with caplog.at_level(logging.ERROR):
            peer.send(ask(1), ask(2, b"bad"), ask(3))
            scene.wait(lambda: peer.lost)
        assert peer.correlations == [1]
        lines = [each.getMessage() for each in caplog.records if each.name.startswith("highwater.")]
        assert lines == ["MetadataRequest v0: an unexpected error stops here (connection)"]
        assert scene.server.world.failures.counts["connection"] == 1
        assert scene.server.stats.closed[CloseReason.HANDLER] == 1
        other.send(ask(4))
        scene.wait(lambda: other.correlations == [4])


def test_a_muted_connection_waits_for_the_answer() -> None:
    with Scene() as scene:
        scene.asked.react = lambda ctx, body: ctx.slot.mute() if body == b"alone" else None
        peer = scene.dial()
        peer.send(ask(0), ask(1, b"alone"), ask(2))
        scene.settle()
        assert len(scene.asked) == 2
        scene.asked[1].respond_parts([b""])
        scene.wait(lambda: len(scene.asked) == 3)
        peer.send(ask(3))
        scene.wait(lambda: len(scene.asked) == 4)


def test_a_half_closed_peer_still_gets_its_answers() -> None:
    with Scene() as scene:
        peer = scene.dial()
        peer.send(ask(0), ask(1))
        peer.transport.write_eof()
        scene.wait(lambda: len(scene.asked) == 2)
        scene.settle()
        scene.asked[1].respond_parts([b""])
        scene.asked[0].respond_parts([b""])
        scene.wait(lambda: peer.lost)
        assert peer.correlations == [0, 1]


def test_a_handler_learns_that_the_peer_left() -> None:
    called = []
    with Scene() as scene:
        peer = scene.dial()
        peer.send(ask(0))
        scene.wait(lambda: len(scene.asked) == 1)
        connection = scene.asked[0].connection
        assert connection is not None
        connection.on_close(lambda: called.append(1))
        peer.transport.close()
        scene.wait(lambda: called == [1])
        scene.asked[0].respond_parts([b"into the void"])
        scene.wait(lambda: scene.server.stats.connections == 0)
        assert called == [1]
        connection.on_close(lambda: called.append(2))
        scene.wait(lambda: called == [1, 2])


def test_an_answer_after_the_connection_broke_goes_nowhere() -> None:
    with Scene() as scene:
        peer = scene.dial()
        peer.send(ask(0), ask(1))
        scene.wait(lambda: len(scene.asked) == 2)
        peer.transport.abort()
        scene.sim.reset("client", "server")
        scene.wait(lambda: scene.server.stats.connections == 0)
        scene.asked[0].respond_parts([b"x"])
        scene.asked[1].slot.close_connection()
        scene.settle()
        assert scene.server.budget.unanswered == 0
        assert scene.server.stats.closed[CloseReason.PEER] == 1


def test_many_answers_of_one_turn_leave_in_one_write() -> None:
    with Scene() as scene:
        peer = scene.dial()
        peer.send(*(ask(n) for n in range(50)))
        scene.wait(lambda: len(scene.asked) == 50)
        sends = []
        scene.sim.on_event(
            lambda event: (
                sends.append(event) if (event.node, event.kind, event.phase) == ("server", "send", "before") else None
            )
        )
        for ctx in scene.asked:
            ctx.respond_parts([b"ok"])
        scene.wait(lambda: len(peer.frames) == 50)
        assert len(sends) == 1


def test_counters_count_what_went_through() -> None:
    with Scene() as scene:
        scene.asked.react = lambda ctx, body: ctx.respond_parts([b"12345"])
        peer = scene.dial()
        peer.send(ask(1), ask(2))
        scene.wait(lambda: len(peer.frames) == 2)
        stats = scene.server.stats
        assert stats.requests == {ASK: 2}
        assert stats.bytes_in == 2 * len(ask(1))
        assert stats.bytes_out == 2 * 13
        assert (stats.accepted, stats.connections) == (1, 1)


def test_an_answer_that_is_sent_is_not_kept() -> None:
    """Whoever has not forgotten the request yet, and be it a circle of garbage, may keep it for long."""
    with Scene() as scene:
        answer = array("B", bytes(1000))
        scene.asked.react = lambda ctx, body: ctx.respond_parts([memoryview(answer)])
        peer = scene.dial()
        peer.send(ask(1))
        scene.wait(lambda: peer.correlations == [1])
        assert scene.asked[0].correlation_id == 1, "it is still known"
        answer.append(0)  # refused while anybody has a view of it


def test_a_half_closed_peer_gets_the_answers_that_have_not_had_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each turn has time for one request. The end comes when the first is answered: nothing is left to send, and a
    transport whose reading is paused may report an end all the same."""
    with Scene() as scene:
        turns, add, ends = scene.server.turns, scene.server.turns.add, [True]
        seconds = count()
        monkeypatch.setattr(turns, "monotonic", lambda: float(next(seconds)))
        peer = scene.dial()
        (served,) = scene.server._connections

        def end() -> None:
            if not served.eof_received():
                served.close(CloseReason.PEER)

        def added(*turn: object) -> None:
            if ends:
                ends.pop()
                scene.world.clock.call_later(0.1, end)
            scene.world.clock.call_later(0.2, add, *turn)

        monkeypatch.setattr(turns, "add", added)
        scene.asked.react = lambda ctx, body: ctx.respond_parts([b"done"])
        frames = b"".join(ask(number) for number in range(3))
        served.get_buffer(-1)[: len(frames)] = frames
        scene.world.call(served.buffer_updated, len(frames))
        scene.wait(lambda: peer.lost)
        assert peer.correlations == [0, 1, 2]


class Patient:
    """Waits for what never happens."""

    hung_up = False

    def look(self, at_once: bool) -> None:
        """There is none."""

    def hang_up(self) -> None:
        self.hung_up = True


@pytest.mark.parametrize("ends", ["abort", "close"])
def test_a_caller_gets_an_error_when_the_connection_is_gone(ends: str) -> None:
    with Scene() as scene:
        patient = Patient()

        def wait(ctx: RequestContext, body: memoryview) -> None:
            assert ctx.connection is not None
            ctx.connection.line.join(patient)

        scene.asked.react = wait
        peer = scene.dial()
        peer.send(ask(1))
        scene.wait(lambda: len(scene.asked) == 1)
        (served,) = scene.server._connections
        scene.world.call(getattr(served, ends), CloseReason.SHUTDOWN)
        assert patient.hung_up
