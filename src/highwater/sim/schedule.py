"""What goes wrong in a run, drawn from its seed, and carried out on a simulated cluster."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import NamedTuple

from highwater.metadata.cluster import MetadataImage
from highwater.model import TopicPartition
from highwater.sim.cluster import SimCluster
from highwater.sim.trace import Event, Phase, matching

ANY, LEADER, CONTROLLER = "any node", "a leader", "the controller"
SLOW_LINK = (0.05, 0.4)


class Fault(NamedTuple):
    """One line of a schedule: undone `seconds` after it began. Whom it hits may be known only then."""

    at: float
    verb: str
    whom: str
    seconds: float
    draw: float
    """In [0, 1): which node, which partition, how far."""

    def text(self) -> str:
        return f"{self.at:9.4f}  {self.verb} {self.whom} for {self.seconds:.3f} s"


VERBS: dict[str, tuple[float, float, float]] = {
    # weight, and how long it lasts: at least, at most
    "kill": (5, 0.05, 4.0),
    "cut the power of": (4, 0.05, 3.0),
    "tear a write of": (4, 0.05, 2.0),
    "kill after a write of": (2, 0.05, 2.0),
    "pause": (4, 0.02, 4.0),
    "cut a link of": (3, 0.1, 4.0),
    "cut one way from": (3, 0.1, 4.0),
    "isolate": (3, 0.1, 4.0),
    "isolate from nodes": (3, 0.1, 4.0),
    "slow a link of": (3, 0.2, 3.0),
    "reset the connections of": (2, 0.0, 0.0),
    "turn the clock of": (1, 0.0, 0.0),
    "cut all power of": (1, 0.05, 0.5),
    "restart": (3, 0.0, 0.0),
}


def draw_schedule(random: Random, seconds: float, count: int) -> list[Fault]:
    """Swarm: each seed has some of the verbs, and more or less of them."""
    chosen = [verb for verb in VERBS if random.random() < 0.6] or ["kill"]
    weights = [VERBS[verb][0] for verb in chosen]
    faults = []
    for _ in range(count):
        verb = random.choices(chosen, weights)[0]
        _, least, most = VERBS[verb]
        whom = random.choices((ANY, LEADER, CONTROLLER), (3, 4, 2))[0]
        lasts = least * (most / least) ** random.random() if least else 0.0
        faults.append(Fault(random.uniform(0.3, seconds), verb, whom, lasts, random.random()))
    return sorted(faults)


class Nemesis:
    """Carries a schedule out.

    Where writes are not flushed, one disk at a time loses what was not synced, while all others hold everything; and
    nobody else crashes before it does so again. Kafka takes every unclean restart for a loss: once no replica is left
    that was not restarted so, the last known leader leads, be it the one whose disk lost something (KIP-966).
    """

    def __init__(
        self,
        cluster: SimCluster,
        clients: Sequence[str],
        partitions: Sequence[TopicPartition],
        truth: Callable[[], MetadataImage | None],
        flushed: bool,
    ) -> None:
        self._cluster = cluster
        self._sim = cluster.sim
        self._clients = clients
        self._partitions = partitions
        self._truth = truth
        self._flushed = flushed
        self._lost: dict[str, int] = {}
        """Nodes that lost unsynced data, and their broker epoch then."""
        self._paused: dict[str, None] = {}
        self._stopping: dict[str, asyncio.Task[None]] = {}
        self._over = False
        self.done: list[str] = []
        self.struck: Counter[str] = Counter()
        """How often each kind of fault did happen: a node may be spared, or be down already."""

    def arm(self, faults: Sequence[Fault]) -> None:
        begun = self._sim.now
        for fault in faults:
            self._sim.at(begun + fault.at, self._strike, fault)

    def _say(self, text: str) -> None:
        self.done.append(f"{self._sim.now:9.4f}  {text}")
        self._cluster.note("FAULT", text)

    # Whom

    def _target(self, fault: Fault) -> str | None:
        up = [name for name in self._cluster.names if self._cluster.is_up(name) and name not in self._paused]
        if not up:
            return None
        found: str | None = None
        if fault.whom == CONTROLLER:
            found = self._cluster.active_controller()
        elif fault.whom == LEADER:
            found = self._cluster.leader_of(self._partitions[int(fault.draw * len(self._partitions))])
        return found if found in up else up[int(fault.draw * len(up))]

    def _peer(self, fault: Fault, name: str) -> str:
        peers = [each for each in self._cluster.names if each != name]
        return peers[int(fault.draw * 7919) % len(peers)]

    # What

    def _strike(self, fault: Fault) -> None:
        name = None if self._over else self._target(fault)
        if name is None:
            return
        until = self._sim.now + fault.seconds
        match fault.verb:
            case "kill":
                self._take_down(name, False, until)
            case "cut the power of":
                self._take_down(name, self._may_lose_power(name), until)
            case "tear a write of":
                self._crash_at(fault, name, "during", self._may_lose_power(name))
            case "kill after a write of":
                self._crash_at(fault, name, "after", False)
            case "cut all power of":
                for each in self._cluster.names if self._flushed else [name]:
                    self._take_down(each, self._flushed, until)
            case "pause":
                self._pause(name, until)
            case "restart":
                self._stop(name)
            case "turn the clock of":
                self._say(f"{name}: the clock jumps by {(fault.draw - 0.5) * 7200:.0f} s")
                self.struck["clock jumps"] += 1
                self._sim.jump_clock(name, (fault.draw - 0.5) * 7200)
            case _:
                self._trouble_links(fault, name, until)

    def _trouble_links(self, fault: Fault, name: str, until: float) -> None:
        peer = self._peer(fault, name)
        others = [each for each in self._cluster.names if each != name]
        match fault.verb:
            case "cut a link of":
                self._cut("cuts", [(name, peer)], until)
            case "cut one way from":
                self._cut("one-way cuts", [(name, peer)] if fault.draw < 0.5 else [(peer, name)], until, one_way=True)
            case "isolate":
                self._cut("isolations", [(name, each) for each in (*others, *self._clients)], until)
            case "isolate from nodes":
                self._cut("isolations", [(name, each) for each in others], until)
            case "slow a link of":
                self._say(f"{name} - {peer}: slow until {until:.3f}")
                self.struck["slow links"] += 1
                self._sim.slow(name, peer, SLOW_LINK)
                self._sim.at(until, self._heal, [(name, peer)])
            case "reset the connections of":
                self._say(f"{name} - {peer}: connections are reset")
                self.struck["resets"] += 1
                self._sim.reset(name, peer)

    # Crashes

    def _keeps_only_synced(self, name: str) -> bool:
        """Metadata counts once it is synced, and so does every record in flush mode: a power cut takes nothing away."""
        return self._flushed or not self._cluster.members[name].is_broker

    def _may_lose_power(self, name: str) -> bool:
        if self._keeps_only_synced(name):
            return True
        self._forget_healed()
        truth = self._truth()
        if self._lost or truth is None or not all(map(self._cluster.is_up, self._cluster.names)):
            return False
        return all(len(part.isr) == len(part.replicas) for _, _, part in truth.topics.each_partition())

    def _may_crash(self, name: str) -> bool:
        self._forget_healed()
        return self._keeps_only_synced(name) or all(other == name for other in self._lost)

    def _forget_healed(self) -> None:
        """Whoever lost data counts again once it has registered anew and is in every ISR that it belongs to."""
        truth = self._truth()
        for name, epoch in list(self._lost.items()):
            node = int(name[1:])
            broker = None if truth is None else truth.brokers.get(node)
            if truth is None or broker is None or broker.epoch <= epoch or not self._cluster.is_up(name):
                continue
            if all(node in part.isr for _, _, part in truth.topics.each_partition() if node in part.replicas):
                del self._lost[name]

    def _take_down(self, name: str, power_loss: bool, until: float) -> None:
        if not self._may_crash(name):
            self._say(f"{name}: is spared, {', '.join(self._lost)} has not recovered yet")
            return
        self._say(f"{name}: {'the power is cut' if power_loss else 'killed'} until {until:.3f}")
        self.struck["power cuts" if power_loss else "kills"] += 1
        self._crashed(name, power_loss)
        self._cluster.take_down(name, power_loss)
        self._sim.at(until, self._restart, name)

    def _crashed(self, name: str, power_loss: bool) -> None:
        self._paused.pop(name, None)
        truth = self._truth()
        if power_loss and not self._keeps_only_synced(name):
            broker = None if truth is None else truth.brokers.get(int(name[1:]))
            self._lost[name] = -1 if broker is None else broker.epoch

    def _crash_at(self, fault: Fault, name: str, phase: Phase, power_loss: bool) -> None:
        """At one of the next appends of this life; if there are too few of them, half a second later."""
        of_metadata = fault.draw < 0.3
        nth = 1 + int(fault.draw * 10) if of_metadata else 1 + int((fault.draw - 0.3) * 25)
        pattern = "/data/__cluster*" if of_metadata else "*.log"
        self._say(f"{name}: {'loses power' if power_loss else 'dies'} {phase} its append no. {nth} to {pattern}")
        if power_loss:
            self._crashed(name, True)
        member = self._cluster.members[name]
        life, matches = member.lives, matching("append", pattern)

        def is_it(event: Event) -> bool:
            return not self._over and member.lives == life and matches(event) and self._may_crash(name)

        point = self._sim.crash_at(name, is_it, nth, phase, power_loss)

        def look() -> None:
            if self._over or member.lives != life:
                return
            if point.hit is not None:
                self._say(f"{name}: has crashed at {point.hit.at:.4f}: {point.hit.kind} {point.hit.subject}")
                self.struck["torn writes" if phase == "during" else "kills after a write"] += 1
            self._take_down(name, power_loss, self._sim.now + fault.seconds)

        self._sim.at(self._sim.now + 0.5, look)

    def _stop(self, name: str) -> None:
        """A controlled shutdown, and a new life as soon as it has come to its end."""
        if name in self._stopping or self._cluster.members[name] not in self._cluster.serving():
            return
        self._say(f"{name}: is stopped, and started again")

        async def stop() -> None:
            stopped = await self._cluster.stop(name)
            del self._stopping[name]
            self._cluster.note(name, "has stopped" if stopped else "did not come to stop")
            if stopped:
                self.struck["controlled restarts"] += 1
                self._cluster.start(name)

        self._stopping[name] = self._sim.loop.create_task(stop())

    def _restart(self, name: str) -> None:
        if not self._over and not self._cluster.is_up(name):
            self._cluster.note(name, "starts")
            self._cluster.start(name)

    # Pauses and links

    def _pause(self, name: str, until: float) -> None:
        if name in self._paused:
            return
        self._say(f"{name}: paused until {until:.3f}")
        self.struck["pauses"] += 1
        self._paused[name] = None
        self._sim.pause(name)
        self._sim.at(until, self._resume, name)

    def _resume(self, name: str) -> None:
        if self._paused.pop(name, 0) is None and self._cluster.is_up(name):
            self._cluster.note(name, "resumes")
            self._sim.resume(name)

    def _cut(self, kind: str, links: list[tuple[str, str]], until: float, one_way: bool = False) -> None:
        arrow = "->" if one_way else "-"
        self.struck[kind] += 1
        self._say(f"{', '.join(f'{a} {arrow} {b}' for a, b in links)}: cut until {until:.3f}")
        for a, b in links:
            self._sim.cut(a, b, one_way)
        self._sim.at(until, self._heal, links)

    def _heal(self, links: list[tuple[str, str]]) -> None:
        for a, b in links:
            self._sim.heal(a, b)

    def end(self) -> None:
        """No more faults; what is cut heals, who is paused goes on, who is down starts."""
        self._over = True
        for name in list(self._paused):
            self._resume(name)
        self._sim.heal()
        for name in self._cluster.names:
            if not self._cluster.is_up(name):
                self._cluster.take_down(name, False)
                self._cluster.start(name)
