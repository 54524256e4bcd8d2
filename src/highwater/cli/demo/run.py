"""The run: brokers, feed, pipeline and outage at the same time. Then everything under way arrives and is judged."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Protocol

from highwater.cli.demo.arrived import Arrived
from highwater.cli.demo.feed import Feed
from highwater.cli.demo.interrupts import Interrupts
from highwater.cli.demo.key_orders import KeyOrders
from highwater.cli.demo.orders import PARTITIONS, REVENUE_TOPIC, TOPIC
from highwater.cli.demo.outage import Outages
from highwater.cli.demo.plan import Plan
from highwater.cli.demo.progress import DemoProgress
from highwater.cli.demo.screen import Screen
from highwater.cli.demo.verdict import Judgement, Sums, judge_in_parts
from highwater.cli.demo.watch import Watch, end_offsets
from highwater.cli.keys import Keys
from highwater.cli.local_cluster import LocalCluster
from highwater.client.admin import Admin, NewTopic
from highwater.client.client import Client
from highwater.model import TopicPartition

STEP_SECONDS = 0.02
STOP_SECONDS = 70.0
"""For a thread that talks to the brokers: a little more than its client's timeout."""
RETURN_SECONDS = 90.0
LAG_SECONDS = 10.0
"""Shorter than the default of 30 s, so that the effect of a cut or a pause is seen."""
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


class Demo:
    def __init__(
        self,
        plan: Plan,
        cluster: LocalCluster,
        destination: Destination,
        progress: DemoProgress,
        screen: Screen,
        keys: Keys,
        interrupts: Interrupts,
    ) -> None:
        self._plan = plan
        self._destination = destination
        self._progress = progress
        self._screen = screen
        self._cluster = cluster
        self._keys = keys
        self._interrupts = interrupts
        self._outages = Outages(cluster, progress, plan.down_seconds)
        self._orders = KeyOrders(cluster, progress, self._outages, interrupts, LAG_SECONDS)
        self._feed = Feed(cluster.bootstrap, progress)
        self._watch = Watch(cluster.http, progress)
        self._began = 0.0
        self._announced_at: float | None = None
        self._ending_at: float | None = None

    def run(self) -> Judgement:
        self._create_topics()
        try:
            self._feed.start()
            self._watch.start()
            self._destination.start()
            self._began = time.monotonic()
            with self._screen:
                while not self._is_over():
                    self._play()
                complete = self._drain()
                arrived = self._destination.finish()
        finally:
            self._feed.stop(0)
            self._destination.close()
            self._watch.stop(STOP_SECONDS)
        reached = {PARTITIONS[at]: offset for at, offset in self._progress.arrivals.reached.items()}
        verdict, revenue = judge_in_parts(self._feed.sends, arrived, complete, reached)
        return Judgement(verdict, self._outages.is_shown, self._sums(revenue))

    def _create_topics(self) -> None:
        brokers = len(self._cluster.members)
        wanted = [NewTopic(TOPIC, len(PARTITIONS), brokers), NewTopic(REVENUE_TOPIC, 1, brokers)]
        with Client(self._cluster.bootstrap) as client:
            Admin(client).create_topics(wanted)

    def _is_over(self) -> bool:
        """False until a killed broker is back, or is given up: a run that ends in between would prove nothing."""
        count = self._interrupts.count
        if count > 1 or self._progress.arrivals.failed:
            return True
        if count == 0 and not self._plan.is_over(self._elapsed()):
            return False
        if self._ending_at is None:
            self._ending_at = time.monotonic()
            self._orders.obey("h")  # a broker that is paused or cut off would not let others return
        return not self._outages.under_way or time.monotonic() - self._ending_at >= RETURN_SECONDS

    def _elapsed(self) -> float:
        return time.monotonic() - self._began

    def _play(self) -> None:
        if not self._outages.leader_was_killed and self._ending_at is None:
            self._approach_the_kill()
        for key in self._keys.pressed():
            self._orders.obey(key)
        self._step()

    def _approach_the_kill(self) -> None:
        """It is announced, and then it comes, unless the cluster is not whole any more by then."""
        elapsed, now = self._elapsed(), time.monotonic()
        if not self._plan.wants_kill(elapsed, self._progress.arrivals.rows > 0) or not self._outages.is_possible():
            self._announced_at = None
        elif self._announced_at is None:
            self._announced_at = now
            self._outages.announce(self._plan.notice_seconds)
        elif now - self._announced_at >= self._plan.notice_seconds:
            self._outages.strike()

    def _step(self) -> None:
        self._orders.look()
        self._destination.step()
        self._progress.take_looks()
        self._outages.step()
        self._screen.refresh()
        time.sleep(STEP_SECONDS)

    def _drain(self) -> frozenset[TopicPartition]:
        """Nothing new is sent; what is under way arrives. Returns the partitions of which everything has arrived."""
        self._orders.obey("h")
        self._progress.add_event("the feed stops, what it has sent arrives (Ctrl-C ends the waiting)")
        self._progress.caption = [
            *self._progress.caption[:1],
            "The feed has stopped → what it has sent arrives → verdict",
        ]
        self._screen.refresh()
        self._feed.stop(STOP_SECONDS)
        with Client(self._cluster.bootstrap) as client:
            ends = end_offsets(client)
        heard, deadline = self._interrupts.count, time.monotonic() + DRAIN_SECONDS
        while not self._destination.has_reached(ends) and not self._progress.arrivals.failed:
            if self._interrupts.count > heard or time.monotonic() > deadline:
                self._progress.add_event("the waiting has ended before all has arrived")
                break
            self._step()
        self._step()  # the last picture has the last numbers
        return frozenset(
            each
            for each in PARTITIONS
            if each.partition in ends and self._destination.has_reached({each.partition: ends[each.partition]})
        )

    def _sums(self, of_rows: Mapping[str, int]) -> Sums | None:
        return Sums(of_rows, dict(self._progress.revenue)) if self._destination.sums_up else None
