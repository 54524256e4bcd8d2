"""The dialling side: every call is answered once, and a connection that ends says why."""

from __future__ import annotations

import struct
from asyncio import BufferedProtocol
from collections.abc import Callable

import pytest

from highwater.model import Endpoint
from highwater.net.client import CallFailed, ClientConnection, Gone
from highwater.net.context import RequestContext
from highwater.net.deadlines import DeadlineQueue
from highwater.wire.messages.api_versions_request import ApiVersionsRequest
from highwater.wire.messages.api_versions_response import ApiVersion, ApiVersionsResponse
from highwater.wire.messages.metadata_request import MetadataRequest
from highwater.wire.messages.metadata_response import MetadataResponse
from tests.unit.net.parties import ASK, Peer, Scene, framed

SERVER = Endpoint("server", 9092)


class Caller:
    """A connection with a record of what became of it."""

    def __init__(self, scene: Scene, to: Endpoint = SERVER, negotiate: bool = True, max_frame: int = 1 << 20) -> None:
        self.events: list[object] = []
        self.answers: list[object] = []
        self.deadlines = DeadlineQueue(scene.clients.clock)
        self.connection = ClientConnection(
            scene.clients, to, "caller", self.deadlines, self.events.append, max_frame=max_frame
        )
        self.connection.open(lambda: self.events.append("open"), timeout=2.0, negotiate=negotiate)

    def ask(self, body: bytes = b"", timeout: float = 5.0) -> None:
        self.connection.send_raw(ASK, 9, True, [body], self.took, timeout)

    def took(self, answer: memoryview | CallFailed) -> None:
        self.answers.append(answer.reason if isinstance(answer, CallFailed) else bytes(answer))


def opened(scene: Scene, **options: object) -> Caller:
    caller = Caller(scene, **options)  # type: ignore[arg-type]
    scene.wait(lambda: caller.events != [])
    assert caller.events == ["open"]
    return caller


def listen(scene: Scene, port: int, factory: Callable[[], BufferedProtocol]) -> Endpoint:
    """A peer of the test's own making."""
    at = Endpoint("server", port)
    scene.sim.run(scene.world.perform(scene.world.net.listen(factory, at)))
    return at


def echo(ctx: RequestContext, body: memoryview) -> None:
    ctx.respond_parts([bytes(body)])


def test_the_versions_of_the_peer_are_asked_before_it_opens() -> None:
    with Scene() as scene:
        connection = opened(scene).connection
        assert connection.versions == {0: (0, 13), 3: (0, 13), 18: (0, 4)}
        assert connection.pick(3, (0, 99)) == 13
        assert connection.pick(3, (5, 9)) == 9
        assert connection.pick(3, (14, 15)) is None
        assert connection.pick(1, (0, 5)) is None


def test_answers_come_back_to_their_calls() -> None:
    with Scene() as scene:
        scene.asked.react = echo
        caller = opened(scene)
        for n in range(300):
            caller.ask(b"%d" % n)
        scene.wait(lambda: len(caller.answers) == 300)
        assert caller.answers == [b"%d" % n for n in range(300)]
        assert len(caller.deadlines) == 0


def test_a_message_is_encoded_and_its_answer_decoded() -> None:
    with Scene() as scene:
        caller = opened(scene, negotiate=False)
        answers: list[ApiVersionsResponse | CallFailed] = []
        request = ApiVersionsRequest(client_software_name="x", client_software_version="1")
        caller.connection.send(request, 3, ApiVersionsResponse, answers.append, 5.0)
        scene.wait(lambda: len(answers) == 1)
        assert isinstance(answers[0], ApiVersionsResponse)
        assert answers[0].finalized_features_epoch == 42
        scene.asked.react = echo
        caller.connection.send(MetadataRequest(topics=[]), 9, MetadataRequest, answers.append, 5.0)  # type: ignore[arg-type]
        scene.wait(lambda: len(answers) == 2)
        assert answers[1] == MetadataRequest(topics=[])
        assert scene.asked[0].client_id == "caller"


