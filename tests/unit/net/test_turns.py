"""Requests that take long: others are answered meanwhile, and those of the same connection keep their order."""

from __future__ import annotations

from itertools import count, groupby

import pytest

from highwater.net.context import RequestContext
from highwater.net.registry import ELEMENTS_AT_ONCE, ELEMENTS_IN_ONE_GO, Registry
from highwater.net.stats import CloseReason
from highwater.net.turns import MOST_LARGE, Errand, Resume, Turns, Work, elsewhere
from highwater.sim import Simulation
from highwater.wire.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from highwater.world import Disk, Step
from tests.unit.net.parties import Peer, Scene, framed, header

PIECES = 50
LONG = 1


class Toil:
    """A handler whose requests in version 1 take PIECES slices; what was done, in order."""

    def __init__(self, scene: Scene) -> None:
        self.done: list[str] = []
        self.at_work = self.most_at_work = 0
        clock = count()
        scene.server.turns.monotonic = lambda: float(next(clock))
        registry: Registry = scene.server.registries[0]
        registry.replace(3, self.handle, MetadataRequest.decode)
        self._scene = scene

    def handle(self, ctx: RequestContext, request: MetadataRequest) -> Work | None:
        name = f"{ctx.client_id}-{ctx.correlation_id}"
        if ctx.version != LONG:
            self.done.append(name)
            ctx.respond_parts([b"short"])
            return None
        return self.labour(ctx, name)

    def labour(self, ctx: RequestContext, name: str) -> Work:
        self.at_work += 1
        self.most_at_work = max(self.most_at_work, self.at_work)
        try:
            for _ in range(PIECES):
                yield None
                yield self._wait
            if ctx.correlation_id == 13:
                raise RuntimeError("on purpose")
            self.done.append(name)
            ctx.respond_parts([b"long"])
        finally:
            self.at_work -= 1

    def _wait(self, resume: Resume) -> None:
        """Virtual time goes by between the slices, as real time would."""
        self._scene.world.clock.call_later(0.02, resume)


def topics(correlation: int, version: int, names: int = 0, client: bytes = b"a") -> bytes:
    body = MetadataRequest(topics=[MetadataRequestTopic(name="t")] * names).encode(version)
    return framed(header(3, version, correlation, client) + body)


def answered(scene: Scene, peer: Peer, *correlations: int) -> None:
    scene.wait(lambda: len(peer.correlations) >= len(correlations))
    assert peer.correlations == list(correlations)


def test_others_are_answered_while_a_long_request_is_worked_on() -> None:
    with Scene() as scene:
        toil = Toil(scene)
        first, second = scene.dial(), scene.dial()
        first.send(topics(1, LONG, client=b"long"))
        scene.wait(lambda: toil.at_work == 1)
        second.send(topics(1, 2, client=b"short"))
        answered(scene, second, 1)
        answered(scene, first, 1)
        assert toil.done == ["short-1", "long-1"]


def test_what_follows_on_the_same_connection_waits_for_its_turn() -> None:
    with Scene() as scene:
        toil = Toil(scene)
        peer = scene.dial()
        peer.send(topics(1, LONG), topics(2, 2), topics(3, LONG), topics(4, 2))
        answered(scene, peer, 1, 2, 3, 4)
        assert toil.done == ["a-1", "a-2", "a-3", "a-4"]
        assert toil.most_at_work == 1


def drop_all(scene: Scene) -> None:
    for connection in list(scene.server._connections):
        scene.world.call(connection.abort, CloseReason.SHUTDOWN)


def test_a_long_request_is_left_when_its_connection_is_gone() -> None:
    with Scene() as scene:
        toil = Toil(scene)
        peer = scene.dial()
        peer.send(topics(1, LONG))
        scene.wait(lambda: toil.at_work == 1)
        drop_all(scene)
        scene.wait(lambda: toil.at_work == 0)
        assert toil.done == []


def test_a_long_request_that_fails_ends_its_connection_and_no_other(caplog: pytest.LogCaptureFixture) -> None:
    with Scene() as scene:
        toil = Toil(scene)
        scene.sim.forgives = True
        first, second = scene.dial(), scene.dial()
        first.send(topics(13, LONG))
        second.send(topics(1, LONG, client=b"b"))
        answered(scene, second, 1)
        scene.wait(lambda: first.lost)
        assert toil.done == ["b-1"]
        assert scene.server.stats.closed[CloseReason.HANDLER] == 1
        assert "on purpose" in caplog.text


