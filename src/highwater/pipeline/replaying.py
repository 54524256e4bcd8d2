"""Dead letters back into the topics that they came from, for a pipeline that can read them by now.

How far a replay has come is kept as the offsets of a consumer group of its own, after the records are stored: a replay
that dies in between sends some of them again, and none is left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from highwater.client.client import Client
from highwater.client.groups import Groups
from highwater.client.offsets import EARLIEST, LATEST, FoundOffset, list_offsets
from highwater.kernel import NewRecord, Record
from highwater.model import TopicPartition
from highwater.pipeline.dead_letters import (
    PARTITION_HEADER,
    PREFIX,
    REASON_HEADER,
    SIZE_HEADER,
    TIMESTAMP_HEADER,
    TOPIC_HEADER,
    in_batches,
)
from highwater.pipeline.fetching import RangeFetch
from highwater.pipeline.options import SourceOptions
from highwater.pipeline.producing import ProducerSettings
from highwater.pipeline.ranges import OffsetRange
from highwater.pipeline.selection import selects

if TYPE_CHECKING:
    from highwater.pipeline.definition import Definition

SECONDS = 30.0
"""How long the cluster may take for each answer."""
GROUP_SUFFIX = "-replay"


@dataclass(slots=True)
class Replay:
    """What was found in the topic of the dead letters since the last replay."""

    sent: int = 0
    by_reason: Counter[str] = field(default_factory=Counter)
    """Of those that are sent."""
    without_value: int = 0
    """They were too large for the topic of the dead letters: only their place is known."""
    foreign: int = 0
    """No letters of this pipeline."""


def replay(definition: Definition, is_dry: bool = False) -> Replay:
    """Sends each letter to its own topic and partition, as it was. Raises ValueError where there is no such topic."""
    letters = definition.dead_letter_topic
    if letters is None:
        raise ValueError(f"{definition.name} has no topic for dead letters (decode.dead_letters): nothing to replay")
    options = SourceOptions.parse(definition.source, streaming=True)
    reading = replace(options.reading, deadline_seconds=SECONDS, request_timeout_seconds=SECONDS, read_committed=True)
    settings = ProducerSettings(reading.bootstrap_servers, security=reading.security, max_request_bytes=96 << 20)
    found, group = Replay(), f"{definition.name}{GROUP_SUFFIX}"
    with reading.client() as client, settings.client() as sending:
        sender = settings.sender(sending)
        try:
            for partition, begin, end in _unread(client, letters, group):
                range_ = OffsetRange(partition.topic, "", partition.partition, begin, end)
                for fetched in RangeFetch(client, reading, range_).fetched():
                    records = [record for record in fetched if record.offset < end]
                    for target, originals in _originals(records, options, found).items():
                        if not is_dry:
                            for batch in in_batches(originals, settings.batch_bytes):
                                sender.add(target, batch)
                if not is_dry:
                    sender.flush()
                    Groups(client).commit(group, {partition: end})
        finally:
            sender.close()
    return found


def _unread(client: Client, topic: str, group: str) -> Iterator[tuple[TopicPartition, int, int]]:
    client.refresh([topic])
    known = client.topic(topic)
    partitions = [TopicPartition(topic, index) for index in sorted(known.partitions)]
    committed = Groups(client).committed(group)
    firsts, ends = (list_offsets(client, dict.fromkeys(partitions, where)) for where in (EARLIEST, LATEST))
    for partition in partitions:
        first, end = firsts[partition], ends[partition]
        if not isinstance(first, FoundOffset) or not isinstance(end, FoundOffset):
            raise ValueError(f"the cluster does not say which offsets {partition} has")
        begin = max(first.offset, committed[partition].offset if partition in committed else 0)
        if begin < end.offset:
            yield partition, begin, end.offset


def _originals(letters: list[Record], options: SourceOptions, found: Replay) -> dict[TopicPartition, list[NewRecord]]:
    by_target: dict[TopicPartition, list[NewRecord]] = {}
    for letter in letters:
        said = {name: content for name, content in letter.headers if name.startswith(PREFIX)}
        topic = (said.get(TOPIC_HEADER) or b"").decode(errors="replace")
        if not topic or not selects(options.selection, topic):
            found.foreign += 1
        elif SIZE_HEADER in said:
            found.without_value += 1
        else:
            target = TopicPartition(topic, int(said.get(PARTITION_HEADER) or 0))
            headers = [(name, content) for name, content in letter.headers if not name.startswith(PREFIX)]
            timestamp = int(said.get(TIMESTAMP_HEADER) or letter.timestamp)
            by_target.setdefault(target, []).append((timestamp, letter.key, letter.value, headers))
            found.sent += 1
            found.by_reason[(said.get(REASON_HEADER) or b"").decode(errors="replace")] += 1
    return by_target
