"""The failure that the demo shows: a leader is killed by SIGKILL, others take over, and it comes back and catches
up."""

from __future__ import annotations

import signal
import time

from highwater.cli.demo.orders import PARTITIONS
from highwater.cli.demo.progress import DemoProgress
from highwater.cli.local_cluster import LocalCluster
from highwater.cli.node_process import NodeProcess

DOWN_SECONDS = 2.0
STRUCK = PARTITIONS[0]
"""The leader of this partition is killed."""


class Outage:
    def __init__(self, cluster: LocalCluster, progress: DemoProgress) -> None:
        self._cluster = cluster
        self._progress = progress
        self._acked_before = 0
        self._victim: NodeProcess | None = None
        self.killed_at: float | None = None
        self.served_at: float | None = None
        """When the partition that lost its leader took a write again."""
        self.back_at: float | None = None
        """When the killed broker was in every ISR again."""

    @property
    def is_over(self) -> bool:
        return self.back_at is not None

    def is_possible(self) -> bool:
        """False until all replicas are in sync: then any two can do without the third."""
        brokers = len(self._cluster.members)
        states = self._progress.partitions
        return len(states) == len(PARTITIONS) and all(len(each.in_sync) == brokers for each in states)

    def begin(self) -> None:
        leader = self._progress.partitions[STRUCK.partition].leader
        self._victim = victim = next(member for member in self._cluster.members if member.id == leader)
        self._acked_before = self._acked()
        victim.signal(signal.SIGKILL)
        victim.wait()
        self.killed_at = time.monotonic()
        self._progress.add_event(f"broker {victim.id}, leader of {STRUCK}, killed with SIGKILL (pid {victim.pid})")

    def step(self) -> None:
        """Checks the state, and takes the next step."""
        self._progress.alive = {member.id: member.is_alive for member in self._cluster.members}
        if self._victim is None or self.killed_at is None or self.is_over:
            return
        victim, now = self._victim, time.monotonic()
        since = now - self.killed_at
        if self.served_at is None and self._acked() > self._acked_before:
            self.served_at = now
            self._progress.add_event(f"{STRUCK} has a new leader and takes writes again, {since:.2f} s after the kill")
        if not victim.is_alive:
            if since >= DOWN_SECONDS:
                self._start(victim)
        elif self.served_at is not None and self.is_possible():
            self.back_at = now
            self._progress.add_event(f"broker {victim.id} is in sync again, {since:.2f} s after the kill")

    def _start(self, victim: NodeProcess) -> None:
        victim.launch()
        self._progress.add_event(f"broker {victim.id} started again (pid {victim.pid}), it catches up with the others")

    def _acked(self) -> int:
        return self._progress.acked_in.get(STRUCK.partition, 0)
