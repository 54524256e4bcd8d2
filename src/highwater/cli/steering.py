"""The links of a node that `up` started: they are cut and slowed over a pair of sockets that only `up` and the node
have."""

from __future__ import annotations

import json
import os
import socket
import time
from asyncio import AbstractEventLoop
from collections.abc import Mapping, Sequence
from typing import Final

from highwater.faults import Condition, FaultyNet
from highwater.model import Endpoint, NodeId
from highwater.world.real import RealWorld

Conditions = Sequence[tuple[NodeId, Condition]]
"""The condition of the link to each peer."""
_CHUNK: Final = 65536


class Steered:
    """The end of the node, made before the fork. `install` puts the fault layer below its network."""

    def __init__(self, end: socket.socket, peers: Mapping[Endpoint, NodeId], conditions: Conditions) -> None:
        self._end = end
        self._peers = peers
        self._conditions = conditions
        self._heard = bytearray()

    @classmethod
    def inherited(cls, descriptor: int) -> Steered:
        """In a process that was started with the socket: the first line there describes it."""
        end = socket.socket(fileno=descriptor)
        first = b""
        while not first.endswith(b"\n"):
            byte = end.recv(1)
            if not byte:
                raise ValueError("the socket ended before its first line")
            first += byte
        found = json.loads(first)
        peers = {Endpoint(host, port): NodeId(peer) for host, port, peer in found["peers"]}
        return cls(end, peers, [(NodeId(peer), Condition(*condition)) for peer, *condition in found["links"]])

    @property
    def description(self) -> bytes:
        """The peers and their links, as one line."""
        peers = [[at.host, at.port, peer] for at, peer in self._peers.items()]
        links = [[peer, *condition] for peer, condition in self._conditions]
        return json.dumps({"peers": peers, "links": links}).encode() + b"\n"

    def fileno(self) -> int:
        return self._end.fileno()

    def install(self, world: RealWorld, loop: AbstractEventLoop) -> None:
        net = FaultyNet(world.net, world.clock, self._peers)
        for peer, condition in self._conditions:
            net.change(peer, condition)
        world.net = net
        self._end.setblocking(False)
        loop.add_reader(self._end, self._read, net, loop)

    def close(self) -> None:
        """In the parent, which has the other end."""
        self._end.close()

    def _read(self, net: FaultyNet, loop: AbstractEventLoop) -> None:
        """Each line is an order, and its number is the answer. If `up` has ended, no order comes any more."""
        try:
            data = self._end.recv(_CHUNK)
        except BlockingIOError:
            return
        except ConnectionError:
            data = b""
        if not data:
            loop.remove_reader(self._end)
            return
        self._heard += data
        *lines, rest = bytes(self._heard).split(b"\n")
        self._heard[:] = rest
        for line in lines:
            order = json.loads(line)
            for peer, *condition in order["links"]:
                net.change(NodeId(peer), Condition(*condition))
            self._end.send(b"%d\n" % order["number"])


class Steering:
    """The end of `up`, for one process of a node."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._sent = 0
        self._heard = bytearray()

    @classmethod
    def pair(cls, peers: Mapping[Endpoint, NodeId], conditions: Conditions) -> tuple[Steering, Steered]:
        ours, theirs = socket.socketpair()
        return cls(ours), Steered(theirs, peers, conditions)

    def hand_over(self, steered: Steered) -> int:
        """For a process that is started and not forked: returns the descriptor that it needs."""
        self._end.sendall(steered.description)
        return steered.fileno()

    def order(self, conditions: Conditions) -> int:
        """Sends the order and does not wait. A paused node carries it out when it resumes, before anything else."""
        self._sent += 1
        links = [[peer, *condition] for peer, condition in conditions]
        try:
            self._end.sendall(json.dumps({"number": self._sent, "links": links}).encode() + b"\n")
        except ConnectionError:
            return 0  # it has ended
        return self._sent

    def wait(self, number: int, seconds: float) -> bool:
        """Whether the order is in force by then. An order to a process that has ended needs no answer."""
        deadline = time.monotonic() + seconds
        while number:
            *lines, rest = bytes(self._heard).split(b"\n")
            if any(int(line) >= number for line in lines):
                self._heard[:] = rest
                return True
            self._end.settimeout(max(deadline - time.monotonic(), 0.001))
            try:
                data = self._end.recv(_CHUNK)
            except TimeoutError:
                return False
            except ConnectionError:
                return True
            finally:
                self._end.settimeout(None)
            if not data:
                return True
            self._heard += data
        return True

    def close(self) -> None:
        self._end.close()


def is_stopped(pid: int) -> bool:
    """Whether the process stands still, by SIGSTOP or a terminal."""
    return _state(pid) in (b"T", b"t")


def has_ended(pid: int) -> bool:
    """Whether there is no such process, or only its exit code is left."""
    return _state(pid) in (b"", b"Z", b"X")


def _state(pid: int) -> bytes:
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
            return os.read(file.fileno(), 4096).rpartition(b")")[2].split()[0]
    except (OSError, IndexError):
        return b""
