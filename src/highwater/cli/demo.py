"""`highwater demo`: three brokers at work, a leader killed and brought back, and a verdict on what was lost."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import click
from rich.console import Console
from rich.live import Live
from rich.table import Table

from highwater.audit import History, Outcome, Read, Sent, Verdict, judge
from highwater.cli.up import LocalCluster, Member, free_ports, is_alive
from highwater.client.admin import Admin, NewTopic
from highwater.client.client import Client
from highwater.client.consumer import Consumer
from highwater.client.descriptions import describe_topics
from highwater.client.failures import ClientFailure
from highwater.client.producer import Producer
from highwater.errors import KafkaError
from highwater.model import TopicPartition

TOPIC = "orders"
PARTITIONS = 3
BROKERS = 3
SETTINGS = {"min.insync.replicas": "2"}
BATCH = 20
KILL_AFTER = 0.35
"""Of the run's time; without an end, the kill comes after ten seconds."""
DOWN_SECONDS = 2.0
LOOK_SECONDS = 0.5
DRAIN_SECONDS = 30.0
RETURN_SECONDS = 30.0


@dataclass(slots=True)
class Progress:
    """What the screen shows; each field has one writer."""

    acked: int = 0
    acked_in: dict[int, int] = field(default_factory=dict)
    """By partition."""
    delivered: int = 0
    trouble: str = ""
    leaders: list[int] = field(default_factory=list)
    in_sync: list[list[int]] = field(default_factory=list)
    killed_at: float | None = None
    served_at: float | None = None
    """When the partition without its leader took a write again."""
    back_at: float | None = None
    """When the killed broker was in every ISR again."""
    events: list[str] = field(default_factory=list)


