"""Groups under load whose members join, leave, are paused and are killed: every record is processed, and by its owner.

The mixed group and the cooperative ones have four members each in the ordinary run; with HIGHWATER_GROUP_MEMBERS=10
they have ten, and so has a group of each client besides. Records may be processed twice, as Kafka promises no more to
who commits after processing; none may be missing.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from highwater import Cluster
from tests.cluster.group_member import CLIENTS, Claim, Member

MEMBERS = int(os.environ.get("HIGHWATER_GROUP_MEMBERS", "0"))
PARTITIONS = 12
RECORDS_PER_SECOND = 300
SECONDS = 240.0 if MEMBERS else 120.0
CONFIG = {
    "offsets.topic.num.partitions": 8,
    "group.initial.rebalance.delay.ms": 200,
    "group.min.session.timeout.ms": 500,
    "min.insync.replicas": 2,
}


class Kind(NamedTuple):
    name: str
    clients: tuple[str, ...]
    assignor: str = "range"


MIXED = Kind("mixed", CLIENTS)
COOPERATIVE = [Kind(f"cooperative-{client}", (client,), "cooperative-sticky") for client in CLIENTS[:2]]
"""aiokafka has no such assignor."""
EAGER = [Kind(client, (client,)) for client in CLIENTS]
KINDS = [MIXED, *COOPERATIVE, *(EAGER if MEMBERS else [])]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3, config=CONFIG, processes=True) as made:
        yield made


class Writing:
    """Writes to every topic, round and round its partitions, until the test ends it."""

    def __init__(self, bootstrap: str, topics: Sequence[str]) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "log_level": 0})
        self._topics = topics
        self._over = threading.Event()
        self.written: set[tuple[str, int, int]] = set()
        self.failed: list[str] = []
        self._thread = threading.Thread(target=self._write)

    def _delivered(self, error: object, message: object) -> None:
        if error is not None:
            self.failed.append(str(error))
        else:
            self.written.add((message.topic(), message.partition(), message.offset()))  # type: ignore[attr-defined]

    def _write(self) -> None:
        number = 0
        while not self._over.wait(1 / RECORDS_PER_SECOND):
            for topic in self._topics:
                self._producer.produce(topic, b"%d" % number, partition=number % PARTITIONS, callback=self._delivered)
            self._producer.poll(0)
            number += 1
        assert self._producer.flush(60) == 0

    def __enter__(self) -> Writing:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        self._over.set()
        self._thread.join()


class Crowd:
    """One group: some who stay, one that leaves, one that is paused, one that is killed, and one that comes late."""

    def __init__(self, kind: Kind, cluster: Cluster, stack: ExitStack) -> None:
        self.kind = kind
        self.topic = self.group = f"load-{kind.name}"
        self._cluster = cluster
        self._stack = stack
        self._number = 0
        self.everyone: list[Member] = []
        steady = max((MEMBERS or 4) - 3, 1)
        shares = len(kind.clients)
        self.steady = [self._member((steady + at) // shares) for at in range(shares) if (steady + at) // shares]
        self.leaver, self.paused, self.killed = (self._member() for _ in range(3))

    def _member(self, count: int = 1) -> Member:
        client = self.kind.clients[self._number % len(self.kind.clients)]
        self._number += 1
        bootstrap = self._cluster.bootstrap_servers
        made = Member(client, bootstrap, self.group, self.topic, self.kind.assignor, count=count)
        self.everyone.append(self._stack.enter_context(made))
        return made

    def is_shared(self, *gone: Member) -> bool:
        """Each partition has one owner among those that are there."""
        held = Counter(partition for each in self.everyone if each not in gone for partition in each.assigned)
        return held == Counter(range(PARTITIONS))

    def join_one(self) -> None:
        self._member()

    def has_seen(self, written: set[tuple[str, int, int]]) -> bool:
        """Of copies, since members go on reading: to look through a set while it grows is an error."""
        wanted = {(partition, offset) for topic, partition, offset in written if topic == self.topic}
        return wanted <= set().union(*(each.seen.copy() for each in self.everyone))

    def double_owners(self) -> dict[tuple[int, int], list[str]]:
        owners: dict[tuple[int, int], set[str]] = {}
        claims: set[Claim] = set().union(*(each.claims for each in self.everyone))
        for claim in claims:
            owners.setdefault((claim.generation, claim.partition), set()).add(claim.member_id)
        return {place: sorted(ids) for place, ids in owners.items() if len(ids) > 1}

    def committed(self) -> list[tuple[int, int]]:
        """Of each partition what is committed, and where its log ends."""
        consumer = Consumer(
            {"bootstrap.servers": self._cluster.bootstrap_servers, "group.id": self.group, "log_level": 0}
        )
        try:
            places = [TopicPartition(self.topic, index) for index in range(PARTITIONS)]
            ends = [consumer.get_watermark_offsets(place, timeout=120)[1] for place in places]
            return [
                (place.offset, end) for place, end in zip(consumer.committed(places, timeout=120), ends, strict=True)
            ]
        finally:
            consumer.close()

    def is_done(self) -> bool:
        try:
            return all(offset == end for offset, end in self.committed())
        except KafkaException as failed:
            if not failed.args[0].retriable() and failed.args[0].code() != KafkaError._TIMED_OUT:
                raise
            return False


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_record_is_processed_while_members_join_leave_stall_or_die(cluster: Cluster) -> None:
    def all_of(crowds: Sequence[Crowd], holds: Callable[[Crowd], bool], what: str) -> None:
        for crowd in crowds:
            cluster.wait_until(lambda crowd=crowd: holds(crowd), SECONDS, f"{crowd.group}: {what}")  # type: ignore[misc]

    for kind in KINDS:
        cluster.create_topic(f"load-{kind.name}", partitions=PARTITIONS, replication_factor=3)
    topics = [f"load-{kind.name}" for kind in KINDS]
    with ExitStack() as stack, Writing(cluster.bootstrap_servers, topics) as writing:
        crowds = [Crowd(kind, cluster, stack) for kind in KINDS]
        all_of(crowds, Crowd.is_shared, "the members share the partitions")
        for crowd in crowds:
            crowd.paused.pause()
            crowd.leaver.leave()
        all_of(crowds, lambda crowd: crowd.is_shared(crowd.paused), "who stands still is taken for dead")
        for crowd in crowds:
            crowd.paused.resume()
            crowd.killed.kill()
            crowd.join_one()
        all_of(crowds, Crowd.is_shared, "who goes on and who came have their part")
        writing.end()
        all_of(crowds, lambda crowd: crowd.has_seen(writing.written), "every record is processed")
        all_of(crowds, Crowd.is_done, "all that was written is committed")
    assert writing.failed == []
    assert {crowd.group: crowd.double_owners() for crowd in crowds} == {crowd.group: {} for crowd in crowds}
    generations = {
        crowd.group: len({claim.generation for each in crowd.everyone for claim in each.claims}) for crowd in crowds
    }
    print(f"\n{len(writing.written)} records, generations {generations}")
    assert min(generations.values()) >= 3
