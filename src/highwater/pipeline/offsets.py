"""What Spark stores of a query's progress: an offset per partition, with the topic's id and the leader's epoch.

Spark keeps it as JSON in the checkpoint. A checkpoint that Spark's own Kafka connector wrote is understood as well:
it has offsets alone, so that nothing is known of the topic's identity before the next batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from highwater.model import TopicPartition
from highwater.pipeline.ranges import NO_EPOCH

VERSION = 1

INITIAL: dict[str, Any] = {"version": VERSION, "initial": True}
"""Before the first batch. It is a constant on purpose: when the first batch fails, Spark asks for the initial offset
again, and an answer that had moved on ("latest") would skip records. So the first batch is empty, from this marker to
the resolved start, and only what it has put into Spark's own log counts."""


class Position(NamedTuple):
    offset: int
    epoch: int = NO_EPOCH
    """Not below the epoch of the record before `offset`, and not above the leader's when it was looked up."""


class TableEnd(NamedTuple):
    """How far a table has come with one life of a partition."""

    topic: str
    topic_id: str
    partition: int
    at: Position


@dataclass(frozen=True)
class Positions:
    topic_ids: Mapping[str, str]
    """By name; "" or absent where it is not known."""
    at: Mapping[TopicPartition, Position]

    def topic_id(self, topic: str) -> str:
        return self.topic_ids.get(topic, "")

    def to_json(self) -> dict[str, Any]:
        topics: dict[str, Any] = {}
        for partition in sorted(self.at):
            position = self.at[partition]
            new = {"id": self.topic_id(partition.topic), "offsets": {}, "epochs": {}}
            topic = topics.setdefault(partition.topic, new)
            topic["offsets"][str(partition.partition)] = position.offset
            topic["epochs"][str(partition.partition)] = position.epoch
        return {"version": VERSION, "topics": topics}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Positions:
        """Raises ValueError where it is neither ours nor that of Spark's own connector."""
        try:
            return cls._ours(stored) if "version" in stored else cls._plain(stored)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"not an offset of this source: {stored!r} ({error})") from error

    @classmethod
    def _ours(cls, stored: Mapping[str, Any]) -> Positions:
        if stored["version"] != VERSION:
            raise ValueError(f"version {stored['version']}, of which only {VERSION} is known")
        at = {
            TopicPartition(name, int(index)): Position(int(offset), int(topic["epochs"].get(index, NO_EPOCH)))
            for name, topic in stored["topics"].items()
            for index, offset in topic["offsets"].items()
        }
        return cls({name: str(topic["id"]) for name, topic in stored["topics"].items()}, at)

    @classmethod
    def _plain(cls, stored: Mapping[str, Any]) -> Positions:
        at = {
            TopicPartition(name, int(index)): Position(int(offset))
            for name, offsets in stored.items()
            for index, offset in offsets.items()
        }
        return cls({}, at)


def is_initial(stored: Mapping[str, Any]) -> bool:
    return dict(stored) == INITIAL