class Feed(threading.Thread):
    """Orders, keyed and numbered, sent with acks=all by an idempotent producer."""

    def __init__(self, bootstrap: str, progress: Progress) -> None:
        super().__init__(name="feed", daemon=True)
        self._servers = bootstrap
        self._progress = progress
        self.stopping = threading.Event()
        self.sends: list[Sent] = []

    def run(self) -> None:
        with Client(self._servers, client_id="demo-feed", timeout=60, request_timeout=5) as client:
            producer = Producer(client)
            number = 0
            while not self.stopping.is_set():
                partition = TopicPartition(TOPIC, (number // BATCH) % PARTITIONS)
                values = [f"order-{number + i:09d}".encode() for i in range(BATCH)]
                self._send(producer, partition, values)
                number += BATCH
                self.stopping.wait(0.005)

    def _send(self, producer: Producer, partition: TopicPartition, values: list[bytes]) -> None:
        now = int(time.time() * 1000)
        batch = [(now, value[-3:], value, ()) for value in values]
        try:
            base = producer.send(partition, batch)
        except (KafkaError, ClientFailure) as failed:
            self._progress.trouble = str(failed)
            self.sends += [Sent(partition, value, "feed", Outcome.UNKNOWN) for value in values]
            return
        self.sends += [
            Sent(partition, value, "feed", Outcome.ACKED, base + at if base >= 0 else -1)
            for at, value in enumerate(values)
        ]
        self._progress.acked += len(values)
        count = self._progress.acked_in.get(partition.partition, 0)
        self._progress.acked_in[partition.partition] = count + len(values)


class Tail(threading.Thread):
    """Reads every partition from its first record on."""

    def __init__(self, bootstrap: str, progress: Progress) -> None:
        super().__init__(name="tail", daemon=True)
        self._servers = bootstrap
        self._progress = progress
        self.stopping = threading.Event()
        self.reads: list[Read] = []

    def run(self) -> None:
        partitions = {TopicPartition(TOPIC, index): 0 for index in range(PARTITIONS)}
        with Client(self._servers, client_id="demo-tail", timeout=60, request_timeout=5) as client:
            consumer = Consumer(client)
            consumer.assign(partitions)
            while not self.stopping.is_set():
                try:
                    fetched = consumer.poll(0.2)
                except (KafkaError, ClientFailure) as failed:
                    self._progress.trouble = str(failed)
                    continue
                for part in fetched:
                    self.reads += [Read(part.partition, each.offset, each.value or b"") for each in part]
                self._progress.delivered = len(self.reads)


class Watch(threading.Thread):
    """Asks who leads and who is in sync, of whichever broker answers."""

    def __init__(self, bootstrap: str, progress: Progress) -> None:
        super().__init__(name="watch", daemon=True)
        self._servers = bootstrap
        self._progress = progress
        self.stopping = threading.Event()

    def run(self) -> None:
        with Client(self._servers, client_id="demo-watch", timeout=5, request_timeout=2) as client:
            while not self.stopping.wait(LOOK_SECONDS):
                try:
                    (topic,) = describe_topics(client, [TOPIC])
                except (KafkaError, ClientFailure):
                    continue
                partitions = sorted(topic.partitions, key=lambda each: each.partition_index)
                self._progress.leaders = [each.leader_id for each in partitions]
                self._progress.in_sync = [sorted(each.isr_nodes) for each in partitions]


class Demo:
    def __init__(self, seconds: float | None, console: Console) -> None:
        self._seconds = seconds
        self._console = console
        self._started = time.monotonic()
        self.progress = Progress()
        self._victim: Member | None = None
        self._acked_before = 0

    def run(self) -> tuple[Verdict, bool]:
        """The verdict, and whether the kill and the return really happened."""
        with tempfile.TemporaryDirectory(prefix="highwater-demo-") as home:
            cluster = LocalCluster(Path(home), BROKERS, free_ports(BROKERS), SETTINGS)
            cluster.prepare()
            begun = time.monotonic()
            cluster.start()
            self._tell(f"{BROKERS} brokers ready after {time.monotonic() - begun:.2f} s at {cluster.bootstrap}")
            try:
                return self._play(cluster)
            finally:
                cluster.stop()

    def _play(self, cluster: LocalCluster) -> tuple[Verdict, bool]:
        with Client(cluster.bootstrap) as client:
            Admin(client).create_topics([NewTopic(TOPIC, PARTITIONS, BROKERS)])
        feed = Feed(cluster.bootstrap, self.progress)
        tail = Tail(cluster.bootstrap, self.progress)
        watch = Watch(cluster.bootstrap, self.progress)
        for thread in (feed, tail, watch):
            thread.start()
        self._started = time.monotonic()
        kill_at = 10.0 if self._seconds is None else max(1.0, self._seconds * KILL_AFTER)
        with self._screen() as refresh:
            try:
                while not self._over():
                    if self._victim is None and self._elapsed() >= kill_at and self._all_in_sync():
                        self._kill_leader(cluster)
                    self._look_for_return()
                    refresh()
                    time.sleep(0.02)
            except KeyboardInterrupt:
                self._tell("interrupted: the feed stops, the rest is read")
            with _no_interrupts():
                self._drain(feed, tail, refresh)
                watch.stopping.set()
        verdict = judge(History(feed.sends, tail.reads))
        return verdict, self.progress.killed_at is not None and self.progress.back_at is not None

    def _all_in_sync(self) -> bool:
        return len(self.progress.in_sync) == PARTITIONS and all(len(isr) == BROKERS for isr in self.progress.in_sync)

    def _elapsed(self) -> float:
        return time.monotonic() - self._started

    def _over(self) -> bool:
        """Not before a killed node is back, or is given up: a run that ends in between would prove nothing."""
        if self._seconds is None:
            return False
        waiting = self.progress.killed_at is not None and self.progress.back_at is None
        return self._elapsed() >= self._seconds + (RETURN_SECONDS if waiting else 0.0)

    def _kill_leader(self, cluster: LocalCluster) -> None:
        leader = self.progress.leaders[0]
        self._victim = victim = next(member for member in cluster.members if member.id == leader)
        self._acked_before = self.progress.acked_in.get(0, 0)
        os.kill(victim.pid, signal.SIGKILL)
        os.waitpid(victim.pid, 0)
        self.progress.killed_at = time.monotonic()
        self._tell(f"broker {victim.id}, leader of {TOPIC}-0, killed with SIGKILL (pid {victim.pid})")

    def _look_for_return(self) -> None:
        """Another broker leads first; the killed one is started again, catches up, and is in sync again."""
        progress, victim = self.progress, self._victim
        if victim is None or progress.killed_at is None or progress.back_at is not None:
            return
        now = time.monotonic()
        since = now - progress.killed_at
        if progress.served_at is None and progress.acked_in.get(0, 0) > self._acked_before:
            progress.served_at = now
            self._tell(f"{TOPIC}-0 takes writes again, {since:.2f} s after the kill")
        if not is_alive(victim.pid):
            if since >= DOWN_SECONDS:
                victim.pid = subprocess.Popen(victim.argv, start_new_session=True).pid
                self._tell(f"broker {victim.id} started again (pid {victim.pid}), it catches up with the others")
        elif progress.served_at is not None and self._all_in_sync():
            progress.back_at = now
            self._tell(f"broker {victim.id} is in sync again, {since:.2f} s after the kill")

    def _drain(self, feed: Feed, tail: Tail, refresh: Callable[[], None]) -> None:
        """Stop the feed, then read until all that was acknowledged is there, or too long nothing comes."""
        feed.stopping.set()
        feed.join(DRAIN_SECONDS)
        deadline = time.monotonic() + DRAIN_SECONDS
        wanted = {sent.value for sent in feed.sends if sent.outcome is Outcome.ACKED}
        while time.monotonic() < deadline and wanted - {read.value for read in list(tail.reads)}:
            refresh()
            time.sleep(0.2)
        tail.stopping.set()
        tail.join(DRAIN_SECONDS)
        refresh()

    # Showing it

    def _tell(self, event: str) -> None:
        self.progress.events.append(f"{self._elapsed():6.1f} s  {event}")
        if not self._console.is_terminal:
            self._console.print(self.progress.events[-1], highlight=False, soft_wrap=True)

    @contextlib.contextmanager
    def _screen(self) -> Iterator[Callable[[], None]]:
        if self._console.is_terminal:
            with Live(self._table(), console=self._console, refresh_per_second=8) as live:
                yield lambda: live.update(self._table())
            return
        last = [0.0]

        def line() -> None:
            if self._elapsed() - last[0] >= 1.0:
                last[0] = self._elapsed()
                done = self.progress
                text = f"{last[0]:6.1f} s  acked {done.acked}  delivered {done.delivered}"
                self._console.print(text, highlight=False)

        yield line

    def _table(self) -> Table:
        done = self.progress
        elapsed = max(self._elapsed(), 0.1)
        left = "until Ctrl-C" if self._seconds is None else f"of {self._seconds:.0f} s"
        title = f"Highwater: {BROKERS} brokers, orders flowing in and out"
        table = Table(title=title, show_header=False, min_width=72)
        table.add_row("time", f"{elapsed:.1f} s {left}")
        table.add_row("acknowledged", f"{done.acked}   ({done.acked / elapsed:,.0f} records/s)")
        table.add_row("delivered", f"{done.delivered}   (lag {max(done.acked - done.delivered, 0)})")
        if self._victim is not None and done.back_at is None:
            table.add_row(f"broker {self._victim.id}", "[red]killed, coming back[/red]")
        for index, (leader, isr) in enumerate(zip(done.leaders, done.in_sync, strict=False)):
            table.add_row(f"{TOPIC}-{index}", f"leader {leader}, in sync {', '.join(map(str, isr))}")
        table.add_row("events", "\n".join(done.events[-6:]))
        return table


@contextlib.contextmanager
def _no_interrupts() -> Iterator[None]:
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)


def _explain(console: Console, verdict: Verdict, disturbed: bool) -> None:
    table = Table(title="Verdict", show_header=True)
    table.add_column("what")
    table.add_column("count", justify="right")
    for name, count in verdict.counts.items():
        table.add_row(name, str(count))
    console.print(table)
    if not disturbed:
        console.print("No leader was killed and brought back: this run proves nothing about failure.")
    elif verdict.ok and verdict.acked:
        console.print("Every acknowledged record survived the death of its leader, once and in order.")


@click.command("demo")
@click.option("--seconds", type=click.FloatRange(min=5), help="How long to run; without it, until Ctrl-C.")
def command(seconds: float | None) -> None:
    """Run three brokers with a producer and a consumer, kill a leader with SIGKILL, start it again, and judge.

    The last line is "verdict acked=N delivered=N lost=N duplicated=N". The exit code is 0 only if records flowed, the
    kill happened, and nothing was lost or doubled.
    """
    console = Console()

    def stop(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    try:
        verdict, disturbed = Demo(seconds, console).run()
    except KeyboardInterrupt:
        console.print("interrupted before anything was sent")
        verdict, disturbed = Verdict(), False
    _explain(console, verdict, disturbed)
    console.print(verdict.line(), highlight=False, soft_wrap=True)
    sys.exit(0 if verdict.ok and verdict.acked > 0 and verdict.delivered == verdict.acked and disturbed else 1)
