"""Fetches that have no room for a batch of each partition."""

from __future__ import annotations

from confluent_kafka import Producer

from highwater.client.client import Client
from highwater.client.consumer import Consumer, FetchLimits
from highwater.cluster import Cluster
from highwater.model import TopicPartition

PARTITIONS = [TopicPartition("large", index) for index in range(3)]
BATCHES = 4


def test_a_partition_whose_batch_did_not_fit_has_its_turn_in_the_next_fetch_of_the_session() -> None:
    """The first partition of a response gets a batch of any size. The others must not be forgotten."""
    with Cluster(brokers=1) as cluster:
        cluster.create_topic("large", partitions=len(PARTITIONS))
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 0})
        for _ in range(BATCHES):
            for partition in PARTITIONS:
                producer.produce("large", bytes(16_000), partition=partition.partition)
            assert producer.flush(60) == 0
        with Client(cluster.bootstrap_servers) as client:
            limits = FetchLimits(partition_max_bytes=4_000)
            consumer = Consumer(client, limits=limits)
            consumer.assign(dict.fromkeys(PARTITIONS, 0))
            polls = 0
            while min(consumer.positions.values()) < BATCHES and polls < 40:
                consumer.poll(1)
                polls += 1
            assert consumer.positions == dict.fromkeys(PARTITIONS, BATCHES)
