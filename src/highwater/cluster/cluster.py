"""The cluster that a test uses: nodes to start and kill, links to cut, calls to fail, and conditions to wait for."""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from highwater.client.admin import Admin, NewTopic
from highwater.client.client import Client
from highwater.cluster.awaited import AwaitedIsr, AwaitedLeader, comes_true
from highwater.cluster.failed import ClusterFailed
from highwater.cluster.home import Home
from highwater.cluster.host import Host, NodeState
from highwater.cluster.hosts import ORDER_SECONDS, Hosts, in_parallel, look, new_host, order
from highwater.cluster.layout import FIRST_MEMBER_AT_ONCE, Layout, NodeLayout, as_properties
from highwater.cluster.links import Links
from highwater.cluster.readiness import wait_ready
from highwater.cluster.reading import CLIENT_ID, StoredRecord, chosen_partitions, stored_records
from highwater.cluster.rules import Failure, Rules, rule_for
from highwater.cluster.view import PartitionView, View, all_know, is_known
from highwater.model import NodeId

READY_SECONDS: Final = 60.0
STOP_SECONDS: Final = 60.0
WAIT_SECONDS: Final = 60.0


class Cluster:
    """Brokers 1…n on free ports of this machine. The first three are the quorum; or there are controllers 101….

    In this process each node has a thread and real sockets; with `processes` each is a process. Use the cluster as a
    context manager, or call `open` and `close`. Without `data_dir` its data is deleted at the end. Nodes may take
    `ready_seconds` to start, unless a call says otherwise.
    """

    def __init__(
        self,
        brokers: int = 3,
        controllers: int = 0,
        config: Mapping[str, object] | None = None,
        data_dir: str | Path | None = None,
        processes: bool = False,
        racks: Sequence[str] | None = None,
        ready_seconds: float = READY_SECONDS,
    ) -> None:
        self._ready_seconds = ready_seconds
        self._shape = (brokers, controllers, racks)
        self._config = FIRST_MEMBER_AT_ONCE | as_properties(config or {})
        self._home = Home(None if data_dir is None else Path(data_dir).absolute())
        self._processes = processes
        self._links = Links()
        self._rules = Rules()
        self._hosts = Hosts()
        self._layout: Layout | None = None
        self._verbs = threading.RLock()

    # --- opening and closing

    def __enter__(self) -> Cluster:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def open(self) -> Cluster:
        """Returns the cluster when every broker is unfenced and knows all others. It is closed at exit at the
        latest."""
        if self._layout is not None:
            raise ClusterFailed("the cluster is open already")
        brokers, controllers, racks = self._shape
        try:
            self._layout = Layout(self._home.open(), brokers, controllers, racks, self._config)
            self._peers = {at: member.id for member in self._layout.members for at in member.endpoints}
            atexit.register(self._close_at_exit, os.getpid())
            self.start(*self.nodes)
        except BaseException:
            self.close()
            raise
        return self

    def _close_at_exit(self, opened_by: int) -> None:
        """Not in a fork, which has neither the nodes nor a right to their data. No thread can be started any more."""
        if os.getpid() == opened_by:
            for host in self._hosts.running:
                host.kill()
            self.close()

    def close(self) -> None:
        """A controlled shutdown if the data is kept; otherwise every node is killed and its data deleted."""
        with self._verbs:
            atexit.unregister(self._close_at_exit)
            self._hosts.wake_all()
            if self._home.is_kept:
                in_parallel(self._hosts.running, lambda host: host.stop(STOP_SECONDS))
            else:
                in_parallel(self._hosts.running, lambda host: host.kill())
            self._hosts.clear()
            if self._layout is None:
                self._home.abandon()
            else:
                self._layout.release()
                self._layout = None
                self._home.close()

    # --- what it is

    @property
    def _members(self) -> list[NodeLayout]:
        if self._layout is None:
            raise ClusterFailed("the cluster is not open")
        return self._layout.members

    @property
    def nodes(self) -> list[int]:
        return [member.id for member in self._members]

    @property
    def brokers(self) -> list[int]:
        return [member.id for member in self._members if member.is_broker]

    @property
    def cluster_id(self) -> str:
        if self._layout is None:
            raise ClusterFailed("the cluster is not open")
        return self._layout.cluster_id

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all brokers, running or not."""
        return ",".join(member.bootstrap for member in self._members if member.is_broker)

    def get_bootstrap_server(self) -> str:
        return self.bootstrap_servers

    def log_dir(self, node: int) -> Path:
        return self._member(node).log_dir

    def state(self, node: int) -> str:
        """up, paused or down"""
        host = self._hosts.of(self._member(node).id)
        return (NodeState.DOWN if host is None else host.state).value

    def _member(self, node: int) -> NodeLayout:
        for member in self._members:
            if member.id == node:
                return member
        raise ValueError(f"there is no node {node}; there are {self.nodes}")

    def _running(self, node: int, *states: NodeState) -> Host:
        host = self._hosts.of(self._member(node).id)
        allowed = states or (NodeState.UP, NodeState.PAUSED)
        if host is None or host.state not in allowed:
            raise ValueError(f"node {node} is {self.state(node)}")
        return host

    # --- nodes

    def start(self, *nodes: int, wait: bool = True, seconds: float | None = None) -> Cluster:
        """Starts nodes that are down, and returns when each serves. Without arguments: the cluster, or all of them."""
        if not nodes and self._layout is None:
            return self.open()
        with self._verbs:
            nodes = nodes or tuple(self._down())
            for node in nodes:
                if self.state(node) != NodeState.DOWN.value:
                    raise ValueError(f"node {node} is {self.state(node)}")
            started = [self._begin(self._member(node)) for node in nodes]
        if wait:
            self._wait_ready(started, self._ready_seconds if seconds is None else seconds)
        return self

    def _down(self) -> list[int]:
        return [node for node in self.nodes if self.state(node) == NodeState.DOWN.value]

    def _begin(self, member: NodeLayout) -> Host:
        host = new_host(self._processes, member, self._others(member), self._decide)
        commands: list[tuple[str, Any]] = list(self._links.commands(member.id, map(NodeId, self.nodes)))
        commands += [("arm", [rule.id, rule.role.value, *rule[2:]]) for rule in self._rules.armed_for(member.id)]
        host.begin(commands)
        self._hosts.add(host)
        return host

    def _others(self, member: NodeLayout) -> dict[Any, NodeId]:
        return {at: node for at, node in self._peers.items() if node != member.id}

    def _wait_ready(self, hosts: Sequence[Host], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        wait_ready(hosts, seconds)
        brokers = {host.member.id for host in hosts if host.member.is_broker}
        self.wait_until(
            lambda: all_know(self._looks(None, whole=True), brokers),
            deadline - time.monotonic(),
            f"the brokers know each other, {seconds:g} s after their start",
        )

    def stop(self, *nodes: int, seconds: float = STOP_SECONDS) -> None:
        """A controlled shutdown of one node after the other: leaderships are moved first."""
        with self._verbs:
            for node in nodes:
                if not self._running(node, NodeState.UP).stop(seconds):
                    raise ClusterFailed(f"node {node} did not stop within {seconds:g} s, and was killed")

    def kill(self, *nodes: int) -> None:
        """Like kill -9, all at once: connections break, and unsynced data is left to the operating system."""
        with self._verbs:
            in_parallel([self._running(node) for node in nodes], lambda host: host.kill())

    def pause(self, *nodes: int) -> None:
        """Like SIGSTOP: the node does nothing, and its connections stay open."""
        with self._verbs:
            for node in nodes:
                self._running(node, NodeState.UP).pause()

    def resume(self, *nodes: int) -> None:
        with self._verbs:
            for node in nodes:
                self._running(node, NodeState.PAUSED).resume()

    # --- links

    def cut(self, one: int, other: int, *, one_way: bool = False) -> None:
        """Holds all bytes between two nodes, or those from the first to the second. Clients are not affected."""
        with self._verbs:
            self._links.cut(self._member(one).id, self._member(other).id, one_way)
            self._relink()

    def slow(self, one: int, other: int, *, ms: float) -> None:
        """Delays bytes between two nodes by this time, each way."""
        with self._verbs:
            self._links.slow(self._member(one).id, self._member(other).id, ms / 1000)
            self._relink()

    def join(self, one: int, other: int, *, one_way: bool = False) -> None:
        """Takes back what `cut` did with the same arguments. Bytes that it held arrive now."""
        with self._verbs:
            self._links.join(self._member(one).id, self._member(other).id, one_way)
            self._relink()

    def heal(self) -> None:
        """Heals all links, and lets no call fail any more. Bytes that a cut held arrive now."""
        with self._verbs:
            self._links.heal()
            self._relink()
            self._hosts.disarm(self._rules.clear())

    def restore(self, seconds: float | None = None) -> None:
        """Heals, resumes paused nodes and starts nodes that are down."""
        with self._verbs:
            self.heal()
            self._hosts.wake_all()
        self.start(seconds=seconds)

    def _relink(self) -> None:
        for host in self._hosts:
            for verb, argument in self._links.commands(host.member.id, map(NodeId, self.nodes)):
                order(host, verb, argument)

    # --- failing calls

    def fail(self, api: str, error: str, *, node: int | None = None) -> Failure:
        """Lets calls fail: `fail("Produce", "NOT_LEADER_OR_FOLLOWER").once()`, or `.times(n)`, `.on_call(n)`,
        `.always()`.

        Calls of all nodes are counted together; with `node`, only those of one node. "close_connection" is an error,
        too. `.fired` is the number of calls that failed. For fetches of followers, use `cut` and `slow`.
        """
        member = None if node is None else self._member(node)
        on_controller = member is not None and not member.is_broker
        rule = rule_for(self._rules.next_id(), api, error, on_controller)
        return Failure(rule, None if member is None else member.id, self._arm)

    def _arm(self, failure: Failure) -> None:
        with self._verbs:
            self._rules.add(failure)
            rule = failure.rule
            for host in self._hosts:
                if failure.node in (None, host.member.id):
                    order(host, "arm", [rule.id, rule.role.value, *rule[2:]])

    def _decide(self, node: NodeId, rules: Sequence[int]) -> int | None:
        """Called from the threads of nodes. It takes only the lock of the rules, and waits for nothing."""
        chosen = self._rules.decide(node, rules)
        self._hosts.disarm(self._rules.take_spent())
        return chosen

    # --- topics

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replication_factor: int | None = None,
        config: Mapping[str, object] | None = None,
        assignment: Sequence[Sequence[int]] = (),
    ) -> None:
        """Returns when every partition has a leader and every reachable broker knows it."""
        factor = min(3, len(self.brokers)) if replication_factor is None else replication_factor
        sizes = (-1, -1) if assignment else (partitions, factor)
        topic = NewTopic(name, *sizes, assignment, as_properties(config or {}))
        with self.client() as client:
            Admin(client).create_topics([topic])
        self.wait_until(lambda: is_known(self._looks(name, whole=True)), what=f"topic {name} has leaders")

    def client(self, seconds: float = WAIT_SECONDS) -> Client:
        """A client of the running brokers, for the tests of the cluster itself."""
        serving = self._hosts.serving
        if not serving:
            raise ClusterFailed("no broker runs")
        return Client(serving, client_id=CLIENT_ID, timeout=seconds, request_timeout=min(seconds, 10.0))

    def records(self, topic: str, partition: int | None = None, *, seconds: float = WAIT_SECONDS) -> list[StoredRecord]:
        """The records that a consumer reads now, from the beginning to the end, by partition and offset."""
        chosen = chosen_partitions(topic, self.view(topic).partitions, partition)
        with self.client() as client:
            bootstrap = ",".join(map(str, client.bootstrap))
        return stored_records(bootstrap, chosen, seconds)

    # --- looking and waiting

    def view(self, topic: str | None = None) -> View:
        """From the node that has the newest metadata. Nodes that are paused or down are not asked."""
        looks = self._looks(topic)
        if not looks:
            raise ClusterFailed("no node runs")
        return View.of(max(looks, key=lambda seen: (seen["offset"], seen["epoch"])))

    def _looks(self, topic: str | None, whole: bool = False) -> list[dict[str, Any]]:
        """What each running node knows. With `whole`, only nodes that no cut keeps from newer metadata."""
        return [
            seen
            for host in self._hosts.looked_at()
            if not (whole and self._links.touches(host.member.id))
            for seen in look(host, topic)
        ]

    def partition(self, topic: str, partition: int) -> PartitionView:
        found = self.view(topic).partitions.get(partition)
        if found is None:
            raise ValueError(f"there is no partition {topic}-{partition}")
        return found

    def leader(self, topic: str, partition: int) -> int | None:
        """None while there is no leader."""
        return self.partition(topic, partition).leader

    def replica(self, node: int, topic: str, partition: int) -> dict[str, Any] | None:
        """As /status?topic=T&partition=P of a running node; None if it has no replica."""
        return self._running(node).call("replica", [topic, partition], ORDER_SECONDS)  # type: ignore[no-any-return]

    def isr(self, topic: str, partition: int) -> set[int]:
        return set(self.partition(topic, partition).isr)

    def controller(self) -> int | None:
        """The active controller; None while there is none."""
        return self.view().controller

    def wait_for_isr(
        self, topic: str, partition: int, wanted: int | Collection[int], seconds: float = WAIT_SECONDS
    ) -> set[int]:
        """Waits until the ISR has this size or these members. Returns the ISR."""
        awaited = AwaitedIsr(f"{topic}-{partition}", wanted)
        self.wait_until(lambda: awaited.is_reached(self.isr(topic, partition)), seconds, awaited.text)
        return awaited.isr

    def wait_for_leader(
        self,
        topic: str,
        partition: int,
        wanted: int | None = None,
        *,
        other_than: int | None = None,
        seconds: float = WAIT_SECONDS,
    ) -> int:
        """Waits until the partition has a leader: any, a given one, or another than a given one. Returns the leader."""
        awaited = AwaitedLeader(f"{topic}-{partition}", wanted, other_than)
        self.wait_until(lambda: awaited.is_reached(self.leader(topic, partition)), seconds, awaited.text)
        assert awaited.leader is not None
        return awaited.leader

    def wait_until(
        self,
        condition: Callable[[], object],
        seconds: float = WAIT_SECONDS,
        what: str | Callable[[], str] = "the condition holds",
    ) -> None:
        """Ask again and again; raises TimeoutError, with what was waited for and the state of the nodes."""
        if not comes_true(condition, seconds):
            states = ", ".join(f"{node} {self.state(node)}" for node in self.nodes)
            awaited = what if isinstance(what, str) else what()
            raise TimeoutError(f"not within {seconds:.1f} s: {awaited} (nodes: {states})")
