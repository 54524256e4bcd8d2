"""Reads records for a viewer. It joins no group and commits nothing."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from highwater.client import Client, Consumer, FetchLimits
from highwater.client.offsets import EARLIEST, LATEST, list_offsets
from highwater.client.producer import partition_for_key
from highwater.console.decoding import shown_record
from highwater.console.filters import Filter
from highwater.console.given import MOST_INT32, BadQuestion, number
from highwater.errors import Code, KafkaError
from highwater.kernel import Record
from highwater.model import TopicPartition

MOST_RECORDS: Final = 500
MOST_SCANNED: Final = 200_000
MOST_SHOWN_BYTES: Final = 4 << 20
MOST_SECONDS: Final = 20.0
LIMITS: Final = FetchLimits(max_bytes=4 << 20, partition_max_bytes=1 << 20)


@dataclass(frozen=True, slots=True)
class Question:
    topic: str
    partitions: tuple[int, ...] | None
    """None: all of them."""
    start: str
    """`earliest`, `latest`, `offset` or `time`."""
    at: int
    """The offset or the time (ms); how many records before the end, for `latest`."""
    limit: int
    filter: Filter

    @staticmethod
    def of(topic: str, query: Mapping[str, str]) -> Question:
        """Raises BadQuestion, or BadFilter."""
        start = query.get("start", "latest")
        if start not in ("earliest", "latest", "offset", "time"):
            raise BadQuestion("start is earliest, latest, offset or time")
        limit = min(max(number(query.get("limit", "") or "50", "limit"), 1), MOST_RECORDS)
        at = number(query.get("at", "") or "0", "the offset or time")
        named = query.get("partition", "").strip()
        partitions = (number(named, "partition", MOST_INT32),) if named else None
        if start == "offset" and partitions is None:
            raise BadQuestion("an offset belongs to a partition: choose one")
        return Question(topic, partitions, start, at, limit, Filter.of(query))


def read(client: Client, question: Question) -> dict[str, Any]:
    """The records that match, in the order of partition and offset within each fetch, and where the reading ended."""
    rows: list[dict[str, Any]] = []
    scanned = size = 0
    for partition, record in scan(client, question):
        scanned += 1
        if not question.filter.matches(record):
            continue
        row = shown_record(partition, record)
        size += sum(len(part["text"]) for part in (row["key"], row["value"]) if part is not None)
        rows.append(row)
        if size >= MOST_SHOWN_BYTES or (len(rows) >= question.limit and question.start != "latest"):
            break
    if question.start == "latest":
        rows.sort(key=lambda row: (int(row["timestamp"]), row["partition"], int(row["offset"])))
        rows = rows[-question.limit :]
    return {"records": rows, "scanned": str(scanned), "limit": question.limit}


def scan(client: Client, question: Question, seconds: float = MOST_SECONDS) -> Iterator[tuple[int, Record]]:
    """Every record from the start of the question to what is the end now, up to a bound on number and time."""
    places = _places(client, question)
    ends = offsets_at(client, dict.fromkeys(places, LATEST))
    consumer = Consumer(client, limits=LIMITS, sessions=False)
    consumer.assign(_starts(client, question, places, ends))
    deadline = time.monotonic() + seconds
    scanned = 0
    while scanned < MOST_SCANNED and time.monotonic() < deadline:
        consumer.assign({tp: at for tp, at in consumer.positions.items() if at < ends[tp]})
        if not consumer.positions:
            return
        for fetched in consumer.poll(0.2):
            for record in fetched:
                if record.offset < ends[fetched.partition]:
                    scanned += 1
                    yield fetched.partition.partition, record


def tail(client: Client, question: Question, is_wanted: Callable[[], bool]) -> Iterator[list[dict[str, Any]]]:
    """What arrives from now on, as it arrives. An empty list shows that nothing came in a while."""
    places = _places(client, question)
    consumer = Consumer(client, limits=LIMITS, reset=LATEST)
    consumer.assign(offsets_at(client, dict.fromkeys(places, LATEST)))
    while is_wanted():
        rows: list[dict[str, Any]] = []
        for fetched in consumer.poll(0.5):
            found = (record for record in fetched if question.filter.matches(record))
            rows += [shown_record(fetched.partition.partition, record, 2 << 10) for record in found]
        # A page cannot show thousands a second: the newest are what a tail is for.
        yield rows[-MOST_RECORDS // 5 :]


def whole(client: Client, place: TopicPartition, offset: int, is_key: bool) -> bytes | None:
    """The bytes of one key or value. Raises BadQuestion if the record is not there."""
    check_place(client, place)
    first, end = (offsets_at(client, {place: at})[place] for at in (EARLIEST, LATEST))
    if not first <= offset < end:
        raise BadQuestion(f"{place} has the offsets {first} to {end - 1}" if first < end else f"{place} is empty")
    consumer = Consumer(client, limits=LIMITS, sessions=False)
    consumer.assign({place: offset})
    deadline = time.monotonic() + MOST_SECONDS
    while time.monotonic() < deadline:
        for fetched in consumer.poll(0.2):
            for record in fetched:
                if record.offset == offset:
                    return record.key if is_key else record.value
                if record.offset > offset:
                    raise BadQuestion(f"there is no record at {place} {offset}")
    raise BadQuestion(f"no record came from {place} {offset}")


def key_partition(client: Client, topic: str, key: str) -> int:
    """Where Kafka's default partitioner puts the key."""
    return partition_for_key(key.encode(), len(_partitions(client, topic)))