def test_a_request_of_many_elements_is_decoded_off_the_loop_and_answered() -> None:
    with Scene() as scene:
        Toil(scene)
        peer = scene.dial()
        peer.send(topics(1, 2, ELEMENTS_AT_ONCE + 1), topics(2, 2))
        scene.settle()
        answered(scene, peer, 1, 2)


def test_a_request_of_too_many_elements_ends_its_connection() -> None:
    with Scene() as scene:
        toil = Toil(scene)
        peer = scene.dial()
        peer.send(topics(1, 2, ELEMENTS_IN_ONE_GO + 1))
        scene.wait(lambda: peer.lost)
        assert toil.done == []
        assert scene.server.stats.closed[CloseReason.BODY] == 1


def test_few_large_requests_are_in_memory_at_a_time() -> None:
    with Scene() as scene:
        toil = Toil(scene)
        peers = [scene.dial() for _ in range(3 * MOST_LARGE)]
        for peer in peers:
            peer.send(topics(1, LONG, ELEMENTS_AT_ONCE + 1))
        scene.wait(lambda: all(peer.correlations == [1] for peer in peers))
        assert toil.most_at_work == MOST_LARGE


def test_room_for_large_requests_comes_back_from_connections_that_are_gone() -> None:
    with Scene() as scene:
        toil = Toil(scene)
        gone = [scene.dial() for _ in range(2 * MOST_LARGE)]
        for peer in gone:
            peer.send(topics(1, LONG, ELEMENTS_AT_ONCE + 1))
        scene.wait(lambda: toil.at_work == MOST_LARGE)
        drop_all(scene)
        scene.wait(lambda: not scene.server.stats.connections)
        assert len(scene.server.turns.large) == 0, "what waits is kept, and counted nowhere"
        last = scene.dial()
        last.send(topics(1, LONG, ELEMENTS_AT_ONCE + 1))
        answered(scene, last, 1)


def test_work_waits_for_a_job_and_goes_on_with_what_it_gave() -> None:
    def doubled(disk: Disk, given: int):  # type: ignore[no-untyped-def]
        yield Step()
        return 2 * given

    with Scene() as scene:

        def handle(ctx: RequestContext, request: MetadataRequest) -> Work:
            result = yield from elsewhere(scene.world, doubled, 21)
            ctx.respond_parts([b"%d" % result])

        scene.server.registries[0].replace(3, handle, MetadataRequest.decode)
        peer = scene.dial()
        peer.send(topics(1, 2))
        answered(scene, peer, 1)
        assert peer.frames[0].endswith(b"42")


def test_connections_that_pipeline_many_requests_take_turns() -> None:
    """Each request takes a fifth of a millisecond: a connection does not have all of its own answered first."""
    with Scene() as scene:
        toil = Toil(scene)
        scene.server.turns.monotonic = lambda: len(toil.done) * 0.0002
        scene.world.call(scene.server.hold)
        peers = [scene.dial() for _ in range(60)]
        for number, peer in enumerate(peers):
            peer.send(*(topics(each, 2, client=b"%d" % number) for each in range(20)))
        scene.settle()
        scene.world.call(scene.server.release)
        scene.wait(lambda: all(len(peer.correlations) == 20 for peer in peers))
        first = [toil.done.index(f"{number}-0") for number in range(60)]
        assert max(first) * 0.0002 < 0.05, "nobody waits for longer"
        assert toil.done.index("0-19") > max(first)


def test_work_that_goes_on_while_others_wait_has_shorter_slices() -> None:
    with Simulation(1) as sim:
        turns = Turns(sim.world("a").clock)
        ticks = count()
        turns.monotonic = lambda: next(ticks) / 10_000
        done: list[str] = []

        def work(name: str) -> Work:
            for _ in range(1000):
                done.append(name)
                yield None

        def ignore(failed: Exception | None = None) -> None:
            assert failed is None

        for name in ("a", "b"):
            assert not Errand(turns, work(name), lambda: True, ignore, ignore).begin()
        sim.run(sim.until(lambda: len(done) == 2000))
        alone, *crowded = [len(list(run)) for _, run in groupby(done)]
        assert all(length < alone / 2 for length in crowded[:5])
