"""The running nodes of a cluster, and the commands that they get."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Final

from highwater.cluster.failed import ClusterFailed
from highwater.cluster.host import Decide, Host, NodeState
from highwater.cluster.layout import NodeLayout
from highwater.model import Endpoint, NodeId

ORDER_SECONDS: Final = 30.0


class Hosts:
    """The host of each node that was started, and what became of it. Threads of nodes may iterate over it, too."""

    def __init__(self) -> None:
        self._by_node: dict[NodeId, Host] = {}

    def __iter__(self) -> Iterator[Host]:
        return iter(list(self._by_node.values()))

    def add(self, host: Host) -> None:
        self._by_node[host.member.id] = host

    def of(self, node: NodeId) -> Host | None:
        return self._by_node.get(node)

    def clear(self) -> None:
        self._by_node.clear()

    @property
    def running(self) -> list[Host]:
        return [host for host in self if host.state is not NodeState.DOWN]

    def wake_all(self) -> None:
        for host in self:
            if host.state is NodeState.PAUSED:
                host.resume()

    @property
    def serving(self) -> list[str]:
        """The addresses of the brokers that are ready."""
        return [
            host.member.bootstrap
            for host in self
            if host.member.is_broker and host.state is NodeState.UP and host.wait_ready(0)
        ]

    def disarm(self, rules: Iterable[int]) -> None:
        """Calls no longer fail by these rules."""
        for rule_id in rules:
            for host in self.running:
                host.send("disarm", rule_id)

    def looked_at(self) -> Iterator[Host]:
        """The nodes that can be asked for what they know. Raises `ClusterFailed` if one has ended by itself."""
        for host in self:
            if host.failure is not None:
                raise ClusterFailed(f"node {host.member.id} ended by itself: {host.failure}")
            if host.state is NodeState.UP:
                yield host


def new_host(processes: bool, member: NodeLayout, peers: Mapping[Endpoint, NodeId], decide: Decide) -> Host:
    """A process for the node, or a thread. They are imported only now, since they import a whole node."""
    from highwater.cluster.process_host import ProcessHost
    from highwater.cluster.thread_host import ThreadHost

    return (ProcessHost if processes else ThreadHost)(member, peers, decide)


def in_parallel(hosts: Collection[Host], act: Callable[[Host], object]) -> None:
    threads = [threading.Thread(target=act, args=(host,)) for host in hosts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def order(host: Host, verb: str, argument: object) -> None:
    """The command is in force on return. A paused node gets it when it resumes, and a dead one at its start."""
    if host.state is NodeState.PAUSED:
        host.send(verb, argument)
    elif host.state is NodeState.UP:
        with contextlib.suppress(ConnectionError):
            host.call(verb, argument, ORDER_SECONDS)


def look(host: Host, topic: str | None) -> list[dict[str, Any]]:
    """What the node knows; nothing if it does not answer, or has no metadata yet."""
    with contextlib.suppress(ConnectionError):
        seen = host.call("look", topic, ORDER_SECONDS)
        if seen is not None:
            return [seen]
    return []
