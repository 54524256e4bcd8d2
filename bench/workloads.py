"""What clients do to a system: with librdkafka, as most clients in Python do it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import repeat
from typing import NamedTuple

from confluent_kafka import Consumer, Producer, TopicPartition

from bench.systems import System

RELIABLE = {"acks": "all", "enable.idempotence": True}
QUEUE = {"queue.buffering.max.messages": 500_000, "queue.buffering.max.kbytes": 1 << 20}
UNTIRED = {"queued.min.messages": 1_000_000, "queued.max.messages.kbytes": 1 << 20, "fetch.queue.backoff.ms": 5}
"""A consumer whose own queue is full waits a second by default before it fetches again: the faster the broker, the
likelier, and the figure would be that of the wait."""
HANDED_OVER = 5_000
"""Records per call into the client: a call for each would measure the caller."""


class Sample(NamedTuple):
    """One figure; the brokers' CPU seconds for it (per GB of values, or a million requests); their loops' worst lag."""

    value: float
    cpu: float | None = None
    lag: float | None = None


@dataclass
class Cost:
    """What a system spent while a block ran."""

    seconds: float = 0.0
    cpu: float = 0.0
    lag: float | None = None
    _begin: float = field(default_factory=time.perf_counter)

    def per_gigabyte(self, value: float, size: int) -> Sample:
        return Sample(value, self.cpu / size * 1e9, self.lag)

    def per_million(self, value: float, requests: int) -> Sample:
        return Sample(value, self.cpu / requests * 1e6, self.lag)


@contextmanager
def cost_of(system: System) -> Iterator[Cost]:
    system.take_lag()
    before = system.cpu_seconds()
    cost = Cost()
    yield cost
    cost.seconds = time.perf_counter() - cost._begin
    cost.cpu = system.cpu_seconds() - before
    cost.lag = system.take_lag()


def produce(system: System, topic: str, records: int, size: int) -> Sample:
    """Records per second, from the first one handed over to the last one acknowledged."""
    producer = Producer({"bootstrap.servers": system.bootstrap, "linger.ms": 5, **RELIABLE, **QUEUE})
    producer.list_topics(topic, timeout=30)
    handful = [{"value": b"x" * size}] * HANDED_OVER
    with cost_of(system) as cost:
        left = records
        while left:
            taken = producer.produce_batch(topic, handful[:left])
            left -= taken
            if taken < HANDED_OVER and left:
                producer.poll(0.01)
        unsent = producer.flush(120)
    if unsent:
        raise RuntimeError(f"{system.name}: {unsent} of {records} records were not acknowledged")
    return cost.per_gigabyte(records / cost.seconds, records * size)


def consume(system: System, topic: str, partitions: int, records: int, size: int) -> Sample:
    """Records per second, from the assignment to the last of all records. Fails where one is missing."""
    consumer = Consumer(
        {"bootstrap.servers": system.bootstrap, "group.id": "bench", "enable.auto.commit": False, **UNTIRED}
    )
    consumer.list_topics(topic, timeout=30)
    deadline = time.monotonic() + 120
    left = records
    try:
        with cost_of(system) as cost:
            consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
            while left > 0:
                messages = consumer.consume(min(left, 10_000), timeout=0.5)
                left -= sum(1 for message in messages if message.error() is None)
                if time.monotonic() > deadline:
                    raise RuntimeError(f"{system.name}: {left} of {records} records did not come")
    finally:
        consumer.close()
    return cost.per_gigabyte(records / cost.seconds, records * size)


def warm_up(system: System) -> None:
    """What waited for its turn is cold: caches, and where the machine takes idle memory back, the pages themselves."""
    topic = system.create_topic(3)
    produce(system, topic, 40_000, 1_000)
    consume(system, topic, 3, 40_000, 1_000)
    system.delete_topic(topic)


def synchronous(system: System, topic: str, records: int) -> tuple[Sample, Sample]:
    """Milliseconds from sending one record to its acknowledgement, one at a time: median and 99th percentile."""
    producer = Producer({"bootstrap.servers": system.bootstrap, "linger.ms": 0, **RELIABLE})
    for _ in range(20):
        producer.produce(topic, b"x" * 100)
        producer.flush(30)
    taken = []
    with cost_of(system) as cost:
        for _ in repeat(None, records):
            begin = time.perf_counter()
            producer.produce(topic, b"x" * 100)
            producer.flush(30)
            taken.append(time.perf_counter() - begin)
    return _latencies(cost, taken)


def end_to_end(system: System, topic: str, records: int, rate: int = 5_000) -> tuple[Sample, Sample]:
    """Milliseconds from handing a record to a producer to having it from a consumer, at a steady rate."""
    producer = Producer({"bootstrap.servers": system.bootstrap, "linger.ms": 5, **RELIABLE})
    consumer = Consumer({"bootstrap.servers": system.bootstrap, "group.id": "bench", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    producer.produce(topic, time.monotonic_ns().to_bytes(8, "big") + bytes(92), partition=0)
    while consumer.poll(1) is None:
        pass
    feeding = threading.Thread(target=_feed, args=(producer, topic, records, rate))
    taken = []
    with cost_of(system) as cost:
        feeding.start()
        while len(taken) < records:
            message = consumer.poll(10)
            if message is None or message.error() is not None:
                raise RuntimeError(f"{system.name}: only {len(taken)} of {records} records came: {message}")
            taken.append((time.monotonic_ns() - int.from_bytes(message.value()[:8], "big")) / 1e9)
        feeding.join()
    consumer.close()
    return _latencies(cost, taken)


def _feed(producer: Producer, topic: str, records: int, rate: int) -> None:
    begin = time.monotonic()
    for sent in range(records):
        ahead = begin + sent / rate - time.monotonic()
        if ahead > 0.001:
            producer.poll(ahead)
        producer.produce(topic, time.monotonic_ns().to_bytes(8, "big") + bytes(92), partition=0)
    producer.flush(30)


def _latencies(cost: Cost, taken: list[float]) -> tuple[Sample, Sample]:
    median, late = percentile(taken, 0.5) * 1000, percentile(taken, 0.99) * 1000
    return cost.per_million(median, len(taken)), cost.per_million(late, len(taken))


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]
