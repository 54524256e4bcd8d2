"""Orders into the topic, at a steady rate: keyed, with acks=all, by an idempotent producer."""

from __future__ import annotations

import contextlib
import threading
import time

from highwater.cli.demo.orders import Order
from highwater.cli.demo.progress import DemoProgress, Served
from highwater.cli.demo.sends import Sends
from highwater.client.client import Client
from highwater.client.failures import ClientFailure
from highwater.client.producer import Producer
from highwater.errors import KafkaError
from highwater.model import TopicPartition

ROUND_SECONDS = 0.06


class Feed(threading.Thread):
    def __init__(self, bootstrap: str, progress: DemoProgress) -> None:
        super().__init__(name="feed", daemon=True)
        self._servers = bootstrap
        self._progress = progress
        self._stopping = threading.Event()
        self.sends = Sends()
        """Complete when the thread has ended."""

    def run(self) -> None:
        with Client(self._servers, client_id="demo-feed", timeout=60, request_timeout=5) as client:
            producer = Producer(client)
            due = time.monotonic()
            while not self._stopping.is_set():
                for partition, batch in self.sends.begin_round().items():
                    self._send(client, producer, partition, batch)
                # The time of an outage is not made up for: the rate of a shop does not depend on its log.
                due = max(due + ROUND_SECONDS, time.monotonic())
                self._stopping.wait(due - time.monotonic())

    def stop(self, seconds: float) -> None:
        self._stopping.set()
        self.join(seconds)

    def _send(self, client: Client, producer: Producer, partition: TopicPartition, batch: list[Order]) -> None:
        now = int(time.time() * 1000)
        records = [(now, order.key, order.value, ()) for order in batch]
        try:
            base = producer.send(partition, records)
        except (KafkaError, ClientFailure) as failed:
            self._progress.trouble = str(failed)
            self.sends.unanswered(partition)
            return
        acknowledged_at = time.monotonic()
        self.sends.acknowledged(partition, base)
        self._progress.acked += len(batch)
        count = self._progress.acked_in.get(partition.partition, 0)
        self._progress.acked_in[partition.partition] = count + len(batch)
        with contextlib.suppress(KafkaError, ClientFailure):
            self._note_leader(partition.partition, client.leader(partition), acknowledged_at)

    def _note_leader(self, partition: int, leader: int, now: float) -> None:
        served = self._progress.served.get(partition)
        if served is None or served.leader != leader:
            self._progress.served[partition] = Served(leader, now)
