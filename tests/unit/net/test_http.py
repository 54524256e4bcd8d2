"""Just enough HTTP: which requests are answered, which are refused, and to which peers."""

from __future__ import annotations

import asyncio
from asyncio import BaseTransport, Protocol, WriteTransport
from collections.abc import Callable, Iterator
from typing import cast

import pytest

from highwater.model import Endpoint
from highwater.net.http import ASK_SECONDS, MAX_CONNECTIONS, TAKE_SECONDS, HttpServer, NoPage, Page, Part, Query
from highwater.net.metrics import counter, exposition, gauge, labels
from highwater.sim import Simulation
from highwater.world.real import RealWorld
from tests.unit.net.parties import Peer

GET = b"GET /page HTTP/1.1\r\nHost: localhost\r\n\r\n"


def asked(head: str, host: str | None = "127.0.0.1:9090") -> str:
    with_simulation = Simulation(1)
    try:
        server = HttpServer(
            with_simulation.world("node"), {"/status": lambda query: Page("a/b", (b"fi", b"ne"))}, ["broker.example"]
        )
        lines = [head, "Accept: */*"] if host is None else [head, f"Host: {host}", "Accept: */*"]
        parts = server.answer("\r\n".join(lines).encode())
        return b"".join(part for part in parts if isinstance(part, bytes)).decode()
    finally:
        with_simulation.close()


def status(answer: str) -> int:
    return int(answer.split()[1])


def test_a_page_is_answered_whole_and_the_connection_closed() -> None:
    answer = asked("GET /status?now=1 HTTP/1.1")
    assert status(answer) == 200
    assert "Content-Type: a/b\r\n" in answer and "Connection: close\r\n" in answer
    assert answer.endswith("\r\n\r\nfine")


def test_head_gives_the_same_without_the_page() -> None:
    answer = asked("HEAD /status HTTP/1.0")
    assert status(answer) == 200 and "Content-Type: a/b\r\n" in answer and answer.endswith("\r\n\r\n")


def test_an_unknown_path_is_answered_with_those_that_exist() -> None:
    answer = asked("GET / HTTP/1.1")
    assert status(answer) == 404 and "try /status" in answer


@pytest.mark.parametrize(
    ("head", "code"), [("POST /status HTTP/1.1", 405), ("GET /status", 400), ("GET /status SPDY/3", 400), ("", 400)]
)
def test_other_http_methods_and_malformed_requests_are_refused(head: str, code: int) -> None:
    assert status(asked(head)) == code


@pytest.mark.parametrize(
    ("host", "code"),
    [
        ("localhost:9090", 200),
        ("10.1.2.3:9090", 200),
        ("10.1.2.3", 200),
        ("[::1]:9090", 200),
        ("[fe80::1]", 200),
        ("broker.example:9090", 200),
        (None, 200),
        ("evil.example", 403),
        ("evil.example:9090", 403),
        ("127.0.0.1.evil.example:9090", 403),
    ],
)
def test_a_name_that_is_not_ours_gets_nothing(host: str | None, code: int) -> None:
    """A page of evil.example could else read it, once that name is turned to our address."""
    assert status(asked("GET /status HTTP/1.1", host)) == code


def test_metrics_are_written_as_prometheus_reads_them() -> None:
    class Some:
        def collect(self):  # type: ignore[no-untyped-def]
            yield gauge("level", "How high.", [(labels(tank='a "b" \\', floor=2), 1.5), (labels(tank="c"), 2)])
            yield counter("turns", "How often.", 7)

    parts = [part for part in exposition([Some()]) if isinstance(part, bytes)]
    assert b"".join(parts).decode().splitlines() == [
        "# HELP level How high.",
        "# TYPE level gauge",
        r'level{tank="a \"b\" \\",floor="2"} 1.5',
        'level{tank="c"} 2',
        "# HELP turns_total How often.",
        "# TYPE turns_total counter",
        "turns_total 7",
    ]


class Caller(Protocol):
    """Sends once it is connected, and keeps what comes back."""

    def __init__(self, request: bytes, ended: asyncio.Future[None]) -> None:
        self._request = request
        self._ended = ended
        self.data = b""

    def connection_made(self, transport: BaseTransport) -> None:
        cast(WriteTransport, transport).write(self._request)

    def data_received(self, data: bytes) -> None:
        self.data += data

    def connection_lost(self, failed: Exception | None) -> None:
        self._ended.set_result(None)


def called(request: bytes, page: Callable[[Query], Page]) -> bytes:
    """Over a real connection, to its end."""

    async def call() -> bytes:
        loop = asyncio.get_running_loop()
        world = RealWorld(loop, lambda name, failed: None)
        server = HttpServer(world, {"/page": page})
        at = await server.start(Endpoint("127.0.0.1", 0))
        ended: asyncio.Future[None] = loop.create_future()
        _, caller = await loop.create_connection(lambda: Caller(request, ended), at.host, at.port)
        await asyncio.wait_for(ended, 30)
        server.close()
        world.close()
        return caller.data

    return asyncio.run(call())


def test_a_page_waits_for_what_it_has_to_ask_for_first() -> None:
    asked: list[Callable[[], None]] = []

    def ask(then: Callable[[], None]) -> None:
        asked.append(then)
        asyncio.get_running_loop().call_later(0.01, then)

    def parts() -> Iterator[Part]:
        yield ask
        yield b"asked %d times" % len(asked)

    assert called(GET, lambda query: Page("a/b", parts())).endswith(b"\r\n\r\nasked 1 times")


