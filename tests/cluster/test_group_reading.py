"""Ctrl-C while `console-consumer --group` waits for its group, or for records."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Producer

from highwater.cli.group_reading import GroupReading
from highwater.client.client import Client
from highwater.client.consumer import Consumer
from highwater.client.groups import Groups
from highwater.client.offsets import EARLIEST
from highwater.cluster import Cluster
from highwater.model import TopicPartition

ORDERS = TopicPartition("orders", 0)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=1, config={"group.initial.rebalance.delay.ms": "0"}) as cluster:
        cluster.create_topic("orders", partitions=1)
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
        for number in range(3):
            producer.produce("orders", str(number))
        assert producer.flush(60) == 0
        yield cluster


class CtrlC:
    """Pressed once, however often it is called: a member asks for its topics again when it has to look for its
    coordinator once more, and a second Ctrl-C would end the process that runs the tests."""

    def __init__(self) -> None:
        self.pressed = False

    def __call__(self) -> None:
        if not self.pressed:
            self.pressed = True
            signal.raise_signal(signal.SIGINT)


def read(
    cluster: Cluster, group: str, joining: Callable[[], None], polling: Callable[[], None] = lambda: None
) -> tuple[list[int], int | None]:
    """The offsets that come to be printed, and what the group has committed after that."""

    def topics() -> list[str]:
        joining()
        return ["orders"]

    with Client(cluster.bootstrap_servers) as client:
        reading = GroupReading(client, Consumer(client, reset=EARLIEST), group, topics, EARLIEST, commits=True)
        printed = []
        with reading.stopped_by_interrupt():
            for _, _, record in reading.records(30_000, lambda: None):
                printed.append(record.offset)
                polling()
        reading.close()
        committed = Groups(client).committed(group).get(ORDERS)
        return printed, None if committed is None else committed.offset


def test_ctrl_c_while_the_group_is_joined_prints_no_record(cluster: Cluster) -> None:
    assert read(cluster, "joining", CtrlC()) == ([], None)


def test_ctrl_c_between_two_records_ends_with_the_one_that_was_printed(cluster: Cluster) -> None:
    assert read(cluster, "polling", lambda: None, CtrlC()) == ([0], 1)
