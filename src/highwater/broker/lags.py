"""How far behind the groups are that this broker coordinates, as kafka_exporter tells it.

A group's offsets are known here; where the logs end is asked of their leaders, when somebody looks and not more often
than every ten seconds. Offsets are taken before the ends are asked for, so that no group is ahead of its log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from highwater.broker.broker import Broker
from highwater.broker.gathering import Gathering
from highwater.errors import Code
from highwater.groups import Position
from highwater.model import Endpoint, NodeId, TopicPartition
from highwater.net.client import CallFailed, ClientConnection, Gone
from highwater.net.http import Wait
from highwater.net.metrics import Family, gauge, labels
from highwater.wire.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from highwater.wire.messages.list_offsets_response import ListOffsetsResponse

REFRESH_SECONDS = 10.0
ANSWER_SECONDS = 2.0
"""Who looks waits no longer for a leader; a partition whose end is not known then has no lag."""
_LATEST = -1
_CONSUMER = -1

Ends = dict[TopicPartition, int]


class _Row(NamedTuple):
    group_id: str
    place: TopicPartition
    offset: int
    end: int | None


class GroupLags:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._asked_at: float | None = None
        self._waiting: list[Callable[[], None]] | None = None
        """Who looks while the leaders are asked; None while they are not."""
        self._members: list[tuple[str, int]] = []
        self._rows: list[_Row] = []

    # Looking

    def _refresh(self, then: Callable[[], None]) -> None:
        """`then` once what is told is no older than ten seconds."""
        now = self._broker.world.clock.monotonic()
        if self._waiting is not None:
            self._waiting.append(then)
        elif self._asked_at is not None and now - self._asked_at < REFRESH_SECONDS:
            then()
        else:
            self._asked_at, self._waiting = now, [then]
            self._look()

    def _look(self) -> None:
        positions = [found for tenure in self._broker.groups.shards.active for found in tenure.machine.positions()]
        here, elsewhere = self._sorted(dict.fromkeys(place for each in positions for place in each.committed))

        def answered(ends: list[Ends]) -> None:
            self._keep(positions, here | {place: end for told in ends for place, end in told.items()})
            waiting, self._waiting = self._waiting or [], None
            for then in waiting:
                then()

        gathering = Gathering(len(elsewhere), answered)
        for index, (leader, places) in enumerate(sorted(elsewhere.items())):
            _Question(self._broker, leader, places, gathering.place(index))

    def _sorted(self, places: Iterable[TopicPartition]) -> tuple[Ends, dict[NodeId, list[TopicPartition]]]:
        """The ends of what is led here; and all else by its leader."""
        here: Ends = {}
        elsewhere: dict[NodeId, list[TopicPartition]] = {}
        for place in places:
            image = self._broker.partition_image(place.topic, place.partition)
            hosted = self._broker.hosted.get(place)
            if hosted is not None and hosted.knows_its_end:
                here[place] = hosted.log.high_watermark
            elif image is not None and image.has_leader and image.leader != self._broker.node_id:
                elsewhere.setdefault(image.leader, []).append(place)
        return here, elsewhere

    def _keep(self, positions: list[Position], ends: Ends) -> None:
        self._members = sorted((each.group_id, each.members) for each in positions)
        self._rows = sorted(
            _Row(each.group_id, place, offset, ends.get(place))
            for each in positions
            for place, offset in each.committed.items()
        )

    # Telling

    def collect(self) -> Iterator[Family | Wait]:
        yield self._refresh
        prefix = "kafka_consumergroup_"
        members = [(labels(consumergroup=group_id), count) for group_id, count in self._members]
        yield gauge(prefix + "members", "Members of a group.", members)
        offsets = [(_names(row), row.offset) for row in self._rows]
        yield gauge(prefix + "current_offset", "Where a group goes on reading.", offsets)
        yield gauge(prefix + "current_offset_sum", "The same, of a topic.", self._sums(lambda row: row.offset))
        known = [(row, row.end - row.offset) for row in self._rows if row.end is not None]
        yield gauge(prefix + "lag", "Records that a group has not read.", [(_names(row), lag) for row, lag in known])
        lags = dict(known)
        yield gauge(prefix + "lag_sum", "The same, of a topic.", self._sums(lags.get))

    def _sums(self, value: Callable[[_Row], int | None]) -> list[tuple[str, float]]:
        sums: dict[tuple[str, str], int] = {}
        for row in self._rows:
            told = value(row)
            if told is not None:
                key = (row.group_id, row.place.topic)
                sums[key] = sums.get(key, 0) + told
        return [(labels(consumergroup=group_id, topic=topic), total) for (group_id, topic), total in sums.items()]


class _Question:
    """Where the logs of these partitions end, asked of their leader on a connection of its own. `told` is called once,
    with what came of it."""

    def __init__(
        self, broker: Broker, leader: NodeId, places: list[TopicPartition], told: Callable[[Ends], None]
    ) -> None:
        self._places = places
        self._told = told
        self._ends: Ends = {}
        registration = broker.image.brokers.get(leader)
        at = None if registration is None else registration.listener(broker.config.inter_broker_listener)
        if at is None:
            told(self._ends)
            return
        client_id = f"broker-{broker.node_id}-lags"
        self._connection = ClientConnection(
            broker.world, Endpoint(at.host, at.port), client_id, broker.deadlines, self._closed
        )
        self._connection.open(self._ask, ANSWER_SECONDS)

    def _ask(self) -> None:
        topics: dict[str, ListOffsetsTopic] = {}
        for name, index in self._places:
            row = ListOffsetsPartition(partition_index=index, timestamp=_LATEST)
            topics.setdefault(name, ListOffsetsTopic(name=name)).partitions.append(row)
        request = ListOffsetsRequest(replica_id=_CONSUMER, topics=list(topics.values()))
        version = self._connection.pick(request.API_KEY, request.VERSIONS)
        if version is None:
            self._connection.close()
        else:
            self._connection.send(request, version, ListOffsetsResponse, self._answered, ANSWER_SECONDS)

    def _answered(self, answer: ListOffsetsResponse | CallFailed) -> None:
        if isinstance(answer, ListOffsetsResponse):
            self._ends = {
                TopicPartition(topic.name, row.partition_index): row.offset
                for topic in answer.topics
                for row in topic.partitions
                if row.error_code == Code.NONE
            }
        self._connection.close()

    def _closed(self, why: Gone) -> None:
        self._told(self._ends)


def _names(row: _Row) -> str:
    return labels(consumergroup=row.group_id, topic=row.place.topic, partition=row.place.partition)
