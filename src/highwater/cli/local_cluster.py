"""The processes of one data directory: `highwater up`, and the demo's brokers."""

from __future__ import annotations

import contextlib
import json
import select
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from highwater.cli.control_socket import ControlSocket
from highwater.cli.node import News, Readiness, fork_node
from highwater.cli.node_orders import NodeOrders
from highwater.cli.node_process import NodeProcess
from highwater.cluster.directory import NODES, DataDirectory, write_durably
from highwater.cluster.failed import ClusterFailed
from highwater.cluster.layout import FIRST_MEMBER_AT_ONCE, Layout
from highwater.cluster.record import as_options
from highwater.cluster.room import Room
from highwater.cluster.waiting import waits_for

READY_SECONDS = 60.0
"""The limit for a node that reports nothing. A node that recovers its logs reports that, and may take any time: if it
were ended, it would begin again the next time, and would never be ready."""
QUORUM_SECONDS = 5.0
"""After this time without a quorum, the reason is printed."""
STOP_SECONDS = 20.0
POLL_SECONDS = 0.2
STORY_LINES = 15
"""The number of log lines that are printed for a node that did not start: an exception has about this many."""

Pause = Callable[[float], bool]
"""Waits for this many seconds. Returns True, at once, when the cluster shall end."""


def _sleep(seconds: float) -> bool:
    time.sleep(seconds)
    return False


