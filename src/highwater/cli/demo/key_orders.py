"""What the keys of the demo do: to the chosen broker, and to its links."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from highwater.cli.control_socket import Refused
from highwater.cli.demo.interrupts import Interrupts
from highwater.cli.demo.outage import Outages
from highwater.cli.demo.progress import DemoProgress
from highwater.cli.local_cluster import LocalCluster
from highwater.cli.node_process import NodeProcess
from highwater.cli.steering import is_stopped

SLOW_MS: Final = 300
HELP: Final = (
    ("1-3", "choose"),
    ("k", "kill"),
    ("p", "pause"),
    ("c", "cut"),
    ("s", "slow"),
    ("h", "heal"),
    ("q", "end"),
)


class KeyOrders:
    """A killed broker starts again by itself. All else stays until `heal`, and is healed before the verdict."""

    def __init__(
        self,
        cluster: LocalCluster,
        progress: DemoProgress,
        outages: Outages,
        interrupts: Interrupts,
        lag_seconds: float,
    ) -> None:
        self._cluster = cluster
        self._progress = progress
        self._outages = outages
        self._lag_seconds = lag_seconds
        self._keys: dict[str, Callable[[], object]] = {
            "k": self._kill,
            "p": self._pause,
            "c": self._cut,
            "s": self._slow,
            "h": self.heal,
            "q": interrupts.ask,
        }
        for member in cluster.members:
            self._keys[str(member.id)] = lambda id=member.id: self._choose(id)  # type: ignore[misc]

    def look(self) -> None:
        self._progress.brokers = {member.id: _state(member) for member in self._cluster.members}

    def obey(self, key: str) -> None:
        """Keys that mean nothing do nothing."""
        wanted = self._keys.get(key.lower())
        try:
            if wanted is not None:
                wanted()
        except Refused as refused:
            self._say(f"This cannot be done now: {refused}")

    def heal(self) -> None:
        """Everything is as at the beginning, or soon will be."""
        paused = [member.id for member in self._cluster.members if _state(member) == "paused"]
        if paused:
            self._cluster.obey({"verb": "resume", "nodes": paused})
        if self._progress.links:
            self._cluster.obey({"verb": "heal"})
        if paused or self._progress.links:
            self._say("All links are healed, and paused brokers go on → they fetch what they missed, and join the ISR")
        self._progress.links = {}
        self._outages.start_all()

    def _choose(self, broker: int) -> None:
        self._progress.chosen = broker

    def _kill(self) -> None:
        victim = next(each for each in self._cluster.members if each.id == self._progress.chosen)
        self._outages.kill(victim)

    def _pause(self) -> None:
        broker = self._progress.chosen
        if self._progress.brokers.get(broker) == "paused":
            self._cluster.obey({"verb": "resume", "nodes": [broker]})
            self._say(f"Broker {broker} goes on → it learns what was decided meanwhile, and fetches what it missed")
            return
        self._cluster.obey({"verb": "pause", "nodes": [broker]})
        self._say(
            f"Broker {broker} is paused: its connections stay open, it answers nothing → writes wait until it is "
            "out of the ISR, or another broker leads"
        )

    def _cut(self) -> None:
        broker = self._progress.chosen
        for other in self._others(broker):
            self._cluster.obey({"verb": "cut", "nodes": [broker, other], "one_way": False})
        self._progress.links = {**self._progress.links, broker: "cut"}
        self._say(
            f"Broker {broker} is cut from the other brokers → it leaves the ISR {self._lag_seconds:g} s after its last "
            "fetch, or the controller fences it"
        )

    def _slow(self) -> None:
        broker = self._progress.chosen
        for other in self._others(broker):
            self._cluster.obey({"verb": "slow", "nodes": [broker, other], "ms": SLOW_MS})
        self._progress.links = {**self._progress.links, broker: "slow"}
        self._say(
            f"Links of broker {broker} take {SLOW_MS} ms longer each way → each write waits for its slowest replica in "
            "the ISR, so all writes are slower"
        )

    def _others(self, broker: int) -> list[int]:
        return [each.id for each in self._cluster.members if each.id != broker]

    def _say(self, line: str) -> None:
        self._progress.add_event(line)
        self._progress.caption = [line]


def _state(member: NodeProcess) -> str:
    if not member.is_alive:
        return "dead"
    return "paused" if is_stopped(member.pid) else "alive"
