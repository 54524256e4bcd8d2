"""What a peer may send that no client would: Kafka's own answer, and no harm to others."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.net.registry import MOST_BYTES, Api
from highwater.net.stats import CloseReason
from highwater.wire.framing import CHUNK, MAX_FRAME
from highwater.wire.messages.api_versions_request import ApiVersionsRequest
from highwater.wire.messages.api_versions_response import ApiVersionsResponse
from highwater.wire.messages.heartbeat_request import HeartbeatRequest
from tests.unit.net.parties import ASK, Scene, ask, framed, header

NO_ANSWER = [
    ("frame size 0", struct.pack(">i", 0), CloseReason.FRAME),
    ("frame size -1", struct.pack(">i", -1), CloseReason.FRAME),
    ("the least frame size", struct.pack(">i", -(2**31)), CloseReason.FRAME),
    ("frame size beyond the bound", struct.pack(">i", MAX_FRAME + 1), CloseReason.FRAME),
    ("a TLS hello", bytes.fromhex("1603010200010001fc0303"), CloseReason.FRAME),
    ("an HTTP request", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", CloseReason.FRAME),
    ("an empty header", framed(b"\x00"), CloseReason.HEADER),
    ("a header cut before the client id", framed(header(ASK, 0, 1)[:8]), CloseReason.HEADER),
    ("a header cut in the client id", framed(header(ASK, 0, 1)[:-1]), CloseReason.HEADER),
    ("a client id of negative length", framed(struct.pack(">hhih", ASK, 0, 1, -2)), CloseReason.HEADER),
    ("a client id longer than the frame", framed(struct.pack(">hhih", ASK, 0, 1, 32767)), CloseReason.HEADER),
    ("a client id that is not UTF-8", framed(header(ASK, 0, 1, b"\xff\xfe")), CloseReason.HEADER),
    ("a flexible header without tags", framed(header(ASK, 9, 1)), CloseReason.HEADER),
    ("a tag count beyond the bytes", framed(header(ASK, 9, 1) + b"\xff\xff\xff\xff\x07"), CloseReason.HEADER),
    ("a tag longer than the bytes", framed(header(ASK, 9, 1) + b"\x01\x00\x7f"), CloseReason.HEADER),
    ("an endless varint", framed(header(ASK, 9, 1) + b"\xff" * 10), CloseReason.HEADER),
    ("an unknown API", framed(header(9999, 0, 1)), CloseReason.UNKNOWN_API),
    ("a negative API key", framed(header(-1, 0, 1)), CloseReason.UNKNOWN_API),
    ("a version beyond the range", framed(header(ASK, 14, 1)), CloseReason.UNKNOWN_API),
    ("a negative version", framed(header(ASK, -1, 1)), CloseReason.UNKNOWN_API),
    ("Produce 2, advertised but not handled", framed(header(0, 2, 1) + bytes(20)), CloseReason.UNKNOWN_API),
    ("a malformed body", ask(1, b"malformed"), CloseReason.BODY),
]


@pytest.mark.parametrize(("sent", "reason"), [row[1:] for row in NO_ANSWER], ids=[row[0] for row in NO_ANSWER])
def test_is_closed_without_an_answer(sent: bytes, reason: CloseReason) -> None:
    with Scene() as scene:
        scene.asked.react = lambda ctx, body: ctx.respond_parts([b"ok"])
        peer, other = scene.dial(), scene.dial()
        peer.send(sent)
        scene.wait(lambda: peer.lost)
        assert bytes(peer.data) == b""
        assert scene.server.stats.closed[reason] == 1
        other.send(ask(5))
        scene.wait(lambda: other.correlations == [5])


BRIEF = 12
"""The key of an API whose requests have 1 000 bytes at most."""


def brief_too() -> Scene:
    scene = Scene()
    brief = Api(BRIEF, (0, 3), HeartbeatRequest, most_bytes=1000, decode=lambda body, version, most: body)
    scene.server.registries[0].add(brief, scene.asked.handle)
    return scene


def of_bytes(key: int, version: int, correlation: int, size: int) -> bytes:
    start = header(key, version, correlation)
    return framed(start + bytes(size - len(start)))


@pytest.mark.parametrize(
    ("key", "name", "sent", "most"),
    [
        (BRIEF, "HeartbeatRequest", of_bytes(BRIEF, 0, 2, 1001), 1000),
        (ASK, "MetadataRequest", of_bytes(ASK, 0, 2, MOST_BYTES + 1)[: CHUNK // 2 + 1000], MOST_BYTES),
    ],
    ids=["once it is there", "once it has begun"],
)
def test_a_request_of_more_bytes_than_its_api_may_have_ends_its_connection(
    caplog: pytest.LogCaptureFixture, key: int, name: str, sent: bytes, most: int
) -> None:
    """Before it is decoded, or takes much memory; the requests before it are answered."""
    with brief_too() as scene:
        peer, other = scene.dial(), scene.dial()
        peer.send(ask(1), sent)
        scene.wait(lambda: name in caplog.text)
        assert not peer.lost
        scene.asked[0].respond_parts([b""])
        scene.wait(lambda: peer.lost)
        assert peer.correlations == [1]
        assert scene.server.stats.closed[CloseReason.FRAME] == 1
        assert scene.server.budget.receiving == 0
        other.send(ask(5))
        scene.wait(lambda: len(scene.asked) == 2)
    assert [each.getMessage() for each in caplog.records if name in each.getMessage()] == [
        f"closed the connection of {scene.asked[0].peer}: a {name} v0 of {most + 1} bytes, "
        f"and {most} is the most that it may have"
    ]


@pytest.mark.parametrize(("key", "size"), [(ASK, MOST_BYTES), (BRIEF, 1000), (0, MOST_BYTES + 1)])
def test_a_request_of_no_more_bytes_than_its_api_may_have_is_handled(key: int, size: int) -> None:
    with brief_too() as scene:
        scene.asked.react = lambda ctx, body: ctx.respond_parts([b"ok"])
        peer = scene.dial()
        peer.send(of_bytes(key, 3, 1, size))
        scene.wait(lambda: peer.correlations == [1])


def test_requests_before_the_broken_one_are_answered() -> None:
    with Scene() as scene:
        peer = scene.dial()
        peer.send(ask(1), ask(2), framed(header(9999, 0, 3)), ask(4))
        scene.wait(lambda: len(scene.asked) == 2)
        scene.asked[1].respond_parts([b""])
        scene.settle()
        assert not peer.lost
        scene.asked[0].respond_parts([b""])
        scene.wait(lambda: peer.lost)
        assert peer.correlations == [1, 2]
        assert len(scene.asked) == 2


@pytest.mark.parametrize("version", [5, 99, 32767, -1])
def test_an_unknown_version_of_api_versions_is_answered_in_version_0(version: int) -> None:
    with Scene() as scene:
        scene.asked.react = lambda ctx, body: ctx.respond_parts([b"ok"])
        peer = scene.dial()
        peer.send(framed(header(18, version, 31) + b"what a future version may hold"), ask(32))
        scene.wait(lambda: peer.correlations == [31, 32])
        answer = ApiVersionsResponse.decode(peer.frames[0][4:], 0)
        assert answer.error_code == 35
        assert [(entry.api_key, entry.min_version, entry.max_version) for entry in answer.api_keys] == [(18, 0, 4)]
        assert len(peer.frames[0]) == 4 + 2 + 4 + 6


@pytest.mark.parametrize(
    ("name", "version"), [("bad name", "1"), ("", "1"), ("-a", "1"), ("a.", "1"), ("a", ""), ("a", "1_0"), ("ü", "1")]
)
def test_a_bad_software_name_is_an_invalid_request(name: str, version: str) -> None:
    with Scene() as scene:
        peer = scene.dial()
        body = ApiVersionsRequest(client_software_name=name, client_software_version=version).encode(3)
        peer.send(framed(header(18, 3, 8) + b"\x00" + body))
        scene.wait(lambda: len(peer.frames) == 1)
        answer = ApiVersionsResponse.decode(peer.frames[0][4:], 3)
        assert (answer.error_code, answer.api_keys) == (42, [])
        assert not peer.lost


@settings(deadline=None, max_examples=150)
@given(st.lists(st.binary(max_size=40).map(framed) | st.binary(max_size=60) | st.just(ask(1)), max_size=6))
def test_no_bytes_stop_the_server(pieces: list[bytes]) -> None:
    with Scene() as scene:
        scene.asked.react = lambda ctx, body: ctx.respond_parts([b"ok"])
        peer, other = scene.dial(), scene.dial()
        for piece in pieces:
            if piece:
                peer.send(piece)
        other.send(ask(5))
        scene.wait(lambda: other.correlations == [5])
        peer.transport.close()
        scene.wait(lambda: scene.server.stats.connections == 1)
        assert scene.server.budget.unanswered == 0
        assert scene.server.budget.receiving == 0
