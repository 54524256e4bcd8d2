"""What the driver asks the cluster: which partitions there are, where they begin and end, what was when."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from highwater.client.client import Client
from highwater.client.epochs import EpochEnd, epoch_ends
from highwater.client.failures import Disconnected, RequestTimeout, UnsupportedApi
from highwater.client.groups import Groups
from highwater.client.offsets import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED, FoundOffset, list_offsets
from highwater.errors import Code, KafkaError, is_retriable
from highwater.model import ZERO_UUID, TopicPartition, uuid_text
from highwater.pipeline.offsets import Position, Positions
from highwater.pipeline.options import SourceOptions
from highwater.pipeline.selection import (
    Assigned,
    AtOffsets,
    AtTime,
    AtTimes,
    BadOption,
    Bound,
    Everywhere,
    Matching,
    Selection,
    Subscribed,
    selects,
)

T = TypeVar("T")


@dataclass(frozen=True)
class Found:
    """The selected partitions as they are now, in order, with the ids of their topics."""

    topic_ids: Mapping[str, str]
    partitions: tuple[TopicPartition, ...]


class Lookup:
    """Each look-up is tried as often as fetchOffset.numRetries says, and each try over leader changes."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        reading = options.reading
        self._client = Client(
            reading.bootstrap_servers,
            client_id=reading.client_id,
            timeout=options.api_timeout,
            request_timeout=min(reading.request_timeout_seconds, options.api_timeout),
            security=reading.security,
        )
        self._isolation = READ_COMMITTED if reading.read_committed else READ_UNCOMMITTED

    def close(self) -> None:
        self._client.close()

    def partitions(self, expected: Collection[TopicPartition] = ()) -> Found:
        """A topic or partition that does not exist is left out.

        While an expected one is missing it is asked again, as often as a look-up is tried: a broker may be behind.
        """
        attempts = 1
        while True:
            self._tried(lambda: self._refreshed(_topics(self._options.selection)))
            found = self._selected()
            if attempts >= self._options.offset_attempts or set(expected) <= set(found.partitions):
                return found
            attempts += 1
            time.sleep(self._options.offset_retry_seconds)

    def _selected(self) -> Found:
        ids: dict[str, str] = {}
        partitions: list[TopicPartition] = []
        for name, known in sorted(self._client.view.topics.items()):
            here = [TopicPartition(name, index) for index in sorted(known.partitions)]
            chosen = [each for each in here if _is_selected(self._options.selection, each, known.is_internal)]
            if chosen:
                partitions += chosen
                ids[name] = "" if known.id == ZERO_UUID else uuid_text(known.id)
        return Found(ids, tuple(partitions))

    def _refreshed(self, topics: list[str] | None) -> None:
        self._client.view.topics.clear()
        self._client.refresh(topics)

    def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Position]:
        return self._listed(dict.fromkeys(partitions, EARLIEST))

    def latest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Position]:
        """Where a reader ends now: the high watermark, or the last stable offset with read_committed."""
        return self._listed(dict.fromkeys(partitions, LATEST))

    def _listed(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, Position]:
        def attempt() -> dict[TopicPartition, Position]:
            return {partition: Position(found.offset, found.leader_epoch) for partition, found in self._asked(wanted)}

        return self._tried(attempt) if wanted else {}

    def _asked(self, wanted: Mapping[TopicPartition, int]) -> list[tuple[TopicPartition, FoundOffset]]:
        answers = []
        for partition, found in list_offsets(self._client, wanted, isolation=self._isolation).items():
            if isinstance(found, KafkaError):
                raise found
            answers.append((partition, found))
        return answers

    def epoch_ends(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Where the log of each partition ends that has no record above its epoch; unknown ones are left out."""

        def attempt() -> dict[TopicPartition, int]:
            ends = {}
            for partition, end in epoch_ends(self._client, epochs).items():
                if isinstance(end, EpochEnd) and end.offset >= 0:
                    ends[partition] = end.offset
                elif isinstance(end, KafkaError) and is_retriable(end.code):
                    raise end
            return ends

        try:
            return self._tried(attempt) if epochs else {}
        except UnsupportedApi:
            return {}

    def resolve(self, bound: Bound, *, starting: bool) -> Positions:
        """The bound as positions. Raises BadOption where it does not fit the partitions that there are."""
        found = self.existing()
        partitions = found.partitions
        match bound:
            case Everywhere.EARLIEST:
                at = self.earliest(partitions)
            case Everywhere.LATEST:
                at = self.latest(partitions)
            case Everywhere.GROUP:
                at = self._committed(partitions)
            case AtOffsets(offsets):
                _check_same("startingOffsets" if starting else "endingOffsets", offsets, partitions)
                at = self._at_offsets(offsets)
            case AtTimes(times):
                name = "startingOffsetsByTimestamp" if starting else "endingOffsetsByTimestamp"
                _check_same(name, times, partitions)
                at = self._at_times(times, starting)
            case AtTime(milliseconds):
                at = self._at_times(dict.fromkeys(partitions, milliseconds), starting)
        return Positions(found.topic_ids, at)

    def begin(self) -> Positions:
        """Where a stream without a checkpoint starts: where its table ends, if it has come that far in another life.

        A partition that is new to the table, of a topic that is not, is read from its beginning.
        """
        begin = self.resolve(self._options.starting, starting=True)
        ends = {
            TopicPartition(end.topic, end.partition): end.at
            for end in self._options.table_ends
            if end.topic_id == begin.topic_id(end.topic)
        }
        topics = {partition.topic for partition in ends}
        new = [each for each in begin.at if each.topic in topics and each not in ends]
        known = {each: ends[each] for each in begin.at if each in ends}
        return Positions(begin.topic_ids, {**begin.at, **known, **self.earliest(new)})

    def existing(self) -> Found:
        """All that is selected, which a broker may learn of a little late. Raises BadOption."""
        attempts = 1
        while True:
            found = self.partitions()
            missing = self._missing(found)
            if not missing:
                return found
            if attempts >= self._options.offset_attempts:
                raise BadOption(
                    f"{self._options.reading.bootstrap_servers} has no {', '.join(missing)}, which the query is to "
                    "read: create it first (`highwater topics --create`), or read another"
                )
            attempts += 1
            time.sleep(self._options.offset_retry_seconds)

    def _missing(self, found: Found) -> list[str]:
        match self._options.selection:
            case Subscribed(topics):
                return [f"topic {topic}" for topic in topics if topic not in found.topic_ids]
            case Assigned(partitions):
                return [f"partition {each}" for each in partitions if each not in found.partitions]
            case Matching():
                return []

    def _committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Position]:
        committed = self._tried(lambda: Groups(self._client).committed(self._options.group_id or ""))
        known = {each: Position(committed[each].offset) for each in partitions if each in committed}
        return known | self.earliest(each for each in partitions if each not in known)

    def _at_offsets(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, Position]:
        known = {partition: Position(offset) for partition, offset in offsets.items() if offset >= 0}
        return known | self._listed({partition: offset for partition, offset in offsets.items() if offset < 0})

    def _at_times(self, times: Mapping[TopicPartition, int], starting: bool) -> dict[TopicPartition, Position]:
        at = self._listed(times)
        beyond = [partition for partition, position in at.items() if position.offset < 0]
        if beyond and starting and not self._options.latest_if_no_match:
            first = beyond[0]
            raise BadOption(
                f"{first} has no record at or after {times[first]} ms, where the query is to start; "
                "startingOffsetsByTimestampStrategy=latest starts at the end then"
            )
        return at | self.latest(beyond)

    def _tried(self, attempt: Callable[[], T]) -> T:
        attempts = 1
        while True:
            try:
                return attempt()
            except (Disconnected, RequestTimeout, KafkaError) as error:
                if attempts >= self._options.offset_attempts or not _passes(error):
                    raise
            attempts += 1
            time.sleep(self._options.offset_retry_seconds)


def _passes(error: Exception) -> bool:
    return not isinstance(error, KafkaError) or is_retriable(error.code) or error.code == Code.BROKER_NOT_AVAILABLE


def _topics(selection: Selection) -> list[str] | None:
    match selection:
        case Subscribed(topics):
            return list(topics)
        case Assigned(partitions):
            return sorted({partition.topic for partition in partitions})
        case Matching():
            return None


def _is_selected(selection: Selection, partition: TopicPartition, is_internal: bool) -> bool:
    match selection:
        case Assigned(partitions):
            return partition in partitions
        case Matching():
            return not is_internal and selects(selection, partition.topic)
        case Subscribed():
            return selects(selection, partition.topic)


def _check_same(name: str, given: Mapping[TopicPartition, int], partitions: Iterable[TopicPartition]) -> None:
    there = set(partitions)
    if given.keys() != there:
        lacking = ", ".join(map(str, sorted(there - given.keys()))) or "none"
        beside = ", ".join(map(str, sorted(given.keys() - there))) or "none"
        raise BadOption(
            f"option {name} must name exactly the partitions that are read (-1 is latest, -2 earliest); "
            f"not named: {lacking}; named but not read: {beside}"
        )
