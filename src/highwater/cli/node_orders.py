"""The orders that `up` takes for its nodes: kill, pause, resume, cut, slow, heal. Each is in force when it is
answered."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

from highwater.cli.control_socket import Refused
from highwater.cli.node_process import NodeProcess
from highwater.cli.steering import Conditions, Steered, Steering, is_stopped
from highwater.cluster.layout import NodeLayout
from highwater.cluster.links import Links
from highwater.model import NodeId

SIGNAL_SECONDS: Final = 10.0
LINK_SECONDS: Final = 5.0
_POLL_SECONDS: Final = 0.005
_NODES: Final = '"nodes", a list of numbers'
NEEDS: Final = {
    "kill": _NODES,
    "pause": _NODES,
    "resume": _NODES,
    "cut": '"nodes", two numbers, and "one_way", true or false',
    "slow": '"nodes", two numbers, and "ms", a number',
}
"""The fields of an order, for one that lacks them."""


class NodeOrders:
    def __init__(self, layouts: Sequence[NodeLayout], processes: Sequence[NodeProcess]) -> None:
        self._layouts = {each.id: each for each in layouts}
        self._processes = {each.id: each for each in processes}
        self._links = Links()
        self._steerings: dict[NodeId, tuple[int, Steering]] = {}
        """With the pid that the other end has."""

    # --- forks

    def prepare(self, node: NodeId) -> tuple[Steering, Steered]:
        """For a node that is about to be forked: the links are as they were ordered."""
        peers = {at: each.id for each in self._layouts.values() if each.id != node for at in each.endpoints}
        return Steering.pair(peers, self._conditions(node))

    def forked(self, node: NodeId, pid: int, steering: Steering) -> None:
        self._close(node)
        self._steerings[node] = (pid, steering)

    def release(self) -> None:
        """In a fork, and at the end."""
        for node in list(self._steerings):
            self._close(node)

    def _close(self, node: NodeId) -> None:
        found = self._steerings.pop(node, None)
        if found is not None:
            found[1].close()

    # --- orders

    def obey(self, order: dict[str, Any]) -> str:
        match order:
            case {"verb": "kill", "nodes": [*nodes]}:
                return self._kill(self._named(nodes))
            case {"verb": "pause", "nodes": [*nodes]}:
                return self._pause(self._named(nodes))
            case {"verb": "resume", "nodes": [*nodes]}:
                return self._resume(self._named(nodes))
            case {"verb": "cut", "nodes": [one, other], "one_way": bool(one_way)}:
                return self._cut(self._named([one]) + self._named([other]), one_way)
            case {"verb": "slow", "nodes": [one, other], "ms": int(ms) | float(ms)} if not isinstance(ms, bool):
                return self._slow(self._named([one]) + self._named([other]), ms)
            case {"verb": "heal"}:
                self.heal()
                return "all links are healed"
            case {"verb": "kill" | "pause" | "resume" | "cut" | "slow" as verb}:
                raise Refused(f"the order {verb} lacks a field, or one is of another type: it needs {NEEDS[verb]}")
        raise Refused(f"no such order: {order.get('verb')}")

    def dead(self, nodes: object) -> list[NodeProcess]:
        """The nodes that an order to start names. Raises Refused unless all of them are dead."""
        named = self._named(nodes if isinstance(nodes, list) else [])
        if not named:
            raise Refused("name at least one node")
        for each in named:
            if each.is_alive:
                raise Refused(f"node {each.id} runs already")
        return named

    @staticmethod
    def started(nodes: Collection[NodeProcess]) -> str:
        return f"{_words(nodes)} {'starts' if len(nodes) == 1 else 'start'} again"

    def _named(self, nodes: Sequence[object]) -> list[NodeProcess]:
        named = []
        for node in nodes:
            process = self._processes.get(NodeId(node)) if type(node) is int else None  # no bool, which is an int, too
            if process is None:
                there = ", ".join(map(str, self._processes))
                raise Refused(f"there is no node {str(node)[:20]}: the nodes are {there}")
            if process in named:
                raise Refused(f"node {node} is named twice")
            named.append(process)
        return named

    def _kill(self, nodes: Collection[NodeProcess]) -> str:
        self._check_alive(nodes)
        for each in nodes:
            each.signal(signal.SIGKILL)
        _await(lambda: not any(each.is_alive for each in nodes), f"{_words(nodes)} did not end")
        return f"{_words(nodes)} {_are(nodes)} dead"

    def _pause(self, nodes: Collection[NodeProcess]) -> str:
        self._check_alive(nodes)
        for each in nodes:
            if is_stopped(each.pid):
                raise Refused(f"node {each.id} is paused already: `highwater resume {each.id}` lets it go on")
        for each in nodes:
            each.signal(signal.SIGSTOP)
        _await(lambda: all(is_stopped(each.pid) or not each.is_alive for each in nodes), "a node did not stand still")
        return f"{_words(nodes)} {_are(nodes)} paused"

    def _resume(self, nodes: Collection[NodeProcess]) -> str:
        self._check_alive(nodes)
        for each in nodes:
            if not is_stopped(each.pid):
                raise Refused(f"node {each.id} is not paused")
        for each in nodes:
            each.signal(signal.SIGCONT)
        _await(lambda: not any(is_stopped(each.pid) for each in nodes), "a node still stands still")
        return f"{_words(nodes)} {'goes' if len(nodes) == 1 else 'go'} on"

    def _cut(self, nodes: Sequence[NodeProcess], one_way: bool) -> str:
        one, other = nodes
        self._change(nodes, lambda: self._links.cut(one.id, other.id, one_way))
        return f"the link from node {one.id} to node {other.id} is cut" + ("" if one_way else ", and back")

    def _slow(self, nodes: Sequence[NodeProcess], ms: float) -> str:
        one, other = nodes
        self._change(nodes, lambda: self._links.slow(one.id, other.id, ms / 1000))
        return f"bytes between node {one.id} and node {other.id} take {ms:g} ms longer, each way"

    def heal(self) -> None:
        self._change((), self._links.heal)

    def wake(self) -> None:
        """Before the end: a paused node cannot stop in order, and neither can one that reaches no other."""
        self._links.heal()
        for node, process in self._processes.items():
            if process.is_alive:
                self._send(node)
                process.signal(signal.SIGCONT)

    def _change(self, nodes: Sequence[NodeProcess], change: Callable[[], None]) -> None:
        for each in nodes:
            if each.is_alive and not self._is_steered(each):
                raise Refused(
                    f"node {each.id} was started by hand (pid {each.pid}): `up` has no way to its links. "
                    "Nodes that `up --restart` starts again have one"
                )
        try:
            change()
        except (ValueError, OverflowError) as wrong:
            raise Refused(str(wrong)) from wrong
        sent = [(node, self._send(node)) for node in self._steerings]
        for node, number in sent:
            if not is_stopped(self._processes[node].pid) and not self._steerings[node][1].wait(number, LINK_SECONDS):
                raise Refused(f"node {node} has not answered within {LINK_SECONDS:g} s: it obeys when it can")

    def _send(self, node: NodeId) -> int:
        if node not in self._steerings or not self._is_steered(self._processes[node]):
            return 0
        return self._steerings[node][1].order(self._conditions(node))

    def _is_steered(self, process: NodeProcess) -> bool:
        return self._steerings.get(process.id, (0, None))[0] == process.pid

    def _conditions(self, node: NodeId) -> Conditions:
        return [(peer, self._links.between(node, peer)) for peer in self._layouts if peer != node]

    @staticmethod
    def _check_alive(nodes: Collection[NodeProcess]) -> None:
        if not nodes:
            raise Refused("name at least one node")
        for each in nodes:
            if not each.is_alive:
                raise Refused(f"node {each.id} is dead already: `highwater start {each.id}` starts it again")


def _await(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + SIGNAL_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise Refused(f"{what} within {SIGNAL_SECONDS:g} s")
        time.sleep(_POLL_SECONDS)


def _words(nodes: Collection[NodeProcess]) -> str:
    return f"node{'' if len(nodes) == 1 else 's'} {', '.join(str(each.id) for each in nodes)}"


def _are(nodes: Collection[NodeProcess]) -> str:
    return "is" if len(nodes) == 1 else "are"
