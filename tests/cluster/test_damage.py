"""Bytes that have changed on a real disk: no client sees them, and the replica that had them is made whole again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, Producer, TopicPartition

from highwater import Cluster
from highwater.cli import main
from highwater.client.elections import Election, elect_leaders
from highwater.model import TopicPartition as Partition
from highwater.wire import records
from tests.apache import free_ports

TOPIC = "orders"
BATCHES, PER_BATCH = 40, 50
SENT = [f"order {number:05d} ".encode() * 4 for number in range(BATCHES * PER_BATCH)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3, config={"auto.leader.rebalance.enable": "false"}) as cluster:
        yield cluster


def produce(cluster: Cluster, topic: str = TOPIC) -> None:
    """One batch for each flush: nothing else sends, however long it takes to fill it."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "linger.ms": 60_000})
    for number, value in enumerate(SENT):
        producer.produce(topic, value, partition=0)
        if number % PER_BATCH == PER_BATCH - 1:
            assert producer.flush(60) == 0


def consume(cluster: Cluster) -> list[bytes]:
    """By librdkafka with its own settings: it does not check what it is given."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "unused"})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    values: list[bytes] = []
    try:
        while len(values) < len(SENT):
            message = consumer.poll(60)
            assert message is not None, f"only {len(values)} came"
            assert message.error() is None, message.error()
            values.append(message.value() or b"")
    finally:
        consumer.close()
    return values


def segment(cluster: Cluster, node: int, topic: str = TOPIC) -> Path:
    return cluster.log_dir(node) / f"{topic}-0" / f"{0:020d}.log"


def flip(file: Path, inside: int) -> bytes:
    """One bit of a batch in the middle of the file, so many bytes from its beginning; gives the file as it was."""
    whole = file.read_bytes()
    batches = [at for at, _, _ in records.walk(memoryview(whole))]
    assert len(batches) == BATCHES
    changed = bytearray(whole)
    changed[batches[len(batches) // 2] + inside] ^= 0x04
    file.write_bytes(changed)
    return whole


@pytest.mark.slow
def test_a_leader_whose_file_was_tampered_with_gives_way_and_is_made_whole_again(cluster: Cluster) -> None:
    cluster.create_topic(TOPIC, partitions=1, replication_factor=3)
    produce(cluster)
    first = cluster.leader(TOPIC, 0)
    assert first is not None
    cluster.stop(first)  # what it reads after its return comes from the disk
    whole = flip(segment(cluster, first), inside=100)
    cluster.start(first)
    cluster.wait_for_isr(TOPIC, 0, 3)
    with cluster.client() as client:
        assert elect_leaders(client, Election.PREFERRED, [Partition(TOPIC, 0)]) == {Partition(TOPIC, 0): None}
    cluster.wait_for_leader(TOPIC, 0, first)  # the damaged one, which does not know yet
    assert consume(cluster) == SENT
    cluster.wait_for_leader(TOPIC, 0, other_than=first)
    cluster.wait_for_isr(TOPIC, 0, 3)
    assert segment(cluster, first).read_bytes() == whole


@pytest.mark.slow
@pytest.mark.parametrize("inside", [0, 7, 9, 16, 26], ids=["offset", "its last byte", "length", "magic", "delta"])
def test_damage_to_what_a_start_goes_by_is_met_there_and_fetched_anew(cluster: Cluster, inside: int) -> None:
    topic = f"header-{inside}"
    cluster.create_topic(topic, partitions=1, replication_factor=3)
    produce(cluster, topic)
    victim = cluster.leader(topic, 0)
    assert victim is not None
    cluster.stop(victim)
    whole = flip(segment(cluster, victim, topic), inside)
    for index in segment(cluster, victim, topic).parent.glob("*index"):
        index.unlink()  # so that they are built anew, from the batches
    cluster.start(victim)
    cluster.wait_for_isr(topic, 0, 3)
    assert segment(cluster, victim, topic).read_bytes() == whole


@pytest.mark.slow
def test_the_last_copy_serves_what_lies_before_its_damage_and_status_shows_it() -> None:
    http = f"127.0.0.1:{free_ports(1)[0]}"
    with Cluster(brokers=1, config={"highwater.http.listener": http}) as cluster:
        cluster.create_topic(TOPIC, partitions=1, replication_factor=1)
        produce(cluster)
        cluster.stop(1)
        flip(segment(cluster, 1), inside=100)
        cluster.start(1)
        shown = CliRunner().invoke(main, ["status", "--http", http])
        assert shown.exit_code == 0 and "damaged" not in shown.output, "nobody has read it yet"
        consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "unused"})
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        values = [consumer.poll(60) for _ in range(len(SENT) // 2)]
        consumer.close()
        assert [value and value.value() for value in values] == SENT[: len(SENT) // 2]
        cluster.wait_until(
            lambda: "damaged" in CliRunner().invoke(main, ["status", "--http", http]).output,
            what="the damage behind them is reported",
        )
        shown = CliRunner().invoke(main, ["status", "--http", http])
        row = next(line for line in shown.output.splitlines() if "damaged" in line and "│" in line)
        assert f"{TOPIC}-0" in row and f"{0:020d}.log" in row, row
