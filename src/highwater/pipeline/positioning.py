"""The position of a pipeline's table, for people: to be seen, to be carried elsewhere, and to be set by hand."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING

from highwater.client.client import Client
from highwater.model import ZERO_UUID, TopicPartition, uuid_text
from highwater.pipeline.landing.options import Landing
from highwater.pipeline.landing.position import Interval, Log, Position
from highwater.pipeline.landing.rule import Batch, LandingError
from highwater.pipeline.query import sole_driver
from highwater.pipeline.resuming import landing_id
from highwater.pipeline.selection import parse_offsets

if TYPE_CHECKING:
    from highwater.pipeline.definition import Definition
    from highwater.pipeline.landing.table import Table

SECONDS = 10.0
"""How long the cluster may take to describe its topics."""
BY_HAND = "set-"
"""Before the id of what is set by hand, where otherwise the id of a query stands."""


def position_of(definition: Definition) -> Position | None:
    """None where the table is not there, or knows nothing of the pipeline."""
    table = table_of(definition)
    return table.known(landing_id(definition)).position if table.exists() else None


def exported(position: Position) -> str:
    """Ends by topic and partition, in the form of Spark's startingOffsets. Raises LandingError where there are two."""
    ends: dict[str, dict[str, int]] = {}
    for log, intervals in sorted(position.at.items()):
        of_topic = ends.setdefault(log.topic, {})
        if str(log.partition) in of_topic:
            raise LandingError(
                f"the table has positions of two topics for {log}, which was created again: name its end with --set"
            )
        of_topic[str(log.partition)] = intervals[-1].end
    return json.dumps(ends)


def imported(text: str) -> dict[TopicPartition, int]:
    """Raises ValueError."""
    ends = dict(parse_offsets("--import", text).by_partition)
    for partition, offset in ends.items():
        if offset < 0:
            raise ValueError(f"{partition} has the offset {offset}: a table's position is a number from 0")
    return ends


def place(definition: Definition, ends: Mapping[TopicPartition, int]) -> Position:
    """From now on the table has, of these partitions as they are in the cluster now, all before these offsets.

    The query of the present checkpoint lands no more: the next start must begin without it. Raises LandingError, InUse.
    """
    table = table_of(definition)
    with sole_driver(definition):
        if not table.exists():
            raise LandingError(
                "there is no table yet: start the pipeline, and say with starting_offsets where it begins"
            )
        landing = landing_id(definition)
        with client_of(definition) as client:
            logs = logs_of(client, ends)
        placed = {log: (Interval(0, offset),) for log, offset in logs.items()}
        table.commit(Batch(landing, f"{BY_HAND}{uuid.uuid4()}", 0, (), has_rows=False, placed=placed), [])
        position = table.known(landing).position
    assert position is not None
    return position


def table_of(definition: Definition) -> Table:
    if definition.sink_format != "highwater-table":
        raise LandingError(f"{definition.name} writes to a topic: only a table has a position")
    return Landing.from_options(definition.sink).table


def client_of(definition: Definition) -> Client:
    servers, security = definition.bootstrap_servers, definition.security
    return Client(servers, timeout=SECONDS, request_timeout=SECONDS, security=security)


def logs_of(client: Client, offsets: Mapping[TopicPartition, int]) -> dict[Log, int]:
    """The same offsets by the present life of each partition. Raises LandingError where there is none."""
    found: dict[Log, int] = {}
    client.refresh(sorted({partition.topic for partition in offsets}))
    for partition, offset in offsets.items():
        topic = client.view.topics.get(partition.topic)
        if topic is None or partition.partition not in topic.partitions:
            raise LandingError(f"the cluster has no {partition}, of which an offset is given")
        topic_id = "" if topic.id == ZERO_UUID else uuid_text(topic.id)
        found[Log(partition.topic, topic_id, partition.partition)] = offset
    return found
