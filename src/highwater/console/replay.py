"""Copies a range of records of one partition into another topic, with their keys, values and headers."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from shlex import quote
from typing import Any, Final

from highwater.client import Client, ClientFailure, Consumer, Producer
from highwater.client.offsets import EARLIEST, LATEST
from highwater.client.producer import partition_for_key
from highwater.console.browsing import LIMITS, check_place, offsets_at
from highwater.console.decoding import size_of
from highwater.console.filters import Filter
from highwater.console.given import MOST_INT32, MOST_INT64, BadQuestion, number
from highwater.errors import KafkaError
from highwater.kernel import Record
from highwater.model import TopicPartition

MOST_OFFSETS: Final = 100_000
BATCH_RECORDS: Final = 500
BATCH_BYTES: Final = 400 << 10
MOST_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Range:
    place: TopicPartition
    start: int
    end: int
    """The first offset that is not copied."""
    target: str
    by_key: bool
    """The target's partition is the one of the key. Otherwise it is the one of the same number."""
    keeps_time: bool
    filter: Filter

    @staticmethod
    def of(topic: str, order: Mapping[str, Any]) -> Range:
        """Raises BadQuestion, or BadFilter."""
        partition = number(str(order.get("partition")), "partition", MOST_INT32)
        start, end = (number(str(order.get(name)), name, MOST_INT64) for name in ("from", "until"))
        if not start < end <= start + MOST_OFFSETS:
            raise BadQuestion(f"a range has 1 to {MOST_OFFSETS} offsets; `until` is the first that is not copied")
        target = order.get("to")
        if not isinstance(target, str) or not target or target == topic:
            raise BadQuestion("name another topic")
        by_key, keeps = order.get("by") == "key", order.get("time") != "now"
        chosen = Filter.of(order.get("filter") or {})
        return Range(TopicPartition(topic, partition), start, end, target, by_key, keeps, chosen)


def replay(client: Client, wanted: Range) -> dict[str, Any]:
    """How many were copied, and where it ended. What was copied before a failure stays, and the answer says so."""
    check_place(client, wanted.place)
    client.forget(wanted.target)
    partitions = client.retrying(lambda: client.topic(wanted.target)).partitions
    if not wanted.by_key and wanted.place.partition not in partitions:
        raise BadQuestion(f"{wanted.target} has {len(partitions)} partitions, from 0 on: choose the key's partition")
    copied, reached, failure = 0, wanted.start, None
    producer = Producer(client)
    try:
        for records, after in _batches(client, wanted):
            for index, rows in _placed(records, wanted, len(partitions)).items():
                producer.send(TopicPartition(wanted.target, index), rows)
                copied += len(rows)
            reached = after
    except (KafkaError, ClientFailure) as failed:
        failure = str(failed)
    return {"copied": str(copied), "next": str(reached), "done": reached >= wanted.end, "failure": failure}


def _placed(records: list[Record], wanted: Range, partitions: int) -> dict[int, list[Any]]:
    now = time.time_ns() // 1_000_000
    rows: dict[int, list[Any]] = {}
    for record in records:
        if not wanted.by_key:
            index = wanted.place.partition
        else:
            index = 0 if record.key is None else partition_for_key(record.key, partitions)
        at = record.timestamp if wanted.keeps_time else now
        rows.setdefault(index, []).append((at, record.key, record.value, list(record.headers)))
    return rows


def _batches(client: Client, wanted: Range) -> Iterator[tuple[list[Record], int]]:
    """Records that match, and the offset after all that was read for them."""
    first = offsets_at(client, {wanted.place: EARLIEST})[wanted.place]
    end = min(wanted.end, offsets_at(client, {wanted.place: LATEST})[wanted.place])
    consumer = Consumer(client, limits=LIMITS, sessions=False)
    consumer.assign({wanted.place: min(max(wanted.start, first), end)})
    batch: list[Record] = []
    size = 0
    deadline = time.monotonic() + MOST_SECONDS
    while (at := consumer.positions[wanted.place]) < end and time.monotonic() < deadline:
        for fetched in consumer.poll(0.2):
            for record in fetched:
                if record.offset >= end or not wanted.filter.matches(record):
                    continue
                if batch and (len(batch) >= BATCH_RECORDS or size + size_of(record) > BATCH_BYTES):
                    yield batch, record.offset
                    batch, size = [], 0
                batch.append(record)
                size += size_of(record)
    at = consumer.positions[wanted.place]
    # What lies after the end of the log is no part of the range: there is nothing more to copy.
    yield batch, wanted.end if at >= end else at


def replay_command(bootstrap: str, wanted: Range) -> str:
    """Near to it: it is text there, and headers and times are not kept."""
    place, count = wanted.place, wanted.end - wanted.start
    tool = f"--bootstrap-server {bootstrap} --topic"
    return (
        f"highwater console-consumer {tool} {quote(place.topic)} --partition {place.partition} "
        f"--offset {wanted.start} --max-messages {count} --formatter-property print.key=true | "
        f"highwater console-producer {tool} {quote(wanted.target)} --reader-property parse.key=true"
    )
