"""The failure that the demo shows: a broker is killed by SIGKILL, others take over, and it comes back and catches
up."""

from __future__ import annotations

import time

from highwater.cli.demo.orders import PARTITIONS
from highwater.cli.demo.progress import DemoProgress
from highwater.cli.demo.replicas import PartitionState
from highwater.cli.local_cluster import LocalCluster
from highwater.cli.node_process import NodeProcess

STRUCK = 0
"""The leader of this partition is killed, unless somebody has killed a leader before."""


class Outage:
    """One death: what it caused, step by step. The last line of the caption is the present step."""

    def __init__(self, victim: NodeProcess, progress: DemoProgress, killed_at: float) -> None:
        self.victim = victim
        self.killed_at = killed_at
        self._progress = progress
        led = progress.led_by(victim.id)
        self.struck = led[0] if led else None
        """A partition that it led; None if it led none."""
        self._epoch = progress.partitions[led[0]].epoch if led else 0
        self._ends = {at: each.replicas[victim.id].log_end for at, each in enumerate(progress.partitions)
                      if victim.id in each.replicas}  # fmt: skip
        self.is_served = self.struck is None
        self.is_over = False
        self._say(f"Broker {victim.id} died → {self._expected()}", is_first=True)

    def _expected(self) -> str:
        if self.struck is None:
            return "it led nothing: two replicas of each partition go on"
        return f"{PARTITIONS[self.struck]} has no leader until the controller notices"

    def step(self) -> None:
        if not self.is_served:
            self._look_for_service()
        if self.victim.is_alive and self.is_served and not self.is_over:
            self._look_for_return()

    def _look_for_service(self) -> None:
        assert self.struck is not None
        served, state = self._progress.served.get(self.struck), self._progress.partitions[self.struck]
        if served is None or served.leader == self.victim.id or state.epoch <= self._epoch or state.leader < 0:
            return
        self.is_served = True
        seconds = max(0.0, served.since - self.killed_at)
        chosen = f"the controller chose {state.leader} → epoch {self._epoch} → {state.epoch}"
        line = f"Broker {self.victim.id} died → {chosen} → next write acknowledged after {seconds:.2f} s"
        self._say(line, is_first=True)

    def _look_for_return(self) -> None:
        states = self._progress.partitions
        if not all(self._is_back(each) for each in states):
            return
        self.is_over = True
        missed = sum(
            max(0, each.replicas[self.victim.id].log_end - self._ends.get(at, 0))
            for at, each in enumerate(states)
            if self.victim.id in each.replicas
        )
        seconds = time.monotonic() - self.killed_at
        self._say(
            f"Broker {self.victim.id} is in sync again, {seconds:.2f} s after its death → it fetched {missed:,} records"
        )

    def _is_back(self, state: PartitionState) -> bool:
        """An ISR that was seen before the death still has its name in it, so it must also follow in the last epoch."""
        own = state.replicas.get(self.victim.id)
        answers = self._progress.looks[self.victim.id].answers
        return answers and own is not None and own.epoch == state.epoch and self.victim.id in state.in_sync

    def _say(self, line: str, is_first: bool = False) -> None:
        self._progress.add_event(line)
        self._progress.caption = [line] if is_first else [*self._progress.caption[:1], line]

    def started(self) -> None:
        self._say(f"Broker {self.victim.id} started again (pid {self.victim.pid}) → it fetches what it has missed")


class Outages:
    """All deaths of the run, whoever caused them."""

    def __init__(self, cluster: LocalCluster, progress: DemoProgress, down_seconds: float) -> None:
        self._cluster = cluster
        self._progress = progress
        self._down_seconds = down_seconds
        self._all: list[Outage] = []

    @property
    def under_way(self) -> list[Outage]:
        return [each for each in self._all if not each.is_over]

    @property
    def leader_was_killed(self) -> bool:
        return any(each.struck is not None for each in self._all)

    @property
    def is_shown(self) -> bool:
        """A leader was killed and is back in sync, and so is every other broker that was killed."""
        return self.leader_was_killed and not self.under_way

    def is_possible(self) -> bool:
        """False until all replicas are in sync and no broker is disturbed: then any two can do without the third."""
        if self._progress.links or any(state != "alive" for state in self._progress.brokers.values()):
            return False
        brokers = len(self._cluster.members)
        states = self._progress.partitions
        led = len(states) == len(PARTITIONS) and all(each.leader >= 0 for each in states)
        return led and all(len(each.in_sync) == brokers for each in states)

    def announce(self, seconds: float) -> None:
        leader = self._progress.partitions[STRUCK].leader
        who = f"broker {leader}, leader of {PARTITIONS[STRUCK]},"
        line = f"In {seconds:.0f} s {who} is killed with SIGKILL: watch its lane"
        self._progress.add_event(line)
        self._progress.caption = [line]

    def strike(self) -> None:
        """The death that every run shows."""
        leader = self._progress.partitions[STRUCK].leader
        self.kill(next(member for member in self._cluster.members if member.id == leader))

    def kill(self, victim: NodeProcess) -> None:
        self._cluster.obey({"verb": "kill", "nodes": [victim.id]})
        self._progress.add_event(f"broker {victim.id} killed with SIGKILL (pid {victim.pid})")
        for each in self.under_way:
            each.is_over = each.victim is victim
        self._all.append(Outage(victim, self._progress, time.monotonic()))

    def step(self) -> None:
        """Checks the state, and takes the next step."""
        for each in self.under_way:
            each.step()
            if not each.victim.is_alive and time.monotonic() - each.killed_at >= self._down_seconds:
                self._start(each)

    def start_all(self) -> None:
        for each in self.under_way:
            if not each.victim.is_alive:
                self._start(each)

    def _start(self, outage: Outage) -> None:
        self._cluster.launch(outage.victim)
        outage.started()
