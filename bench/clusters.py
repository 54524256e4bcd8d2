"""What is measured on a cluster of its own: many partitions, and the death of a node."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Sequence

from confluent_kafka import KafkaError, Message, Producer

from bench.systems import PATIENCE, System
from bench.workloads import RELIABLE, Cost, Sample, cost_of
from highwater.client import Admin, Client, ClientFailure, NewTopic
from highwater.client.connection import Connection
from highwater.model import Endpoint
from highwater.wire.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from highwater.wire.messages.list_offsets_response import ListOffsetsResponse
from highwater.wire.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from highwater.wire.messages.metadata_response import MetadataResponse, MetadataResponsePartition

POLL = 0.02
SETTLE_SECONDS = 10.0
IDLE_SECONDS = 10.0
LATEST = -1
IMPATIENT = {
    "linger.ms": 0,
    "log_level": 2,
    "retry.backoff.ms": 20,
    "topic.metadata.refresh.fast.interval.ms": 20,
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 50,
}
"""A client that looks for the new leader at short intervals: with the defaults its own pauses would be measured."""


def many_partitions(system: System, partitions: int) -> Sequence[Sample]:
    """Seconds until all of them serve; cores and MB while nothing happens; seconds to move one broker's leaderships."""
    topic, replicas = "many", min(system.nodes, 3)
    with Client(system.bootstrap) as client:
        with cost_of(system) as creation:
            Admin(client).create_topics([NewTopic(topic, partitions, replicas)])
            for at in client.bootstrap:
                _until(lambda at=at: _is_whole(client.connection(at), topic, partitions, replicas))  # type: ignore[misc]
            _until(lambda: _is_served(client, topic))
        time.sleep(SETTLE_SECONDS)
        with cost_of(system) as idle:
            time.sleep(IDLE_SECONDS)
        memory = system.memory()
        moved = _seconds_to_move(system, client, topic)
    return [
        _sample(creation.seconds, creation),
        Sample(idle.cpu / idle.seconds, lag=idle.lag),
        Sample(memory / 1e6),
        moved,
    ]


def _sample(value: float, cost: Cost) -> Sample:
    return Sample(value, cost.cpu, cost.lag)


def _seconds_to_move(system: System, client: Client, topic: str) -> Sample:
    """By the metadata of a broker that lives. The killed one is not the controller: `fail_over` is for that."""
    dead = next(node for node in range(1, system.nodes + 1) if node != _controller(client))
    witness = next(broker.endpoint for broker in client.view.brokers.values() if broker.id != dead)

    def is_moved() -> bool:
        return all(part.leader_id not in (dead, -1) for part in _described(client.connection(witness), topic))

    with cost_of(system) as cost:
        system.kill_node(dead)
        _until(is_moved)
    return Sample(cost.seconds, lag=cost.lag)


def _controller(client: Client) -> int:
    """The node that leads the quorum: brokers of Apache Kafka name any of them in their Metadata."""
    return Admin(client).describe_quorum().topics[0].partitions[0].leader_id


def fail_over(system: System, of_controller: bool) -> Sequence[Sample]:
    """Seconds from kill -9 of a partition's leader to the acknowledgement of a record that was sent after it."""
    topic, nodes = "failing-over", range(1, system.nodes + 1)
    placed = [[(first + at - 1) % system.nodes + 1 for at in range(min(system.nodes, 3))] for first in nodes]
    with Client(system.bootstrap) as client:
        settings = {"min.insync.replicas": str(min(2, system.nodes - 1))}
        Admin(client).create_topics([NewTopic(topic, assignment=placed, configs=settings)])
        _until(lambda: _is_served(client, topic))
        controller = _controller(client)
    dead = next(node for node in nodes if (node == controller) is of_controller)
    taken = _Feed(system.bootstrap, topic, partition=dead - 1).seconds_without(lambda: system.kill_node(dead))
    return [Sample(taken)]


class _Feed:
    """Sends a record to one partition every few milliseconds, and knows when each was sent and acknowledged."""

    EVERY = 0.005

    def __init__(self, bootstrap: str, topic: str, partition: int) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, **RELIABLE, **IMPATIENT})
        self._topic, self._partition = topic, partition
        self._ended = threading.Event()
        self._acknowledged = threading.Condition()
        self._last_sent = 0.0
        """When the newest acknowledged record was sent, by the monotonic clock."""

    def seconds_without(self, kill: Callable[[], None]) -> float:
        sending = threading.Thread(target=self._send)
        sending.start()
        try:
            self._await_record_after(time.monotonic())
            time.sleep(1)
            begin = time.monotonic()
            kill()
            self._await_record_after(begin)
            return time.monotonic() - begin
        finally:
            self._ended.set()
            sending.join()

    def _send(self) -> None:
        for _ in itertools.takewhile(lambda _: not self._ended.is_set(), itertools.count()):
            sent = time.monotonic()
            self._producer.produce(
                self._topic,
                b"x" * 100,
                partition=self._partition,
                on_delivery=lambda error, message, sent=sent: self._told(error, message, sent),  # type: ignore[misc]
            )
            self._producer.poll(self.EVERY)
        self._producer.flush(PATIENCE)

    def _told(self, error: KafkaError | None, message: Message, sent: float) -> None:
        if error is None:
            with self._acknowledged:
                self._last_sent = max(self._last_sent, sent)
                self._acknowledged.notify_all()

    def _await_record_after(self, moment: float) -> None:
        with self._acknowledged:
            if not self._acknowledged.wait_for(lambda: self._last_sent >= moment, PATIENCE):
                raise RuntimeError(f"no write to {self._topic}-{self._partition} was acknowledged in {PATIENCE:g} s")


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError(f"not within {PATIENCE:g} s")
        time.sleep(POLL)


def _described(connection: Connection, topic: str) -> list[MetadataResponsePartition]:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    (answer,) = connection.request(request, MetadataResponse).topics
    return answer.partitions


def _is_whole(connection: Connection, topic: str, partitions: int, replicas: int) -> bool:
    described = _described(connection, topic)
    return len(described) == partitions and all(
        part.leader_id >= 0 and len(part.isr_nodes) == replicas for part in described
    )


def _is_served(client: Client, topic: str) -> bool:
    """Metadata may run ahead of the brokers: whether each leader answers for its partitions."""
    client.metadata([topic])
    known = client.view.topics.get(topic)
    if known is None:
        return False
    led: dict[Endpoint, list[ListOffsetsPartition]] = {}
    for index, partition in known.partitions.items():
        if partition.leader not in client.view.brokers:
            return False
        asked = ListOffsetsPartition(partition_index=index, timestamp=LATEST)
        led.setdefault(client.view.brokers[partition.leader].endpoint, []).append(asked)
    try:
        return all(_answers(client.connection(leader), topic, asked) for leader, asked in led.items())
    except ClientFailure:
        return False


def _answers(connection: Connection, topic: str, asked: list[ListOffsetsPartition]) -> bool:
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=asked)])
    (answer,) = connection.request(request, ListOffsetsResponse, cap=7).topics
    return all(part.error_code == 0 for part in answer.partitions)
