"""`highwater demo`: a node at work, killed and brought back on the way, and a verdict on what was lost."""

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
from highwater.cli.up import LocalCluster, Member, free_port, is_alive
from highwater.client.admin import Admin, NewTopic
from highwater.client.client import Client
from highwater.client.consumer import Consumer
from highwater.client.failures import ClientFailure
from highwater.client.producer import Producer
from highwater.errors import KafkaError
from highwater.model import TopicPartition

TOPIC = "orders"
PARTITIONS = 3
BATCH = 20
KILL_AFTER = 0.35
"""Of the run's time; without an end, the kill comes after ten seconds."""
DOWN_SECONDS = 1.0
DRAIN_SECONDS = 30.0
RETURN_SECONDS = 30.0


@dataclass(slots=True)
class Progress:
    """What the screen shows; each field has one writer."""

    acked: int = 0
    delivered: int = 0
    trouble: str = ""
    killed_at: float | None = None
    back_at: float | None = None
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


class Demo:
    def __init__(self, seconds: float | None, console: Console) -> None:
        self._seconds = seconds
        self._console = console
        self._started = time.monotonic()
        self.progress = Progress()
        self._acked_before = sys.maxsize

    def run(self) -> tuple[Verdict, bool]:
        """The verdict, and whether the kill and the return really happened."""
        with tempfile.TemporaryDirectory(prefix="highwater-demo-") as home:
            cluster = LocalCluster(Path(home), 1, free_port(), {})
            cluster.prepare()
            begun = time.monotonic()
            cluster.start()
            self._tell(f"one node ready after {time.monotonic() - begun:.2f} s at {cluster.bootstrap}")
            try:
                return self._play(cluster)
            finally:
                cluster.stop()

    def _play(self, cluster: LocalCluster) -> tuple[Verdict, bool]:
        with Client(cluster.bootstrap) as client:
            Admin(client).create_topics([NewTopic(TOPIC, PARTITIONS, 1)])
        feed = Feed(cluster.bootstrap, self.progress)
        tail = Tail(cluster.bootstrap, self.progress)
        feed.start()
        tail.start()
        self._started = time.monotonic()
        kill_at = 10.0 if self._seconds is None else max(1.0, self._seconds * KILL_AFTER)
        with self._screen() as refresh:
            try:
                while not self._over():
                    if self.progress.killed_at is None and self._elapsed() >= kill_at:
                        self._kill_and_bring_back(cluster.members[0])
                    self._look_for_return(cluster.members[0])
                    refresh()
                    time.sleep(0.1)
            except KeyboardInterrupt:
                self._tell("interrupted: the feed stops, the rest is read")
            with _no_interrupts():
                self._drain(feed, tail, refresh)
        verdict = judge(History(feed.sends, tail.reads))
        return verdict, self.progress.killed_at is not None and self.progress.back_at is not None

    def _elapsed(self) -> float:
        return time.monotonic() - self._started

    def _over(self) -> bool:
        """Not before a killed node is back, or is given up: a run that ends in between would prove nothing."""
        if self._seconds is None:
            return False
        waiting = self.progress.killed_at is not None and self.progress.back_at is None
        return self._elapsed() >= self._seconds + (RETURN_SECONDS if waiting else 0.0)

    def _kill_and_bring_back(self, member: Member) -> None:
        os.kill(member.pid, signal.SIGKILL)
        os.waitpid(member.pid, 0)
        self.progress.killed_at = time.monotonic()
        self._tell(f"node 1 (pid {member.pid}) killed with SIGKILL")

    def _look_for_return(self, member: Member) -> None:
        """A second after the kill the node is started again; it is back with the first write acknowledged since."""
        progress = self.progress
        if progress.killed_at is None or progress.back_at is not None:
            return
        if not is_alive(member.pid) and time.monotonic() - progress.killed_at >= DOWN_SECONDS:
            member.pid = subprocess.Popen(member.argv, start_new_session=True).pid
            self._acked_before = progress.acked
            self._tell(f"node 1 started again (pid {member.pid}), its log is being recovered")
        elif is_alive(member.pid) and progress.acked > self._acked_before:
            progress.back_at = time.monotonic()
            outage = progress.back_at - progress.killed_at
            self._tell(f"writes are acknowledged again, {outage:.2f} s after the kill")

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
            self._console.print(self.progress.events[-1], highlight=False)

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
        table = Table(title="Highwater: one node, orders flowing in and out", show_header=False, min_width=72)
        table.add_row("time", f"{elapsed:.1f} s {left}")
        table.add_row("acknowledged", f"{done.acked}   ({done.acked / elapsed:,.0f} records/s)")
        table.add_row("delivered", f"{done.delivered}   (lag {max(done.acked - done.delivered, 0)})")
        state = "up" if done.killed_at is None or done.back_at is not None else "[red]killed, coming back[/red]"
        table.add_row("node 1", state)
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
        console.print("The node was not killed and brought back: this run proves nothing about failure.")
    elif verdict.ok and verdict.acked:
        console.print("Every acknowledged record survived the kill, once and in order.")


@click.command("demo")
@click.option("--seconds", type=click.FloatRange(min=5), help="How long to run; without it, until Ctrl-C.")
def command(seconds: float | None) -> None:
    """Run a node with a producer and a consumer, kill it with SIGKILL on the way, start it again, and judge.

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