def test_a_refused_dial_says_so() -> None:
    with Scene() as scene:
        caller = Caller(scene, Endpoint("server", 1))
        scene.wait(lambda: caller.events == [Gone.REFUSED])
        scene.settle()
        assert len(caller.deadlines) == 0


def test_a_dial_without_an_answer_times_out() -> None:
    with Scene() as scene:
        scene.sim.cut("client", "server")
        caller = Caller(scene)
        scene.sim.advance(1.9)
        assert caller.events == []
        scene.sim.advance(0.2)
        assert caller.events == [Gone.TIMED_OUT]
        scene.sim.heal()
        scene.sim.advance(20)
        assert caller.events == [Gone.TIMED_OUT]
        assert scene.server.stats.accepted == 0


def test_a_request_without_an_answer_ends_the_connection_and_all_its_calls() -> None:
    with Scene() as scene:
        caller = opened(scene)
        caller.ask(timeout=3.0)
        caller.ask(timeout=1.0)
        scene.sim.advance(0.9)
        assert caller.answers == []
        scene.sim.advance(0.2)
        assert caller.answers == [Gone.TIMED_OUT, Gone.TIMED_OUT]
        assert caller.events == ["open", Gone.TIMED_OUT]
        for ctx in scene.asked:
            ctx.respond_parts([b"too late"])
        scene.wait(lambda: scene.server.stats.connections == 0)


@pytest.mark.parametrize("end", ["close", "reset"])
def test_a_lost_connection_fails_its_calls_first_and_then_says_so(end: str) -> None:
    with Scene() as scene:
        caller = opened(scene)
        caller.connection._on_close = lambda reason: caller.answers.append(("closed", reason))
        caller.ask()
        caller.ask()
        scene.wait(lambda: len(scene.asked) == 2)
        if end == "close":
            scene.asked[0].slot.close_connection()
        else:
            scene.sim.reset("client", "server")
        scene.wait(lambda: len(caller.answers) == 3)
        assert caller.answers == [Gone.LOST, Gone.LOST, ("closed", Gone.LOST)]
        scene.settle()
        assert len(caller.deadlines) == 0


def test_a_call_after_the_end_fails_later_and_not_within_send() -> None:
    with Scene() as scene:
        caller = opened(scene)
        caller.connection.close()
        caller.connection.close()
        caller.ask()
        assert caller.answers == []
        scene.wait(lambda: caller.answers == [Gone.CLOSED])
        assert caller.events == ["open", Gone.CLOSED]


def test_closing_while_the_dial_is_under_way_leaves_nothing_behind() -> None:
    with Scene() as scene:
        caller = Caller(scene)
        caller.connection.close()
        scene.sim.advance(20)
        assert caller.events == [Gone.CLOSED]
        assert scene.server.stats.connections == 0


def test_a_dial_that_succeeds_after_the_end_is_hung_up() -> None:
    with Scene() as scene:
        caller = Caller(scene)
        caller.connection.close()
        peers = [Peer()]
        at = listen(scene, 7000, lambda: peers[0])
        scene.sim.run(scene.clients.perform(scene.clients.net.dial(lambda: caller.connection, at, None)))
        scene.wait(lambda: peers[0].lost)
        assert caller.events == [Gone.CLOSED]


class Answering(Peer):
    """Answers every read with the given bytes."""

    def __init__(self, *answers: bytes) -> None:
        super().__init__()
        self.answers = list(answers)

    def buffer_updated(self, nbytes: int) -> None:
        super().buffer_updated(nbytes)
        while self.answers and len(self.frames) > 0:
            del self.data[: 4 + len(self.frames[0])]
            self.send(self.answers.pop(0))


