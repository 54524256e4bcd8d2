"""Real clients that write all the while, and a history of what became of every record."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from highwater.audit import History, Outcome, Read, Sent, Verdict, judge
from highwater.cluster.reading import stored_records
from highwater.model import TopicPartition
from tests.cluster.stage import wait_until

PACE_SECONDS = 0.03
FLUSH_SECONDS = 60.0

SETTINGS: Mapping[str, str | int | bool] = {"acks": "all", "enable.idempotence": True, "log_level": 0}
"""All else is librdkafka's default."""


class Feed(threading.Thread):
    """One producer, which sends a record to each partition at each step: unique, numbered, with acks=all."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        partitions: int,
        name: str,
        settings: Mapping[str, Any] = SETTINGS,
        pace: float = PACE_SECONDS,
    ) -> None:
        super().__init__(name=f"feed-{name}", daemon=True)
        self._producer = Producer({"bootstrap.servers": bootstrap, "client.id": name, **settings})
        self._places = [TopicPartition(topic, index) for index in range(partitions)]
        self._label = name
        self._pace = pace
        self._stopping = threading.Event()
        self._sent: list[tuple[TopicPartition, bytes, float]] = []
        self._outcomes: dict[bytes, tuple[Outcome, int, float]] = {}
        self.acked: dict[TopicPartition, list[tuple[float, float]]] = {place: [] for place in self._places}
        """When each record was handed over, and when its acknowledgement came; in the order of the latter."""
        self.errors: list[str] = []

    def run(self) -> None:
        try:
            self._write()
        except KafkaException as fatal:
            # An idempotent producer that found a gap in what it had written goes no further.
            self.errors.append(str(fatal))
        self._producer.flush(FLUSH_SECONDS)

    def _write(self) -> None:
        due = time.monotonic()
        step = 0
        while not self._stopping.is_set():
            for place in self._places:
                self._send(place, b"%s %d/%d" % (self._label.encode(), place.partition, step))
            step += 1
            due = max(due + self._pace, time.monotonic())
            while (left := due - time.monotonic()) > 0:
                self._producer.poll(left)

    def _send(self, place: TopicPartition, value: bytes) -> None:
        now = time.monotonic()

        def delivered(error: KafkaError | None, message: Message) -> None:
            at = time.monotonic()
            if error is not None:
                # librdkafka gives up with an error after attempts whose answers it may have missed.
                self._outcomes[value] = (Outcome.UNKNOWN, -1, at)
                self.errors.append(f"{place} {value!r}: {error}")
                return
            self._outcomes[value] = (Outcome.ACKED, message.offset() or 0, at)
            self.acked[place].append((now, at))

        self._sent.append((place, value, now))
        self._producer.produce(place.topic, value=value, partition=place.partition, on_delivery=delivered)

    def stop(self) -> None:
        """Returns when every record has its outcome."""
        self._stopping.set()
        self.join(FLUSH_SECONDS + 10)
        assert not self.is_alive(), "records are still without an outcome"

    @property
    def sends(self) -> list[Sent]:
        return [
            Sent(place, value, self._label, *self._outcomes.get(value, (Outcome.UNKNOWN, -1))[:2])
            for place, value, _ in self._sent
        ]

    @property
    def flows(self) -> bool:
        """Whether something was acknowledged in each partition."""
        return all(self.acked.values())


@contextlib.contextmanager
def feeding(*feeds: Feed) -> Iterator[None]:
    """Writing from the first acknowledgement in each partition on; at the end every record has its outcome."""
    for feed in feeds:
        feed.start()
    wait_until(lambda: all(feed.flows for feed in feeds), "all feeds flow")
    try:
        yield
    finally:
        for feed in feeds:
            feed.stop()


class Writers:
    """So many feeds at work; one that gave up is replaced.

    An idempotent producer stops when it gets the error that a repeated batch is out of order.
    """

    def __init__(self, count: int, bootstrap: str, topic: str, partitions: int, pace: float = PACE_SECONDS) -> None:
        self._count = count
        self._where = (bootstrap, topic, partitions)
        self._places = [TopicPartition(topic, index) for index in range(partitions)]
        self._pace = pace
        self.feeds: list[Feed] = []

    def __enter__(self) -> Writers:
        self.await_acks(time.monotonic())
        return self

    def __exit__(self, *_: object) -> None:
        for feed in self.feeds:
            feed.stop()

    @property
    def replaced(self) -> int:
        return len(self.feeds) - self._count

    @property
    def acked(self) -> int:
        return sum(len(times) for feed in self.feeds for times in feed.acked.values())

    def await_acks(self, after: float) -> None:
        """In each partition, of records that were handed over after that moment."""

        def are_there() -> bool:
            self._replace()
            return all(next_ack(self.feeds, place, after) for place in self._places)

        wait_until(are_there, "every partition is written again")

    def _replace(self) -> None:
        at_work = sum(1 for feed in self.feeds if not feed.errors)
        for _ in range(at_work, self._count):
            feed = Feed(*self._where, f"p{len(self.feeds)}", pace=self._pace)
            self.feeds.append(feed)
            feed.start()


def next_ack(feeds: Iterable[Feed], place: TopicPartition, after: float) -> float | None:
    """When a record that was handed over after that moment was first acknowledged: its old leader cannot have."""
    acks = (at for feed in feeds for sent, at in reversed(feed.acked[place][-2000:]) if sent >= after)
    return min(acks, default=None)


def verdict_on(bootstrap: str, topic: str, partitions: int, feeds: Iterable[Feed], seconds: float = 120) -> Verdict:
    """Reads everything, from beginning to end."""
    places = [TopicPartition(topic, index) for index in range(partitions)]
    reads = [
        Read(TopicPartition(each.topic, each.partition), each.offset, each.value or b"")
        for each in stored_records(bootstrap, places, seconds)
    ]
    return judge(History([sent for feed in feeds for sent in feed.sends], reads))
