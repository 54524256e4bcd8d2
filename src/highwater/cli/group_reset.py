"""Computes the new offsets of a group: the forms of `--reset-offsets`."""

from __future__ import annotations

import csv
import re
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta

import click

from highwater.client.client import Client
from highwater.client.descriptions import describe_topics
from highwater.client.groups import Groups
from highwater.client.offsets import EARLIEST, LATEST, list_offsets
from highwater.errors import Code, KafkaError
from highwater.model import TopicPartition

SCENARIOS = (
    "to-offset",
    "shift-by",
    "to-datetime",
    "by-duration",
    "to-earliest",
    "to-latest",
    "to-current",
    "from-file",
)
_DURATION = re.compile(
    r"([-+]?)P(?:([-+]?\d+)D)?(?:T(?:([-+]?\d+)H)?(?:([-+]?\d+)M)?(?:([-+]?\d+(?:\.\d{0,9})?)S)?)?", re.IGNORECASE
)
_ZONE = re.compile(r"(Z|[+-]\d\d(?::?\d\d)?)$")
Offsets = dict[TopicPartition, int]


class NotThere(KafkaError):
    """Partitions that cannot be reset, with their own message."""


def named_partitions(client: Client, arguments: Iterable[str]) -> list[TopicPartition]:
    """`topic` means all its partitions, `topic:0,1` some. Raises ValueError for anything else."""
    found: list[TopicPartition] = []
    whole = []
    for argument in arguments:
        if ":" not in argument:
            whole.append(argument)
            continue
        parts = argument.split(":")
        if len(parts) != 2 or not parts[1]:
            raise ValueError(f"Invalid topic arg '{argument}', expected topic name and partitions")
        for text in parts[1].split(","):
            if re.fullmatch(r"[-+]?\d+", text) is None:
                raise ValueError(f"Invalid partition '{text}' specified in topic arg '{argument}''")
            found.append(TopicPartition(parts[0], int(text)))
    for topic in describe_topics(client, whole):
        found += [TopicPartition(topic.name or "", each.partition_index) for each in topic.partitions]
    return found


def check_partitions(client: Client, partitions: Iterable[TopicPartition]) -> None:
    """Raises NotThere unless all of them exist and have leaders."""
    asked = list(partitions)
    leaders = {
        TopicPartition(topic.name or "", each.partition_index): each.leader_id
        for topic in describe_topics(client, {place.topic for place in asked})
        for each in topic.partitions
    }
    for bad, code, what in (
        ([each for each in asked if each not in leaders], Code.UNKNOWN_TOPIC_OR_PARTITION, "do not exist"),
        ([each for each in asked if leaders.get(each, 0) < 0], Code.LEADER_NOT_AVAILABLE, "have no leader"),
    ):
        if bad:
            raise NotThere(code, f'The partitions "{",".join(map(str, bad))}" {what}')


class Reset:
    """Computes new offsets by the form that the options name."""

    def __init__(self, client: Client, groups: Groups, options: Mapping[str, object]) -> None:
        self._client = client
        self._groups = groups
        self._options = options

    def planned(self, group_id: str, partitions: list[TopicPartition]) -> Offsets:
        options = self._options
        if options["to_offset"] is not None:
            return self._within_logs(dict.fromkeys(partitions, int(str(options["to_offset"]))))
        if options["to_earliest"]:
            return self._at(partitions, EARLIEST)
        if options["to_latest"]:
            return self._at(partitions, LATEST)
        if options["shift_by"] is not None:
            return self._shifted(group_id, partitions, int(str(options["shift_by"])))
        if options["to_datetime"] is not None:
            return self._since(partitions, milliseconds(str(options["to_datetime"])))
        if options["by_duration"] is not None:
            ago = duration(str(options["by_duration"])) // timedelta(milliseconds=1)
            return self._since(partitions, time.time_ns() // 1_000_000 - ago)
        if options["from_file"] is not None:
            return self._from_file(group_id, str(options["from_file"]))
        current = self._groups.committed(group_id)
        known = {place: current[place].offset for place in partitions if place in current}
        return known | self._at([place for place in partitions if place not in current], LATEST)

    def _at(self, partitions: Iterable[TopicPartition], when: int) -> Offsets:
        found = list_offsets(self._client, dict.fromkeys(partitions, when))
        offsets = {}
        for place, answer in found.items():
            if isinstance(answer, KafkaError):
                raise answer
            offsets[place] = answer.offset
        return offsets

    def _since(self, partitions: list[TopicPartition], when: int) -> Offsets:
        found = self._at(partitions, when)
        later = [place for place, offset in found.items() if offset < 0]
        for topic, partition in later:
            click.echo(
                f"\nWarn: Partition {partition} from topic {topic} is empty. Falling back to latest known offset."
            )
        return found | self._at(later, LATEST)

    def _shifted(self, group_id: str, partitions: list[TopicPartition], by: int) -> Offsets:
        current = self._groups.committed(group_id)
        for place in partitions:
            if place not in current:
                raise ValueError(
                    f"Cannot shift offset for partition {place} since there is no current committed offset"
                )
        return self._within_logs({place: current[place].offset + by for place in partitions})

    def _from_file(self, group_id: str, path: str) -> Offsets:
        planned: Offsets = {}
        with open(path, encoding="utf-8", newline="") as file:
            for row in csv.reader(file):
                if len(row) not in (3, 4):
                    raise ValueError(f"{path}: a line is topic,partition,offset, or begins with its group: {row}")
                if len(row) == 3 or row[0] == group_id:
                    planned[TopicPartition(row[-3], int(row[-2]))] = int(row[-1])
        if not planned:
            click.echo(f"\nError: No reset plan for group {group_id} found")
        return self._within_logs(planned)

    def _within_logs(self, wanted: Offsets) -> Offsets:
        first, end = self._at(wanted, EARLIEST), self._at(wanted, LATEST)
        return {place: max(min(offset, end[place]), first[place]) for place, offset in wanted.items()}


def milliseconds(text: str) -> int:
    """A time as `YYYY-MM-DDThh:mm:ss.sss`, in UTC unless it names its zone. Raises ValueError."""
    day, _, clock = text.partition("T")
    zone = _ZONE.search(clock)
    plain = clock[: zone.start()] if zone is not None else clock
    try:
        when = datetime.strptime(f"{day}T{plain}", "%Y-%m-%dT%H:%M:%S.%f" if "." in plain else "%Y-%m-%dT%H:%M:%S")
        offset = datetime.strptime(zone[0], "%z").tzinfo if zone is not None and len(zone[0]) != 3 else None
    except ValueError as error:
        raise ValueError(f"{text} is no time as YYYY-MM-DDThh:mm:ss.sss") from error
    if zone is not None and len(zone[0]) == 3:
        offset = datetime.strptime(zone[0] + "00", "%z").tzinfo
    return (when.replace(tzinfo=offset or UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def duration(text: str) -> timedelta:
    """As `PnDTnHnMnS`. Raises ValueError."""
    found = _DURATION.fullmatch(text)
    if found is None or not any(found.groups()[1:]) or text.upper().endswith("T"):
        raise ValueError(f"Text cannot be parsed to a Duration: {text}")
    sign, days, hours, minutes, seconds = found.groups()
    span = timedelta(days=int(days or 0), hours=int(hours or 0), minutes=int(minutes or 0), seconds=float(seconds or 0))
    return -span if sign == "-" else span