def any_partition(client: Client, topic: str) -> int:
    """For a record without a key."""
    return random.choice(sorted(_partitions(client, topic)))


def offsets_at(client: Client, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Raises the first error."""
    found = {}
    for place, answer in list_offsets(client, wanted).items():
        if isinstance(answer, KafkaError):
            raise answer
        found[place] = answer.offset
    return found


def _places(client: Client, question: Question) -> list[TopicPartition]:
    known = _partitions(client, question.topic)
    if question.partitions is None:
        return [TopicPartition(question.topic, index) for index in sorted(known)]
    places = [TopicPartition(question.topic, index) for index in question.partitions]
    for place in places:
        _check_known(place, known)
    return places


def check_place(client: Client, place: TopicPartition) -> None:
    """Raises UNKNOWN_TOPIC_OR_PARTITION at once. Reading and writing would wait for it to appear."""
    _check_known(place, _partitions(client, place.topic))


def _check_known(place: TopicPartition, known: Collection[int]) -> None:
    if place.partition not in known:
        raise KafkaError(Code.UNKNOWN_TOPIC_OR_PARTITION, f"{place.topic} has {len(known)} partitions, from 0 on")


def _partitions(client: Client, topic: str) -> Collection[int]:
    client.forget(topic)
    try:
        return client.retrying(lambda: client.topic(topic)).partitions.keys()
    except KafkaError as failed:
        if failed.code is Code.UNKNOWN_TOPIC_OR_PARTITION:
            raise KafkaError(failed.code, f"there is no topic {topic}") from failed
        raise


def _starts(
    client: Client, question: Question, places: list[TopicPartition], ends: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    firsts = offsets_at(client, dict.fromkeys(places, EARLIEST))
    if question.start == "earliest":
        return firsts
    if question.start == "latest":
        # With a filter, older records may be the only ones that match.
        back = question.limit if question.filter.is_empty else MOST_SCANNED // len(places)
        return {place: max(ends[place] - back, firsts[place]) for place in places}
    if question.start == "offset":
        return {place: min(max(question.at, firsts[place]), ends[place]) for place in places}
    found = offsets_at(client, dict.fromkeys(places, question.at))
    return {place: ends[place] if offset < 0 else offset for place, offset in found.items()}
