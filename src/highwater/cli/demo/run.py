"""The run: brokers, feed, pipeline and outage at the same time. Then everything under way arrives and is judged."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from highwater.cli.demo.arrived import Arrived
from highwater.cli.demo.feed import Feed
from highwater.cli.demo.interrupts import Interrupts
from highwater.cli.demo.orders import PARTITIONS, REVENUE_TOPIC, TOPIC
from highwater.cli.demo.outage import Outage
from highwater.cli.demo.progress import DemoProgress
from highwater.cli.demo.screen import Screen
from highwater.cli.demo.verdict import Judgement, Sums, judge_in_parts
from highwater.cli.demo.watch import Watch, end_offsets
from highwater.cli.local_cluster import LocalCluster
from highwater.client.admin import Admin, NewTopic
from highwater.client.client import Client
from highwater.model import TopicPartition

STEP_SECONDS = 0.02
STOP_SECONDS = 70.0
"""For a thread that talks to the brokers: a little more than its client's timeout."""
RETURN_SECONDS = 90.0
DRAIN_SECONDS = 240.0
"""Spark may have just started on a busy machine. A Spark that failed reports it, and is not waited for."""


class Destination(Protocol):
    """The destination of the orders. It updates the arrivals in the progress."""

    sums_up: bool
    """Whether it also writes the revenues to a topic."""

    def start(self) -> None: ...

    def step(self) -> None:
        """Called again and again, by the thread that shows the screen."""

    def has_reached(self, ends: Mapping[int, int]) -> bool:
        """Whether all records before these offsets, by partition, have arrived."""

    def finish(self) -> Arrived:
        """Ends it, and returns every order that has arrived."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Plan:
    """When things happen, in seconds since the feed began."""

    seconds: float | None
    """None: until it is interrupted."""

    @property
    def kill_at(self) -> float:
        return 10.0 if self.seconds is None else max(1.0, self.seconds * 0.35)

    @property
    def kill_by(self) -> float:
        """After this time the kill does not wait for landed orders: a short run is over before Spark has begun."""
        return math.inf if self.seconds is None else max(1.0, self.seconds * 0.6)

    def is_over(self, elapsed: float) -> bool:
        return self.seconds is not None and elapsed >= self.seconds


class Demo:
    def __init__(
        self, plan: Plan, cluster: LocalCluster, destination: Destination, progress: DemoProgress, screen: Screen
    ) -> None:
        self._plan = plan
        self._destination = destination
        self._progress = progress
        self._screen = screen
        self._cluster = cluster
        self._outage = Outage(cluster, progress)
        self._feed = Feed(cluster.bootstrap, progress)
        self._watch = Watch(cluster.bootstrap, progress)
        self._began = 0.0

    def run(self, interrupts: Interrupts) -> Judgement:
        self._create_topics()
        try:
            self._feed.start()
            self._watch.start()
            self._destination.start()
            self._began = time.monotonic()
            with self._screen:
                while not self._is_over(interrupts):
                    self._play()
                complete = self._drain(interrupts)
                arrived = self._destination.finish()
        finally:
            self._feed.stop(0)
            self._destination.close()
            self._watch.stop(STOP_SECONDS)
        reached = {PARTITIONS[at]: offset for at, offset in self._progress.arrivals.reached.items()}
        verdict, revenue = judge_in_parts(self._feed.sends, arrived, complete, reached)
        return Judgement(verdict, self._outage.is_over, self._sums(revenue))

    def _create_topics(self) -> None:
        brokers = len(self._cluster.members)
        wanted = [NewTopic(TOPIC, len(PARTITIONS), brokers), NewTopic(REVENUE_TOPIC, 1, brokers)]
        with Client(self._cluster.bootstrap) as client:
            Admin(client).create_topics(wanted)

    def _is_over(self, interrupts: Interrupts) -> bool:
        """False until a killed broker is back, or is given up: a run that ends in between would prove nothing."""
        if interrupts.count > 1 or self._progress.arrivals.failed:
            return True
        if self._outage.killed_at is not None and not self._outage.is_over:
            return time.monotonic() - self._outage.killed_at >= RETURN_SECONDS
        return interrupts.count > 0 or self._plan.is_over(self._elapsed())

    def _elapsed(self) -> float:
        return time.monotonic() - self._began

    def _play(self) -> None:
        elapsed = self._elapsed()
        wanted = elapsed >= self._plan.kill_at and (self._progress.arrivals.rows > 0 or elapsed >= self._plan.kill_by)
        if wanted and self._outage.killed_at is None and self._outage.is_possible():
            self._outage.begin()
        self._step()

    def _step(self) -> None:
        self._outage.step()
        self._destination.step()
        self._screen.refresh()
        time.sleep(STEP_SECONDS)

    def _drain(self, interrupts: Interrupts) -> frozenset[TopicPartition]:
        """Nothing new is sent; what is under way arrives. Returns the partitions of which everything has arrived."""
        self._progress.add_event("the feed stops, what it has sent arrives (Ctrl-C ends the waiting)")
        self._screen.refresh()
        self._feed.stop(STOP_SECONDS)
        with Client(self._cluster.bootstrap) as client:
            ends = end_offsets(client)
        heard, deadline = interrupts.count, time.monotonic() + DRAIN_SECONDS
        while not self._destination.has_reached(ends) and not self._progress.arrivals.failed:
            if interrupts.count > heard or time.monotonic() > deadline:
                self._progress.add_event("the waiting has ended before all has arrived")
                break
            self._step()
        return frozenset(
            each
            for each in PARTITIONS
            if each.partition in ends and self._destination.has_reached({each.partition: ends[each.partition]})
        )

    def _sums(self, of_rows: Mapping[str, int]) -> Sums | None:
        return Sums(of_rows, dict(self._progress.revenue)) if self._destination.sums_up else None
