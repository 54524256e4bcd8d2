"""A durability check: every record that was sent to a topic and acknowledged is there, once and in order."""

from __future__ import annotations

import itertools
import threading
import time
from typing import TYPE_CHECKING, Any

from highwater.audit import History, Outcome, Read, Sent, Verdict, judge, verdict_text
from highwater.client.client import Client
from highwater.client.failures import ClientFailure
from highwater.client.producer import Producer
from highwater.errors import KafkaError, is_retriable
from highwater.model import TopicPartition

if TYPE_CHECKING:
    from highwater.cluster.cluster import Cluster

_OWN = "durability_check"


class DurabilityCheck:
    """Writes with acks=all, or watches a client that does, and judges what can be read afterwards.

    Records are distinguished by their values, so each value may be sent only once. Only the check may write to the
    topic.
    """

    def __init__(self, cluster: Cluster, topic: str, *, partitions: int = 1, seconds: float = 30.0) -> None:
        self._cluster = cluster
        self.topic = topic
        self._partitions = partitions
        self._seconds = seconds
        self._client: Client | None = None
        self._producer: Producer | None = None
        self._lock = threading.Lock()
        self._sends: dict[bytes, Sent] = {}
        self._numbers = itertools.count()

    @property
    def producer_history(self) -> list[Sent]:
        """Every send, in order, with its result so far."""
        with self._lock:
            return list(self._sends.values())

    def send(self, value: bytes | str | None = None, *, key: bytes | None = None, partition: int | None = None) -> Sent:
        """Writes one record and waits for the acknowledgement of all in-sync replicas; a failure is a result, too.

        Without a value the record gets a unique number; without a partition, partitions take turns.
        """
        number = next(self._numbers)
        data = f"record {number}".encode() if value is None else _bytes(value)
        place = TopicPartition(self.topic, number % self._partitions if partition is None else partition)
        self._enter(Sent(place, data, _OWN, Outcome.UNKNOWN))
        try:
            offset = self._own_producer().send(place, [(time.time_ns() // 1_000_000, key, data, ())])
        except KafkaError as failed:
            # After a retriable error an earlier attempt may have been stored.
            outcome = Outcome.UNKNOWN if is_retriable(failed.code) else Outcome.FAILED
            return self._enter(Sent(place, data, _OWN, outcome), again=True)
        except ClientFailure:
            return self._enter(Sent(place, data, _OWN, Outcome.UNKNOWN), again=True)
        return self._enter(Sent(place, data, _OWN, Outcome.ACKED, offset), again=True)

    def produce(self, producer: Any, value: bytes | str, *, partition: int = 0, **more: Any) -> None:
        """Sends through your own confluent_kafka.Producer, which must have acks=all. Flush it before `verify`."""
        data = _bytes(value)
        self._enter(Sent(TopicPartition(self.topic, partition), data, f"producer {id(producer)}", Outcome.UNKNOWN))
        producer.produce(self.topic, value=data, partition=partition, on_delivery=self.on_delivery, **more)

    def on_delivery(self, error: Any, message: Any) -> None:
        """A delivery callback for librdkafka clients, if you call their `produce` yourself."""
        place = TopicPartition(message.topic(), message.partition())
        data = _bytes(message.value())
        with self._lock:
            known = self._sends.get(data)
        producer = known.producer if known is not None else "on_delivery"
        if error is None:
            sent = Sent(place, data, producer, Outcome.ACKED, message.offset())
        else:
            # librdkafka gives up with an error after attempts whose responses it may have missed.
            sent = Sent(known.partition if known is not None else place, data, producer, Outcome.UNKNOWN)
        self._enter(sent, again=known is not None)

    def judge(self) -> Verdict:
        """Reads the whole topic, and returns the verdict."""
        reads = [
            Read(TopicPartition(each.topic, each.partition), each.offset, each.value or b"")
            for each in self._cluster.records(self.topic, seconds=self._seconds)
        ]
        return judge(History(self.producer_history, reads))

    def verify(self) -> Verdict:
        """Raises AssertionError, with the table, unless every acknowledged record is there, once and in order. Also
        raises it if nothing was sent, because nothing would be proved."""
        if not self.producer_history:
            raise AssertionError(
                f"nothing was sent to {self.topic} that the check knows of: send by its `send` or `produce`, or give "
                "its `on_delivery` to your producer as the delivery callback, and flush the producer"
            )
        verdict = self.judge()
        if not verdict.ok:
            raise AssertionError(f"{self.topic} did not keep what it acknowledged\n{verdict_text(verdict)}")
        return verdict

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = self._producer = None

    def _own_producer(self) -> Producer:
        if self._producer is None:
            self._client = Client(
                self._cluster.bootstrap_servers, client_id=_OWN, timeout=self._seconds, request_timeout=self._seconds
            )
            self._producer = Producer(self._client)
        return self._producer

    def _enter(self, sent: Sent, again: bool = False) -> Sent:
        with self._lock:
            if sent.value in self._sends and not again:
                raise ValueError(f"{sent.value!r} was sent before: records are distinguished by their values")
            self._sends[sent.value] = sent
            return sent


def _bytes(value: bytes | str) -> bytes:
    return value.encode() if isinstance(value, str) else value
