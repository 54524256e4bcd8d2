"""Requests that take long: others are answered meanwhile, and those of the same connection keep their order."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from itertools import count, groupby
from typing import cast

import pytest

from highwater.net.context import RequestContext
from highwater.net.registry import ELEMENTS_AT_ONCE, ELEMENTS_IN_ONE_GO, Registry
from highwater.net.stats import CloseReason
from highwater.net.turns import MOST_LARGE, SLICE_SECONDS, Errand, Resume, Share, Turns, Work, elsewhere
from highwater.wire.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from highwater.world import Clock, Disk, Step
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


def test_the_next_request_of_a_connection_waits_for_a_long_one() -> None:
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


def test_the_number_of_large_requests_in_memory_is_bounded() -> None:
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


class Workshop:
    """Turns by a loop that is driven by hand. Its clock moves with each piece of work; what was done, in order."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.done: list[str] = []
        self._ready: deque[Callable[[], None]] = deque()
        self.turns = Turns(cast(Clock, self))

    def monotonic(self) -> float:
        return self.seconds

    def call_soon(self, fn: Callable[[], None]) -> None:
        self._ready.append(fn)

    def run_until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._ready.popleft()()

    def begin(self, share: Share, name: str, pieces: int, seconds: float) -> None:
        def ignore(failed: Exception | None = None) -> None:
            assert failed is None

        Errand(self.turns, share, self._work(name, pieces, seconds), lambda: True, ignore, ignore).begin()

    def _work(self, name: str, pieces: int, seconds: float) -> Work:
        for _ in range(pieces):
            self.done.append(name)
            self.seconds += seconds
            yield None


def test_work_that_goes_on_while_others_wait_has_shorter_slices() -> None:
    shop = Workshop()
    for number in range(40):
        shop.begin(Share(), str(number), 100, 0.0001)
    shop.run_until(lambda: len(shop.done) == 4000)
    alone, *crowded = [len(list(run)) for _, run in groupby(shop.done)]
    assert all(length < alone / 4 for length in crowded[:50])


def test_many_requests_at_once_share_one_slice_of_the_loop() -> None:
    """Between two looks at the sockets they have one slice, not one each."""
    shop = Workshop()
    for number in range(200):
        shop.begin(Share(), str(number), 1, 0.0004)
    assert shop.seconds <= SLICE_SECONDS + 0.0004
    shop.run_until(lambda: not shop.turns.must_wait)
    assert len(shop.done) == 200


def test_a_small_request_does_not_wait_for_large_ones() -> None:
    shop = Workshop()
    for number in range(60):
        shop.begin(Share(), f"much {number}", 1000, 0.0005)
    shop.run_until(lambda: len(shop.done) > 200)
    little, waits = Share(), list[float]()
    for number in range(20):
        due = shop.seconds + 0.02
        shop.run_until(lambda due=due: shop.seconds > due)  # type: ignore[misc]
        asked_at = shop.seconds
        shop.begin(little, f"little {number}", 1, 0.0001)
        shop.run_until(lambda number=number: f"little {number}" in shop.done)  # type: ignore[misc]
        waits.append(shop.seconds - asked_at)
    assert max(waits) < 0.002


def test_a_connection_that_asks_for_little_again_and_again_does_not_wait_for_very_many_large_requests() -> None:
    """Soon it has used more time than each of them, since they are so many."""
    shop = Workshop()
    for number in range(500):
        shop.begin(Share(), f"much {number}", 1000, 0.0005)
    shop.run_until(lambda: len(set(shop.done)) == 500)
    little, waits = Share(), list[float]()
    for number in range(60):
        asked_at = shop.seconds
        shop.done.append("nothing")
        shop.turns.add(little, lambda number=number: shop.begin(little, f"little {number}", 1, 0.0001))  # type: ignore[misc]
        shop.run_until(lambda: shop.done[-1].startswith("little") or shop.seconds > asked_at + 0.1)  # noqa: B023 at once
        waits.append(shop.seconds - asked_at)
    assert max(waits) < 0.002


def test_a_small_request_goes_before_large_ones_that_all_begin_at_once() -> None:
    """As when thousands of connections with a waiting fetch are closed together."""
    shop = Workshop()
    shop.begin(Share(), "first", 100, 0.0005)
    for number in range(500):
        shop.begin(Share(), f"much {number}", 10, 0.0005)
    asked_at = shop.seconds
    shop.turns.add(little := Share(), lambda: shop.begin(little, "little", 1, 0.0001))
    shop.run_until(lambda: "little" in shop.done)
    assert shop.seconds - asked_at < 0.002


