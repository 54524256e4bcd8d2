"""Which partitions are read, and between which bounds: the values of the options that say so."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from highwater.model import TopicPartition

EARLIEST = -2
LATEST = -1
"""As offsets in the JSON of startingOffsets and endingOffsets."""


class BadOption(ValueError):
    """An option that is unknown, misplaced or not understood: what it is, what was given, what is allowed."""


@dataclass(frozen=True, slots=True)
class Assigned:
    partitions: tuple[TopicPartition, ...]

    def __str__(self) -> str:
        return "assign " + ", ".join(map(str, self.partitions))


@dataclass(frozen=True, slots=True)
class Subscribed:
    topics: tuple[str, ...]

    def __str__(self) -> str:
        return "subscribe " + ", ".join(self.topics)


@dataclass(frozen=True, slots=True)
class Matching:
    """Topics whose names contain a match; internal ones never."""

    pattern: str

    def __str__(self) -> str:
        return f"subscribePattern {self.pattern}"


Selection = Assigned | Subscribed | Matching


def selects(selection: Selection, topic: str) -> bool:
    """Whether a topic of this name would be read, once there is one."""
    match selection:
        case Subscribed(topics):
            return topic in topics
        case Assigned(partitions):
            return any(partition.topic == topic for partition in partitions)
        case Matching(pattern):
            return re.search(pattern, topic) is not None


def check_no_loop(selection: Selection, dead_letter_topic: str | None) -> None:
    """Raises BadOption where a query would read the dead letters that it writes, each time as a new one."""
    if dead_letter_topic is not None and selects(selection, dead_letter_topic):
        raise BadOption(
            f"option deadLetterTopic is {dead_letter_topic!r}, which {selection} selects: the query would read its own "
            "dead letters. Name another topic, or end the pattern with $"
        )


class Everywhere(Enum):
    """One rule for all partitions."""

    EARLIEST = "earliest"
    LATEST = "latest"
    GROUP = "group"
    """Where the consumer group stands; earliest where it has committed nothing, so that nothing is missed."""


@dataclass(frozen=True, slots=True)
class AtOffsets:
    by_partition: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class AtTimes:
    by_partition: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class AtTime:
    milliseconds: int


Bound = Everywhere | AtOffsets | AtTimes | AtTime


def parse_assign(value: str) -> Assigned:
    example = 'expected e.g. {"topicA":[0,1],"topicB":[2,4]}'
    partitions = [
        TopicPartition(topic, _natural("assign", value, index, example))
        for topic, indexes in _object("assign", value, example).items()
        for index in _list("assign", value, indexes, example)
    ]
    if not partitions:
        raise BadOption(f"option assign is {value!r}, which names no partition: {example}")
    return Assigned(tuple(dict.fromkeys(partitions)))


def parse_subscribe(value: str) -> Subscribed:
    topics = [name.strip() for name in value.split(",") if name.strip()]
    if not topics:
        raise BadOption(f"option subscribe is {value!r}, which names no topic: expected a comma-separated list")
    return Subscribed(tuple(dict.fromkeys(topics)))


def parse_pattern(value: str) -> Matching:
    pattern = value.strip()
    if not pattern:
        raise BadOption(f"option subscribePattern is {value!r}, an empty pattern: expected a regular expression")
    try:
        re.compile(pattern)
    except re.error as error:
        raise BadOption(f"option subscribePattern is {value!r}, not a regular expression: {error}") from error
    return Matching(pattern)


def parse_offsets(name: str, value: str) -> AtOffsets:
    example = 'expected earliest, latest or e.g. {"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'
    offsets = _by_partition(name, value, example)
    for partition, offset in offsets.items():
        if offset < EARLIEST:
            raise BadOption(
                f"option {name} has offset {offset} for {partition}: 0 or more, -1 (latest) or -2 (earliest)"
            )
    return AtOffsets(offsets)


def parse_times(name: str, value: str) -> AtTimes:
    return AtTimes(_by_partition(name, value, 'expected e.g. {"topicA":{"0":1000,"1":1000}}, milliseconds since 1970'))


def _by_partition(name: str, value: str, example: str) -> dict[TopicPartition, int]:
    found = {}
    for topic, numbers in _object(name, value, example).items():
        if not isinstance(numbers, dict):
            raise BadOption(f"option {name} is {value!r}: {example}")
        for index, number in numbers.items():
            if isinstance(number, bool) or not isinstance(number, int) or not index.isascii() or not index.isdigit():
                raise BadOption(f"option {name} is {value!r}: {example}")
            found[TopicPartition(topic, int(index))] = number
    return found


def _object(name: str, value: str, example: str) -> dict[str, Any]:
    try:
        parsed = json.loads(value)
    except ValueError as error:
        raise BadOption(f"option {name} is {value!r}, which is not JSON: {example}") from error
    if not isinstance(parsed, dict):
        raise BadOption(f"option {name} is {value!r}: {example}")
    return parsed


def _list(name: str, value: str, indexes: Any, example: str) -> list[Any]:
    if not isinstance(indexes, list):
        raise BadOption(f"option {name} is {value!r}: {example}")
    return indexes


def _natural(name: str, value: str, index: Any, example: str) -> int:
    if isinstance(index, bool) or not isinstance(index, int) or index < 0:
        raise BadOption(f"option {name} is {value!r}, where {index!r} is no partition: {example}")
    return index
