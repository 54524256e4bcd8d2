"""The socket on which `up` takes orders: whatever comes there gets one line, and neither ends nor holds `up`."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from highwater.cli import local_cluster
from highwater.cli.control_socket import MOST_BYTES, MOST_CONNECTIONS, NAME, ORDER_SECONDS, ControlSocket
from highwater.cli.local_cluster import LocalCluster
from highwater.cluster.ports import free_ports

HEAL = b'{"verb": "heal"}\n'


class Served:
    def __init__(self, directory: Path, peers: ExitStack) -> None:
        self.socket = ControlSocket(directory)
        self._path = str(directory / NAME)
        self._peers = peers
        self.orders: list[dict[str, Any]] = []

    def dial(self, sent: bytes = b"") -> socket.socket:
        peer = self._peers.enter_context(closing(socket.socket(socket.AF_UNIX)))
        peer.connect(self._path)
        peer.setblocking(False)
        if sent:
            assert peer.send(sent) == len(sent)
        return peer

    def serve(self) -> None:
        self.socket.serve(self._obey)

    def _obey(self, order: dict[str, Any]) -> str:
        self.orders.append(order)
        if order["verb"] == "fail":
            raise OSError(28, "No space left on device")
        return "done"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with ExitStack() as peers:
        each = Served(tmp_path, peers)
        yield each
        each.socket.close("stopped")


def heard(peer: socket.socket) -> bytes:
    """All that came, if the connection is closed."""
    found = b""
    while data := peer.recv(MOST_BYTES):
        found += data
    return found


def refusal(peer: socket.socket) -> str:
    line = heard(peer)
    assert line.endswith(b"\n") and line.count(b"\n") == 1 and len(line) < 1_000, line
    answer: dict[str, str] = json.loads(line)
    assert list(answer) == ["refused"]
    return answer["refused"]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"heal", "an order is one line of JSON in UTF-8: "),
        (b"", "an order is one line of JSON in UTF-8: "),
        (b"\xff\xfe{", "an order is one line of JSON in UTF-8: "),
        (b"[" * 60_000, "an order is one line of JSON in UTF-8: "),
        (b'{"verb": "slow", "ms": ' + b"9" * 5_000 + b"}", "an order is one line of JSON in UTF-8: "),
        (b"[1]", 'an order is a JSON object with a "verb", which is a string'),
        (b'"heal"', 'an order is a JSON object with a "verb", which is a string'),
        (b'{"nodes": [1]}', 'an order is a JSON object with a "verb", which is a string'),
        (b'{"verb": ["down"]}', 'an order is a JSON object with a "verb", which is a string'),
    ],
)
def test_an_order_that_cannot_be_read_is_refused_with_one_line(served: Served, line: bytes, why: str) -> None:
    peer = served.dial(line + b"\n")
    served.serve()
    assert refusal(peer).startswith(why)
    assert served.orders == []
    good = served.dial(HEAL)
    served.serve()
    assert json.loads(heard(good)) == {"done": "done"}


def test_an_order_that_fails_is_refused_and_ends_nothing(served: Served) -> None:
    """As that to start a node does where no process can be made."""
    peer = served.dial(b'{"verb": "fail"}\n')
    served.serve()
    assert refusal(peer) == "the order failed: [Errno 28] No space left on device"


def test_a_line_without_an_end_is_refused_once_it_is_too_long(served: Served) -> None:
    peer = served.dial(b" " * MOST_BYTES)
    served.serve()
    peer.send(b" ")
    served.serve()
    assert refusal(peer) == "an order has at most 65536 bytes"


def test_an_order_without_a_newline_is_refused_when_its_sender_sends_no_more(served: Served) -> None:
    peer = served.dial(b'{"verb": "heal"}')
    served.serve()
    peer.shutdown(socket.SHUT_WR)
    served.serve()
    assert refusal(peer) == "the order does not end: it is one line"
    assert served.orders == []


def test_a_peer_that_sends_no_order_is_refused_after_a_while_even_if_it_sends_blanks(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1_000.0
    monkeypatch.setattr("highwater.cli.control_socket.time.monotonic", lambda: now)
    peer = served.dial()
    served.serve()
    for _ in range(4):
        now += ORDER_SECONDS / 4
        peer.send(b" ")
        served.serve()
    with pytest.raises(BlockingIOError):
        heard(peer)
    now += 0.1
    served.serve()
    assert refusal(peer) == "no order came within 10 s"


def test_peers_that_say_nothing_do_not_keep_others_from_giving_orders(served: Served) -> None:
    silent = [served.dial() for _ in range(MOST_CONNECTIONS)]
    served.serve()
    for _ in range(3):
        good = served.dial(HEAL)
        served.serve()
        assert json.loads(heard(good)) == {"done": "done"}
    assert refusal(silent[0]) == "too many connections wait, and this one sent no order"
    with pytest.raises(BlockingIOError):
        heard(silent[-1])


def test_what_a_refusal_quotes_is_cut(served: Served) -> None:
    cluster = LocalCluster(served.socket.path.parent / "data", 1, free_ports(1), {})
    try:
        peer = served.dial(json.dumps({"verb": "x" * 60_000}).encode() + b"\n")
        served.socket.serve(cluster.obey)
        assert refusal(peer) == f"no such order: {'x' * 185} ..."
    finally:
        cluster.stop()


@pytest.mark.parametrize(
    ("order", "why"),
    [
        (
            {"verb": "kill"},
            'the order kill lacks a field, or one is of another type: it needs "nodes", a list of numbers',
        ),
        ({"verb": "pause", "nodes": 1}, "the order pause lacks a field"),
        ({"verb": "resume", "nodes": {"1": 1}}, "the order resume lacks a field"),
        ({"verb": "cut", "nodes": [1, 2]}, '"one_way", true or false'),
        ({"verb": "slow", "nodes": [1, 2], "ms": True}, '"ms", a number'),
        ({"verb": "slow", "nodes": [1, 2], "ms": "5"}, '"ms", a number'),
        ({"verb": "slow", "nodes": [1, 2], "ms": 10**400}, "too large"),
        ({"verb": "slow", "nodes": [1, 2], "ms": -1}, "cannot be slower by -1 ms"),
        ({"verb": "kill", "nodes": [True]}, "there is no node True: the nodes are 1, 2"),
        ({"verb": "kill", "nodes": [1, 1]}, "node 1 is named twice"),
        ({"verb": "start", "nodes": [2, 1, 2]}, "node 2 is named twice"),
        ({"verb": "start"}, "name at least one node"),
        ({"verb": "kill", "nodes": []}, "name at least one node"),
    ],
)
def test_an_order_with_fields_that_cannot_be_meant_is_refused(tmp_path: Path, order: dict[str, Any], why: str) -> None:
    cluster = LocalCluster(tmp_path / "data", 2, free_ports(2), {})
    with ExitStack() as peers:
        try:
            peer = peers.enter_context(closing(socket.socket(socket.AF_UNIX)))
            peer.connect(str(cluster.control.path))
            peer.sendall(json.dumps(order).encode() + b"\n")
            assert not cluster.serve_orders()
            assert why in refusal(peer)
        finally:
            cluster.stop()


def test_a_full_disk_keeps_nodes_json_as_it_was_and_ends_no_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is written again as soon as there is room."""

    def full(path: Path, text: str) -> None:
        raise OSError(28, "No space left on device")

    has_room = False
    written: list[str] = []
    monkeypatch.setattr(
        local_cluster, "write_durably", lambda path, text: written.append(text) if has_room else full(path, text)
    )
    cluster = LocalCluster(tmp_path / "data", 1, free_ports(1), {})
    [member] = cluster.members
    monkeypatch.setattr(member, "look", lambda: not written)
    turns = 0

    def pause(seconds: float) -> bool:
        nonlocal has_room, turns
        turns += 1
        has_room = turns > 2
        return turns > 4

    try:
        assert [event for _, event in cluster.watch(pause, lambda line: None)] == ["died"]
        assert len(written) == 1
    finally:
        cluster.stop()
