"""Orders into the topic, at a steady rate: keyed, with acks=all, by an idempotent producer."""

from __future__ import annotations

import threading
import time
from itertools import islice

from highwater.audit import Outcome, Sent
from highwater.cli.demo.orders import PARTITIONS, Order, orders
from highwater.cli.demo.progress import Progress
from highwater.client.client import Client
from highwater.client.failures import ClientFailure
from highwater.client.producer import Producer, partition_for_key
from highwater.errors import KafkaError
from highwater.model import TopicPartition

ROUND = 60
ROUND_SECONDS = 0.06


class Feed(threading.Thread):
    def __init__(self, bootstrap: str, progress: Progress) -> None:
        super().__init__(name="feed", daemon=True)
        self._servers = bootstrap
        self._progress = progress
        self._stopping = threading.Event()
        self.sends: list[Sent] = []
        """In the order in which they were made, with what became of each. Whole once the thread has ended."""

    def run(self) -> None:
        supply = orders()
        with Client(self._servers, client_id="demo-feed", timeout=60, request_timeout=5) as client:
            producer = Producer(client)
            due = time.monotonic()
            while not self._stopping.is_set():
                for partition, batch in _by_partition(list(islice(supply, ROUND))).items():
                    self._send(producer, partition, batch)
                # What an outage has cost is not made up for: the rate of a shop does not depend on its log.
                due = max(due + ROUND_SECONDS, time.monotonic())
                self._stopping.wait(due - time.monotonic())

    def stop(self, seconds: float) -> None:
        self._stopping.set()
        self.join(seconds)

    def _send(self, producer: Producer, partition: TopicPartition, batch: list[Order]) -> None:
        now = int(time.time() * 1000)
        values = [order.value for order in batch]
        records = [(now, order.key, value, ()) for order, value in zip(batch, values, strict=True)]
        try:
            base = producer.send(partition, records)
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


def _by_partition(batch: list[Order]) -> dict[TopicPartition, list[Order]]:
    found: dict[TopicPartition, list[Order]] = {}
    for order in batch:
        partition = PARTITIONS[partition_for_key(order.key, len(PARTITIONS))]
        found.setdefault(partition, []).append(order)
    return found
