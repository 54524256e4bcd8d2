"""Reads the records of a cluster, from the first one to the present end of the partitions."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable
from typing import NamedTuple

from highwater.client.client import Client
from highwater.client.consumer import Consumer
from highwater.client.offsets import EARLIEST, LATEST, FoundOffset, list_offsets
from highwater.errors import KafkaError
from highwater.model import TopicPartition

CLIENT_ID = "highwater-cluster"


class StoredRecord(NamedTuple):
    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def chosen_partitions(topic: str, known: Collection[int], partition: int | None) -> list[TopicPartition]:
    """One partition of a topic, or all that it has. Raises ValueError if there is none."""
    if not known:
        raise ValueError(f"there is no topic {topic}")
    if partition is not None and partition not in known:
        raise ValueError(f"there is no partition {topic}-{partition}")
    return [TopicPartition(topic, index) for index in (sorted(known) if partition is None else [partition])]


def stored_records(bootstrap: str, partitions: Iterable[TopicPartition], seconds: float) -> list[StoredRecord]:
    """All records below the present high watermarks, by partition and offset. Raises TimeoutError."""
    wanted = list(partitions)
    deadline = time.monotonic() + seconds
    records: list[StoredRecord] = []
    with Client(bootstrap, client_id=CLIENT_ID, timeout=seconds, request_timeout=min(seconds, 5.0)) as client:
        ends = _offsets(client, wanted, LATEST)
        consumer = Consumer(client)
        positions = _offsets(client, wanted, EARLIEST)
        while unread := {partition: at for partition, at in positions.items() if at < ends[partition]}:
            if time.monotonic() > deadline:
                raise TimeoutError(f"read only up to {unread}, but the partitions end at {ends}")
            consumer.positions = unread
            for fetched in consumer.poll(0.2):
                topic, partition = fetched.partition
                for each in fetched:
                    headers = tuple((name, value) for name, value in each.headers)
                    records.append(
                        StoredRecord(topic, partition, each.offset, each.timestamp, each.key, each.value, headers)
                    )
            positions |= consumer.positions
    records.sort(key=lambda record: (record.topic, record.partition, record.offset))
    return records


def _offsets(client: Client, partitions: list[TopicPartition], where: int) -> dict[TopicPartition, int]:
    found = list_offsets(client, dict.fromkeys(partitions, where), await_topic=True)
    offsets = {}
    for partition, at in found.items():
        if isinstance(at, KafkaError):
            raise at
        assert isinstance(at, FoundOffset)
        offsets[partition] = at.offset
    return offsets