def test_the_parts_of_a_page_come_in_their_order_over_many_turns_of_the_loop() -> None:
    parts = [b"%d\n" % number * 1000 for number in range(100)]
    answer = called(GET, lambda query: Page("a/b", iter(parts)))
    assert answer.partition(b"\r\n\r\n")[2] == b"".join(parts)


def test_bytes_after_an_http_request_are_ignored() -> None:
    assert b"200 OK" in called(GET + b"and more" * 800, lambda query: Page("a/b", (b"page",)))


def test_an_http_page_that_fails_midway_does_not_look_whole(caplog: pytest.LogCaptureFixture) -> None:
    def failing() -> Iterator[bytes]:
        yield b"half"
        raise ValueError("it cannot be shown")

    called(GET, lambda query: Page("a/b", failing()))
    assert "a page of /status or /metrics: an unexpected error" in caplog.text and "it cannot be shown" in caplog.text


# --- a peer that connects and says nothing, on virtual time


class Hall:
    """An HTTP server in the simulated world, and those who dial it."""

    def __init__(self, sim: Simulation, page: Callable[[Query], Page]) -> None:
        self.sim = sim
        self.world, self.others = sim.world("node"), sim.world("others")
        self.server = HttpServer(self.world, {"/page": page})
        self.at = sim.run(self.world.perform(self.server.start(Endpoint("node", 8080))))

    def dial(self) -> Peer:
        caller = Peer()
        self.sim.run(self.others.perform(self.others.net.dial(lambda: caller, self.at)))
        return caller


def fine(query: Query) -> Page:
    return Page("a/b", (b"fine",))


def test_a_client_that_sends_no_request_in_time_is_disconnected() -> None:
    with Simulation(1) as sim:
        hall = Hall(sim, fine)
        silent, halting = hall.dial(), hall.dial()
        hall.others.call(halting.transport.write, GET[:10])
        sim.advance(ASK_SECONDS - 1)
        assert not silent.lost and not halting.lost
        sim.advance(2)
        assert silent.lost and halting.lost
        asking = hall.dial()
        hall.others.call(asking.transport.write, GET)
        sim.run(sim.until(lambda: asking.lost))
        assert asking.data.endswith(b"fine")


def test_a_request_is_answered_even_if_many_connections_are_idle() -> None:
    with Simulation(2) as sim:
        hall = Hall(sim, fine)
        idle = [hall.dial() for _ in range(4 * MAX_CONNECTIONS)]
        sim.advance(1)
        assert sum(not each.lost for each in idle) == MAX_CONNECTIONS
        asking = hall.dial()
        hall.others.call(asking.transport.write, GET)
        sim.run(sim.until(lambda: asking.lost))
        assert asking.data.endswith(b"fine")


def test_a_page_is_made_no_faster_than_it_is_read_and_not_for_ever() -> None:
    made: list[int] = []

    def parts() -> Iterator[Part]:
        for number in range(1000):
            made.append(number)
            yield bytes(16 * 1024)

    with Simulation(3) as sim:
        hall = Hall(sim, lambda query: Page("a/b", parts()))
        deaf = hall.dial()
        hall.others.call(deaf.transport.write, GET)
        hall.others.call(deaf.transport.pause_reading)
        sim.advance(TAKE_SECONDS - 1)
        assert 0 < len(made) < 64
        sim.advance(TAKE_SECONDS)
        hall.others.call(deaf.transport.resume_reading)
        sim.run(sim.until(lambda: deaf.lost))
        assert len(made) < 64


def test_a_page_gets_its_query_decoded_and_may_refuse_it() -> None:
    taken: list[Query] = []

    def page(query: Query) -> Page:
        taken.append(query)
        if "no" in query:
            raise NoPage(404, "not here")
        return Page("a/b", (b"fine",))

    def ask(address: bytes) -> bytes:
        return called(b"GET " + address + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", page)

    assert b"200 OK" in ask(b"/page?topic=a%2Fb+c&summary&partition=7&partition=8")
    assert taken == [{"topic": "a/b c", "summary": "", "partition": "8"}]
    refused = ask(b"/page?no")
    assert b"404 Not Found" in refused and refused.endswith(b"not here\n")


def test_one_turn_of_the_loop_makes_a_part_of_only_one_of_many_pages() -> None:
    in_turn = most = 0
    waiting: list[Callable[[], None]] = []

    with Simulation(4) as sim:

        def end_turn() -> None:
            nonlocal in_turn
            in_turn = 0

        def parts() -> Iterator[Part]:
            nonlocal in_turn, most
            yield waiting.append
            for _ in range(5):
                if not in_turn:
                    hall.world.clock.call_soon(end_turn)
                in_turn += 1
                most = max(most, in_turn)
                yield b"part"

        def go_on() -> None:
            for then in waiting:
                then()

        hall = Hall(sim, lambda query: Page("a/b", parts()))
        asking = [hall.dial() for _ in range(20)]
        for each in asking:
            hall.others.call(each.transport.write, GET)
        sim.run(sim.until(lambda: len(waiting) == len(asking)))
        hall.world.call(go_on)
        sim.run(sim.until(lambda: all(each.lost for each in asking)))
        assert all(each.data.endswith(b"part" * 5) for each in asking)
        assert most == 1
