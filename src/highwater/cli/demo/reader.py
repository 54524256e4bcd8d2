"""A plain consumer, record by record: of the revenues that Spark writes, or of the orders if there is no Spark."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping

from highwater.audit import Read
from highwater.cli.demo.arrived import Kept
from highwater.cli.demo.orders import PARTITIONS, REVENUE_PARTITION, number_of
from highwater.cli.demo.progress import DemoProgress, is_reached
from highwater.client.client import Client
from highwater.client.consumer import Consumer
from highwater.client.failures import ClientFailure
from highwater.client.fetched import Fetched
from highwater.errors import KafkaError
from highwater.model import TopicPartition

STOP_SECONDS = 30.0


class Tail(threading.Thread):
    """Reads partitions from their first record, until it is stopped."""

    def __init__(
        self,
        bootstrap: str,
        partitions: tuple[TopicPartition, ...],
        take: Callable[[Fetched], None],
        progress: DemoProgress,
    ) -> None:
        super().__init__(name=f"tail-{partitions[0].topic}", daemon=True)
        self._servers = bootstrap
        self._partitions = partitions
        self._take = take
        self._progress = progress
        self._stopping = threading.Event()

    def run(self) -> None:
        with Client(self._servers, client_id="demo-tail", timeout=60, request_timeout=5) as client:
            consumer = Consumer(client)
            consumer.assign(dict.fromkeys(self._partitions, 0))
            fetched: list[Fetched] = []
            while fetched or not self._stopping.is_set():
                try:
                    fetched = consumer.poll(0.2)
                except (KafkaError, ClientFailure) as failed:
                    self._progress.trouble = str(failed)
                    continue
                for part in fetched:
                    self._take(part)

    def stop(self, seconds: float) -> None:
        """Records that are there already are still read."""
        self._stopping.set()
        self.join(seconds)


class PlainReader:
    """Replaces the table if there is no Spark: the records that it has read count as delivered."""

    sums_up = False

    def __init__(self, bootstrap: str, progress: DemoProgress) -> None:
        self._kept = Kept()
        self._reached: dict[int, int] = {}
        self._arrivals = progress.arrivals
        self._tail = Tail(bootstrap, PARTITIONS, self._take, progress)

    def start(self) -> None:
        self._arrivals.state = "a plain consumer reads the orders"
        self._tail.start()

    def step(self) -> None:
        self._arrivals.rows = self._kept.count
        self._arrivals.reached = dict(self._reached)

    def has_reached(self, ends: Mapping[int, int]) -> bool:
        return is_reached(self._arrivals.reached, ends)

    def finish(self) -> Kept:
        self.close()
        return self._kept

    def close(self) -> None:
        self._tail.stop(STOP_SECONDS)

    def _take(self, part: Fetched) -> None:
        for each in part:
            value = each.value or b""
            self._kept.take(Read(part.partition, each.offset, value), number_of(value))
        self._reached[part.partition.partition] = part.next_offset


def revenue_reader(bootstrap: str, progress: DemoProgress) -> Tail:
    """Keeps the last revenue of each product. A revenue that was written twice changes nothing."""

    def take(part: Fetched) -> None:
        for record in part:
            revenue = json.loads(record.value or b"{}")
            progress.revenue[revenue["product"]] = revenue["cents"]

    return Tail(bootstrap, (REVENUE_PARTITION,), take, progress)
