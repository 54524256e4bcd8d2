"""Fifty partitions move among five brokers, with a throttle, under load and kills: `python bench/reassignment.py`.

It shows what each broker took in the busiest window, beside the throttle, and whether a record was lost. Then the
partitions move again, and all is cancelled halfway.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).parents[1]))

from highwater import Cluster
from highwater.client import Admin, Client, NewTopic, Producer
from highwater.client.descriptions import describe_topics
from highwater.client.failures import ClientFailure
from highwater.client.reassignments import alter_reassignments
from highwater.client.throttles import clear_throttles, planned_moves, set_throttle
from highwater.errors import KafkaError
from highwater.model import TopicPartition

TOPIC, PARTITIONS, BROKERS = "moving", 50, 5
WINDOW_SECONDS = 11.0
"""Kafka judges a rate over so many samples of a second each."""
BATCH = 100
Replicas = Mapping[TopicPartition, Sequence[int]]


class Load(threading.Thread):
    """Writes numbered records to all partitions in turn, and remembers which were acknowledged."""

    def __init__(self, servers: str, record_bytes: int) -> None:
        super().__init__(daemon=True)
        self._servers = servers
        self._bytes = record_bytes
        self.acked: set[bytes] = set()
        self.ends = threading.Event()

    def run(self) -> None:
        number = 0
        with Client(self._servers) as client:
            producer = Producer(client)
            while not self.ends.is_set():
                number += 1
                value = b"%d " % number
                record = (time.time_ns() // 1_000_000, None, value.ljust(self._bytes, b"."), ())
                try:
                    producer.send(TopicPartition(TOPIC, number % PARTITIONS), [record])
                except (KafkaError, ClientFailure):
                    continue  # not acknowledged: it may be there or not
                self.acked.add(value)


class Watch:
    """How many bytes the added replicas of each broker have on disk, again and again."""

    def __init__(self, cluster: Cluster, before: Replicas, target: Replicas) -> None:
        self._cluster = cluster
        self.added = {tp: [broker for broker in target[tp] if broker not in before[tp]] for tp in target}
        self._sizes: Counter[tuple[int, TopicPartition]] = Counter()
        self._seen: list[tuple[float, Counter[int]]] = []

    def look(self, moving: set[TopicPartition]) -> int:
        """What was copied so far. A replica that has arrived takes the load without a throttle, and counts no more."""
        for tp in moving:
            for broker in self.added.get(tp, ()):
                folder = self._cluster.log_dir(broker) / f"{tp.topic}-{tp.partition}"
                size = sum(path.stat().st_size for path in folder.glob("*.log") if path.exists())
                self._sizes[broker, tp] = max(size, self._sizes[broker, tp])
        of_broker: Counter[int] = Counter()
        for (broker, _), size in self._sizes.items():
            of_broker[broker] += size
        self._seen.append((time.monotonic(), of_broker))
        return of_broker.total()

    def busiest(self) -> dict[int, float]:
        """The highest rate of each broker over a window."""
        rates = {}
        for broker in range(1, BROKERS + 1):
            most = 0
            for at, sizes in self._seen:
                earlier = [each[broker] for moment, each in self._seen if moment <= at - WINDOW_SECONDS]
                most = max(most, sizes[broker] - (earlier[-1] if earlier else 0))
            rates[broker] = most / WINDOW_SECONDS
        return rates

    def means(self) -> dict[int, float]:
        """Bytes per second of each broker, from the beginning to its last byte."""
        begun, last = self._seen[0][0], self._seen[-1][1]
        ended = {b: next(at for at, sizes in self._seen if sizes[b] == last[b]) for b in last}
        return {broker: last[broker] / max(ended[broker] - begun, 1.0) for broker in sorted(last)}


def replicas(client: Client) -> dict[TopicPartition, list[int]]:
    rows = describe_topics(client, [TOPIC])[0].partitions
    return {TopicPartition(TOPIC, row.partition_index): list(row.replica_nodes) for row in rows}


def is_whole(client: Client) -> bool:
    rows = describe_topics(client, [TOPIC])[0].partitions
    return all(set(row.isr_nodes) == set(row.replica_nodes) for row in rows) and len(rows) == PARTITIONS


def shifted(before: Replicas) -> dict[TopicPartition, list[int]]:
    """Every replica moves to the broker that comes two places later."""
    return {tp: [(broker + 1) % BROKERS + 1 for broker in places] for tp, places in before.items()}


def patiently(look: Callable[[], bool]) -> bool:
    """A broker may be down."""
    try:
        return look()
    except (KafkaError, ClientFailure, OSError):
        return False


def wait(look: Callable[[], bool], seconds: float = 120) -> None:
    limit = time.monotonic() + seconds
    while not patiently(look):
        if time.monotonic() > limit:
            raise SystemExit("it takes too long")
        time.sleep(0.2)


def fill(client: Client, total: int) -> None:
    producer, value = Producer(client), bytes(10_000)
    for turn in range(max(total // PARTITIONS // (BATCH * len(value)), 1)):
        for index in range(PARTITIONS):
            now = time.time_ns() // 1_000_000
            producer.send(TopicPartition(TOPIC, index), [(now, b"%d" % turn, value, ())] * BATCH)


def move(cluster: Cluster, client: Client, rate: int, at_half: Callable[[], None]) -> Watch:
    """Moves all partitions, and calls `at_half` when half of the bytes are copied. Returns when nothing moves."""
    admin, before = Admin(client), replicas(client)
    target = shifted(before)
    set_throttle(admin, planned_moves(target, before, {}), rate)
    watch = Watch(cluster, before, target)
    sizes = {tp: sum(p.stat().st_size for p in _folder(cluster, before[tp][0], tp).glob("*.log")) for tp in before}
    total = sum(sizes[tp] * len(added) for tp, added in watch.added.items())
    refused = alter_reassignments(client, target)
    assert not refused, refused
    moving, is_half = set(target), False
    while moving:
        copied = watch.look(moving)
        if not is_half and 2 * copied >= total:
            is_half = True
            at_half()
        time.sleep(0.25)
        if patiently(lambda: admin.list_reassignments() is not None):
            moving = set(admin.list_reassignments())
    watch.look(set(target))
    clear_throttles(admin)
    return watch


def _folder(cluster: Cluster, broker: int, tp: TopicPartition) -> Path:
    return cluster.log_dir(broker) / f"{tp.topic}-{tp.partition}"


@click.command()
@click.option("--megabytes", default=200, show_default=True, help="Bytes of the topic, of one copy.")
@click.option("--rate", default=5_000_000, show_default=True, help="The throttle, in bytes per second.")
@click.option("--record-bytes", default=200, show_default=True, help="The size of each record of the load.")
def main(megabytes: int, rate: int, record_bytes: int) -> None:
    settings = {"auto.leader.rebalance.enable": "false", "min.insync.replicas": "2"}
    with Cluster(brokers=BROKERS, config=settings, processes=True) as cluster:
        with Client(cluster.bootstrap_servers) as client:
            Admin(client).create_topics([NewTopic(TOPIC, PARTITIONS, 3)])
            fill(client, megabytes * 1_000_000)
            load = Load(cluster.bootstrap_servers, record_bytes)
            load.start()
            begun = time.monotonic()

            def kill() -> None:
                active = cluster.view().controller
                click.echo(f"half is copied: broker 5 and controller {active} are killed, and start again")
                cluster.kill(5, *([] if active in (5, None) else [active]))
                cluster.start()

            watch = move(cluster, client, rate, kill)
            click.echo(f"{PARTITIONS} partitions moved in {time.monotonic() - begun:.1f} s")
            for broker, busiest in watch.busiest().items():
                mean = watch.means().get(broker, 0.0)
                click.echo(
                    f"  broker {broker}: {busiest / rate:.2f} of the throttle in its busiest {WINDOW_SECONDS:g} s, "
                    f"{mean / rate:.2f} in the mean"
                )
            wait(lambda: is_whole(client))
            settled = replicas(client)

            def cancel() -> None:
                moving = Admin(client).list_reassignments()
                left = alter_reassignments(client, dict.fromkeys(moving))
                click.echo(f"half is copied again: {len(moving) - len(left)} moves are cancelled")

            move(cluster, client, rate, cancel)
            wait(lambda: is_whole(client))
            after = replicas(client)
            same = sum(set(after[tp]) == set(settled[tp]) for tp in settled)
            click.echo(f"{same} of {PARTITIONS} partitions are where they were; all ISRs are whole")
            load.ends.set()
            load.join(60)
        found = {record.value.split(b".")[0] for record in cluster.records(TOPIC) if record.value is not None}
        lost = load.acked - found
        click.echo(f"acknowledged under way {len(load.acked)}, lost {len(lost)}")
        sys.exit(1 if lost else 0)


if __name__ == "__main__":
    main()