@pytest.mark.parametrize(
    "answer",
    [
        struct.pack(">i", 0),
        struct.pack(">i", -7),
        struct.pack(">i", (1 << 20) + 1),
        framed(b"abc"),
        framed(struct.pack(">i", 99) + b"\x00"),
        framed(struct.pack(">i", 1)),
        framed(struct.pack(">i", 1) + b"\xff" * 9),
        framed(struct.pack(">i", 1) + b"\x00") + framed(struct.pack(">i", 2) + b"\x00"),
    ],
    ids=["size 0", "negative", "too large", "no id", "another id", "no tags", "bad tags", "not asked for"],
)
def test_a_response_that_no_node_sends_breaks_the_connection(answer: bytes) -> None:
    with Scene() as scene:
        at = listen(scene, 7000, lambda: Answering(answer))
        caller = opened(scene, to=at, negotiate=False)
        caller.ask()
        scene.wait(lambda: len(caller.events) == 2)
        assert caller.events == ["open", Gone.BROKEN]
        assert len(caller.answers) == 1


def test_a_body_that_is_malformed_breaks_the_connection() -> None:
    with Scene() as scene:
        scene.asked.react = echo
        caller = opened(scene)
        answers: list[object] = []
        caller.connection.send(MetadataRequest(), 9, MetadataResponse, answers.append, 5.0)
        scene.wait(lambda: len(caller.events) == 2)
        assert caller.events == ["open", Gone.BROKEN]
        assert [failed.reason for failed in answers if isinstance(failed, CallFailed)] == [Gone.BROKEN]


def test_a_caller_that_fails_on_an_answer_loses_its_connection(caplog: pytest.LogCaptureFixture) -> None:
    def fail(answer: object) -> None:
        raise ZeroDivisionError

    with Scene() as scene:
        scene.sim.forgives = True
        scene.asked.react = echo
        caller = opened(scene)
        caller.connection.send_raw(ASK, 9, True, [], fail, 5.0)
        caller.ask()
        scene.wait(lambda: caller.events == ["open", Gone.CLOSED])
        assert caller.answers == [Gone.CLOSED]
        assert "ZeroDivisionError" in caplog.text


def old_peer(highest: int) -> Peer:
    mine = [ApiVersion(api_key=18, min_version=0, max_version=highest), ApiVersion(api_key=3, max_version=5)]
    refusal = struct.pack(">i", 1) + ApiVersionsResponse(error_code=35, api_keys=mine[:1]).encode(0)
    answer = struct.pack(">i", 2) + ApiVersionsResponse(api_keys=mine).encode(highest)
    return Answering(framed(refusal), framed(answer))


@pytest.mark.parametrize("highest", [0, 2, 3])
def test_an_older_peer_is_asked_again_in_a_version_that_it_knows(highest: int) -> None:
    with Scene() as scene:
        at = listen(scene, 7000, lambda: old_peer(highest))
        caller = opened(scene, to=at)
        assert caller.connection.versions == {18: (0, highest), 3: (0, 5)}


@pytest.mark.parametrize("listed", [[], [ApiVersion(api_key=18, min_version=0, max_version=4)]])
def test_a_peer_that_refuses_every_version_is_broken(listed: list[ApiVersion]) -> None:
    """Even one that lists the version which it refuses: it is not asked in that version again and again."""
    refusal = ApiVersionsResponse(error_code=35, api_keys=listed).encode(0)
    with Scene() as scene:
        peer = Answering(*(framed(struct.pack(">i", number) + refusal) for number in range(1, 100)))
        caller = Caller(scene, to=listen(scene, 7000, lambda: peer))
        scene.wait(lambda: caller.events == [Gone.BROKEN])
        assert len(peer.answers) == 97, "it was asked in the newest version, and then in version 0"


def test_negotiation_that_gets_no_answer_times_out() -> None:
    with Scene() as scene:
        at = listen(scene, 7000, Peer)
        caller = Caller(scene, to=at)
        scene.sim.advance(3)
        assert caller.events == [Gone.TIMED_OUT]