class LocalCluster:
    """Writes each node's settings and formats its directory. The lock of the directory is held until `stop`."""

    def __init__(
        self,
        data_dir: Path,
        brokers: int,
        port: int,
        extra: dict[str, str],
        controllers: int = 0,
        http_port: int | None = None,
        racks: Sequence[str] | None = None,
    ) -> None:
        self._directory = DataDirectory(data_dir.absolute())
        try:
            path = self._directory.path
            settings = FIRST_MEMBER_AT_ONCE | extra if brokers == 1 else extra
            self._layout = Layout(
                path, brokers, controllers, racks, settings, port, True, shape=as_options, first_http_port=http_port
            )
        except BaseException:
            self._directory.abandon()
            raise
        try:
            self.control = ControlSocket(path)
        except BaseException:
            self._layout.release()
            self._directory.release()
            raise
        self.members = [NodeProcess(member, self._directory.lock.path) for member in self._layout.members]
        for process in self.members:
            process.pid_file.unlink(missing_ok=True)
        self._orders = NodeOrders(self._layout.members, self.members)
        self._has_stale_nodes = False

    @property
    def lock_path(self) -> Path:
        return self._directory.lock.path

    @property
    def bootstrap(self) -> str:
        return ",".join(member.bootstrap for member in self._layout.members if member.is_broker)

    @property
    def http(self) -> dict[int, str]:
        """The address of each node's status."""
        return {member.id: member.http for member in self._layout.members if member.http is not None}

    def start(self, pause: Pause = _sleep, report: Callable[[str], None] = lambda line: None) -> bool:
        """Starts all nodes as forks of this process, which has everything imported, and returns when each one is ready.

        False if the cluster shall end before. Raises ClusterFailed if a node ended, or reported nothing for too long.
        """
        if self._layout.lost_voters_line is not None:
            report(self._layout.lost_voters_line)
        waiting = {self.fork(member): member for member in self.members}
        self.write_nodes()
        return self.wait_for(waiting, pause, report)

    def wait_for(
        self,
        waiting: dict[Readiness, NodeProcess],
        pause: Pause,
        report: Callable[[str], None],
        now: Callable[[], float] = time.monotonic,
    ) -> bool:
        begun = now()
        heard = dict.fromkeys(waiting, begun)
        reported: set[NodeProcess] = set()
        warnings = {member: member.last_warning() for member in waiting.values()}  # of earlier starts
        asks_for_quorum = True
        while waiting:
            if pause(0):
                return False
            for pipe in select.select(waiting, [], [], POLL_SECONDS)[0]:
                member, news = waiting[pipe], pipe.news()
                if news is not News.ENDED:
                    # It has the metadata, and only a quorum can give it. A voter that does not answer now is busy.
                    asks_for_quorum = False
                if news is News.RECOVERS:
                    heard[pipe] = now()
                    if heard[pipe] - begun > QUORUM_SECONDS and member not in reported:
                        reported.add(member)
                        report(f"node {member.id} recovers its logs")
                    continue
                del waiting[pipe]
                if news is News.ENDED:
                    member.wait(STOP_SECONDS)
                    raise ClusterFailed(f"node {member.id} ended before it was ready{member.last_words(STORY_LINES)}")
            late = [member for pipe, member in waiting.items() if now() - heard[pipe] > READY_SECONDS]
            if late:
                raise ClusterFailed(self._not_ready(late))
            if now() - begun > QUORUM_SECONDS:
                for member in waiting.values():
                    warning = member.last_warning()
                    if warning is not None and warnings.get(member) != warning:
                        warnings[member] = warning
                        report(f"node {member.id} is not ready yet: {warning}")
            if waiting and asks_for_quorum and now() - begun > QUORUM_SECONDS:
                asks_for_quorum = False
                for line in self._waits():
                    report(f"no quorum after {QUORUM_SECONDS:g} s: {line}")
        return True

    def fork(self, member: NodeProcess) -> Readiness:
        lock = self._directory.lock
        steering, steered = self._orders.prepare(member.id)

        def let_go() -> None:
            lock.release()
            self.control.release()
            self._orders.release()
            steering.close()

        pid, ready = fork_node(member.config, member.pid_file, member.output, lock.path, let_go, steered)
        steered.close()
        member.hold(pid)
        self._orders.forked(member.id, pid, steering)
        return ready

    def serve_orders(self) -> bool:
        """Carries out the orders that have arrived at the control socket. True if the cluster shall end."""
        self.control.serve(self._obey)
        return self.control.is_to_end

    def _obey(self, order: dict[str, Any]) -> str:
        if order.get("verb") != "start":
            return self._orders.obey(order)
        members = self._orders.dead(order.get("nodes"))
        for member in members:
            self.restart(member)
        return self._orders.started(members)

    def _waits(self) -> list[str]:
        return waits_for(self._layout.members)

    def _not_ready(self, late: list[NodeProcess]) -> str:
        waits = "".join(f"\n{line}" for line in self._waits())
        first = late[0]
        ids = ", ".join(str(member.id) for member in late)
        story = first.last_words(STORY_LINES)
        return f"not ready, and silent for {READY_SECONDS:g} s: node {ids}{waits}\nnode {first.id} still runs{story}"

    def write_nodes(self) -> None:
        """Writes nodes.json, replaced atomically."""
        nodes = {"cluster_id": self._layout.cluster_id, "nodes": [member.describe() for member in self.members]}
        write_durably(self._directory.path / NODES, json.dumps(nodes, indent=2))

    def _rewrite_nodes(self) -> None:
        """A disk that is full does not end the cluster: `watch` tries again."""
        self._has_stale_nodes = True
        with contextlib.suppress(OSError):
            self.write_nodes()
            self._has_stale_nodes = False

    def watch(self, pause: Pause, report: Callable[[str], None]) -> Iterator[tuple[NodeProcess, str]]:
        """Yields what happens to the nodes, until the cluster shall end."""
        down: set[int] = set()
        room = Room(self._directory.path)
        while not pause(POLL_SECONDS):
            for line in room.news():
                report(line)
            for member in self.members:
                if member.look():
                    self._has_stale_nodes = True
                if not member.is_alive and member.id not in down:
                    yield member, "died"
                    if member.is_alive:  # it was started again meanwhile: if it dies at once, that is news, too
                        yield member, "is back"
                    else:
                        down.add(member.id)
                elif member.is_alive and member.id in down:
                    down.discard(member.id)
                    yield member, "is back"
            if self._has_stale_nodes:
                self._rewrite_nodes()

    def restart(self, member: NodeProcess) -> None:
        self.fork(member).close()
        self._rewrite_nodes()

    def launch(self, member: NodeProcess) -> None:
        """As `restart`, but as a new process, which takes a second longer: this one may have threads and open pipes,
        and must not be forked."""
        steering, steered = self._orders.prepare(member.id)
        member.launch(steering.hand_over(steered))
        steered.close()
        self._orders.forked(member.id, member.pid, steering)
        self._rewrite_nodes()

    def obey(self, order: dict[str, Any]) -> str:
        """Carries out an order as the control socket takes them. Raises Refused."""
        return self._orders.obey(order)

    def stop(self) -> None:
        """A controlled shutdown of every node; one that takes too long is killed."""
        for member in self.members:
            member.look()
        self._orders.wake()
        for member in self.members:
            member.signal(signal.SIGTERM)
        deadline = time.monotonic() + STOP_SECONDS
        for member in self.members:
            if not member.wait(max(deadline - time.monotonic(), 0)):
                member.signal(signal.SIGKILL)
                member.wait()
            member.close()
        self._orders.release()
        self._layout.release()
        self._directory.release()
        self.control.close("stopped")
