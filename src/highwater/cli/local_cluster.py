"""The processes of one data directory: `highwater up`, and the demo's brokers."""

from __future__ import annotations

import json
import select
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from highwater.cli.node import News, Readiness, fork_node
from highwater.cli.node_process import NodeProcess
from highwater.cluster.directory import NODES, DataDirectory, write_durably
from highwater.cluster.failed import ClusterFailed
from highwater.cluster.layout import Layout
from highwater.cluster.record import as_options
from highwater.cluster.room import Room
from highwater.cluster.waiting import waits_for

READY_SECONDS = 60.0
"""For a node of which nothing is heard. One that recovers its logs says so, and has all the time that it needs: if it
were ended, it would begin at the beginning the next time, and never be ready."""
QUORUM_SECONDS = 5.0
"""After this long without a quorum whoever waits is told why."""
STOP_SECONDS = 20.0
POLL_SECONDS = 0.2
STORY_LINES = 15
"""Of the log of a node that did not start: an exception takes that many."""

Pause = Callable[[float], bool]
"""Wait for so many seconds; True, at once, when whoever runs the cluster wants its end."""


def _sleep(seconds: float) -> bool:
    time.sleep(seconds)
    return False


class LocalCluster:
    """Each node's settings written and its directory formatted. The directory is held until `stop`."""

    def __init__(self, data_dir: Path, brokers: int, port: int, extra: dict[str, str], controllers: int = 0) -> None:
        self._directory = DataDirectory(data_dir.absolute())
        try:
            path = self._directory.path
            self._layout = Layout(path, brokers, controllers, None, extra, port, http=True, shape=as_options)
        except BaseException:
            self._directory.abandon()
            raise
        self.members = [NodeProcess(member, self._directory.lock.path) for member in self._layout.members]
        for process in self.members:
            process.pid_file.unlink(missing_ok=True)

    @property
    def bootstrap(self) -> str:
        return ",".join(member.bootstrap for member in self._layout.members if member.is_broker)

    def start(self, pause: Pause = _sleep, tell: Callable[[str], None] = lambda line: None) -> bool:
        """All nodes as forks of this process, which has everything imported; returns when each is ready.

        False if its end was wanted first. ClusterFailed where a node ended, or nothing was heard of it for too long.
        """
        waiting = {self.fork(member): member for member in self.members}
        self.write_nodes()
        return self.wait_for(waiting, pause, tell)

    def wait_for(
        self,
        waiting: dict[Readiness, NodeProcess],
        pause: Pause,
        tell: Callable[[str], None],
        now: Callable[[], float] = time.monotonic,
    ) -> bool:
        begun = now()
        heard = dict.fromkeys(waiting, begun)
        told: set[NodeProcess] = set()
        asks_for_quorum = True
        while waiting:
            if pause(0):
                return False
            for pipe in select.select(waiting, [], [], POLL_SECONDS)[0]:
                member, news = waiting[pipe], pipe.news()
                if news is not News.ENDED:
                    # It has the metadata, which only a quorum gives: a voter that does not answer now is busy.
                    asks_for_quorum = False
                if news is News.RECOVERS:
                    heard[pipe] = now()
                    if heard[pipe] - begun > QUORUM_SECONDS and member not in told:
                        told.add(member)
                        tell(f"node {member.id} recovers its logs")
                    continue
                del waiting[pipe]
                if news is News.ENDED:
                    member.wait(STOP_SECONDS)
                    raise ClusterFailed(f"node {member.id} ended before it was ready{member.last_words(STORY_LINES)}")
            late = [member for pipe, member in waiting.items() if now() - heard[pipe] > READY_SECONDS]
            if late:
                raise ClusterFailed(self._not_ready(late))
            if waiting and asks_for_quorum and now() - begun > QUORUM_SECONDS:
                asks_for_quorum = False
                for line in self._waits():
                    tell(f"no quorum after {QUORUM_SECONDS:g} s: {line}")
        return True

    def fork(self, member: NodeProcess) -> Readiness:
        lock = self._directory.lock
        pid, ready = fork_node(member.config, member.pid_file, member.output, lock.path, lock.release)
        member.hold(pid)
        return ready

    def _waits(self) -> list[str]:
        return waits_for(self._layout.members)

    def _not_ready(self, late: list[NodeProcess]) -> str:
        waits = "".join(f"\n{line}" for line in self._waits())
        first = late[0]
        ids = ", ".join(str(member.id) for member in late)
        story = first.last_words(STORY_LINES)
        return f"not ready, and silent for {READY_SECONDS:g} s: node {ids}{waits}\nnode {first.id} still runs{story}"

    def write_nodes(self) -> None:
        """nodes.json, replaced atomically."""
        nodes = {"cluster_id": self._layout.cluster_id, "nodes": [member.describe() for member in self.members]}
        write_durably(self._directory.path / NODES, json.dumps(nodes, indent=2))

    def watch(self, pause: Pause, tell: Callable[[str], None]) -> Iterator[tuple[NodeProcess, str]]:
        """What happens to the nodes, as it happens, until the cluster's end is wanted."""
        down: set[int] = set()
        room = Room(self._directory.path)
        while not pause(POLL_SECONDS):
            for line in room.news():
                tell(line)
            for member in self.members:
                if member.look():
                    self.write_nodes()
                if not member.is_alive and member.id not in down:
                    yield member, "died"
                    if member.is_alive:  # it was started again meanwhile: should it die at once, that is news, too
                        yield member, "is back"
                    else:
                        down.add(member.id)
                elif member.is_alive and member.id in down:
                    down.discard(member.id)
                    yield member, "is back"

    def restart(self, member: NodeProcess) -> None:
        self.fork(member).close()
        self.write_nodes()

    def stop(self) -> None:
        """A controlled shutdown of every node; one that takes too long is killed."""
        for member in self.members:
            member.look()
            member.signal(signal.SIGTERM)
        deadline = time.monotonic() + STOP_SECONDS
        for member in self.members:
            if not member.wait(max(deadline - time.monotonic(), 0)):
                member.signal(signal.SIGKILL)
                member.wait()
            member.close()
        self._layout.release()
        self._directory.release()