def test_a_client_of_short_requests_does_not_wait_for_many_whose_every_request_takes_a_whole_slice() -> None:
    """Answers of half a megabyte, which 60 clients ask for again and again: no piece of one is short."""
    shop = Workshop()

    def ask(share: Share, seconds: float) -> None:
        shop.turns.add(share, lambda: work(share, seconds))

    def work(share: Share, seconds: float) -> None:
        shop.seconds += seconds
        ask(share, seconds)

    for _ in range(60):
        ask(Share(), SLICE_SECONDS)
    little, waits = Share(), list[float]()
    for number in range(40):
        asked_at = shop.seconds
        shop.turns.add(little, lambda number=number: shop.begin(little, f"little {number}", 1, 0.0001))  # type: ignore[misc]
        shop.run_until(lambda number=number: f"little {number}" in shop.done)  # type: ignore[misc]
        waits.append(shop.seconds - asked_at)
        due = shop.seconds + 0.01
        shop.run_until(lambda due=due: shop.seconds > due)  # type: ignore[misc]
    assert max(waits[:1]) < 61 * SLICE_SECONDS, "it is new, too"
    assert max(waits[3:]) < 6 * SLICE_SECONDS


def test_no_request_waits_for_ever_behind_small_ones() -> None:
    shop = Workshop()
    shop.begin(Share(), "much", 1000, 0.0005)

    def ask(share: Share, name: str) -> None:
        shop.begin(share, name, 1, 0.0005)
        shop.turns.add(share, lambda: ask(share, name))

    for number in range(10):
        ask(Share(), f"little {number}")
    shop.run_until(lambda: shop.done.count("much") == 1000)
    assert min(shop.done.count(f"little {number}") for number in range(10)) > 50, "and they go on meanwhile"


def test_a_connection_that_stays_does_not_wait_for_ever_for_new_ones() -> None:
    """Each request comes on a connection of its own, one for each turn of the loop."""
    shop = Workshop()
    shop.begin(Share(), "stays", 1000, 0.001)
    asked = 0

    def come() -> None:
        nonlocal asked
        shop.begin(Share(), f"new {asked}", 1, 0.001)
        asked += 1
        shop.call_soon(come)

    come()
    shop.run_until(lambda: asked == 3000)
    waits = [len(list(run)) for stays, run in groupby(shop.done, "stays".__eq__) if not stays]
    assert max(waits) < 20


def test_an_overloaded_loop_still_finishes_some_requests() -> None:
    """Each request comes on a new connection and needs many slices; four times as many come as the loop can serve."""
    shop = Workshop()
    asked = 0

    def come() -> None:
        nonlocal asked
        while asked * 0.0005 < shop.seconds:
            asked += 1
            shop.begin(Share(), f"request {asked}", 20, 0.0001)
        shop.call_soon(come)

    shop.begin(Share(), "request 0", 20, 0.0001)
    come()
    shop.run_until(lambda: shop.seconds > 2.0)
    finished = [pieces for pieces in Counter(shop.done).values() if pieces == 20]
    assert len(finished) > 200, "a quarter of the time would do for 250"


def test_a_loop_that_is_busy_with_other_things_gives_half_of_its_time_to_those_that_wait() -> None:
    """Such as new connections, which take no turns: each turn of the loop is as long as many slices."""
    shop = Workshop()
    for number in range(50):
        shop.begin(Share(), str(number), 1000, 0.0001)
    others = 0.0

    def accept() -> None:
        nonlocal others
        others += 0.02
        shop.seconds += 0.02
        shop.call_soon(accept)

    accept()
    shop.run_until(lambda: shop.seconds > 2.0)
    assert 0.4 < others / shop.seconds < 0.6


def test_no_request_waits_for_ever_behind_new_connections() -> None:
    shop = Workshop()
    shop.begin(Share(), "old", 100, 0.0005)

    def ask() -> None:
        """Another one is there before this one is served."""
        if len(shop.done) < 2_000:
            shop.turns.add(Share(), ask)
        shop.done.append("new")
        shop.seconds += 0.0005

    for _ in range(5):
        shop.turns.add(Share(), ask)
    shop.run_until(lambda: len(shop.done) == 2_000)
    assert shop.done.count("old") == 100


def test_time_that_was_used_while_no_request_waited_does_not_count() -> None:
    shop = Workshop()
    busy = Share()
    shop.begin(busy, "alone", 100, 0.0005)
    shop.run_until(lambda: shop.done.count("alone") == 100)
    for share, name in ((busy, "busy"), (Share(), "new")):
        shop.begin(share, name, 100, 0.0005)
    shop.run_until(lambda: shop.done.count("busy") == 100)
    assert shop.done.count("new") > 80, "they take turns"


def test_the_smallest_of_many_waiting_requests_is_served_first() -> None:
    """The cost of a request is not known before. Its size is a hint."""
    with Scene() as scene:
        toil = Toil(scene)
        scene.server.turns.monotonic = lambda: len(toil.done) * 0.002
        scene.world.call(scene.server.hold)
        for number in range(60):
            scene.dial().send(*(topics(each, 2, client=b"%d" % number) for each in range(20)))
        scene.settle()
        scene.dial().send(topics(0, 2, client=b"little"))
        scene.settle()
        scene.world.call(scene.server.release)
        scene.wait(lambda: "little-0" in toil.done)
        assert toil.done.index("little-0") <= 3
