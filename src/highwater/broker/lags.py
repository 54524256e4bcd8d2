"""How far behind the groups are that this broker coordinates, as kafka_exporter tells it.

A group's offsets are known here; where the logs end is asked of their leaders, when somebody looks and not more often
than every ten seconds. Offsets are taken before the ends are asked for, so that no group is ahead of its log.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeVar

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
PIECE = 500
"""Offsets that are looked at in one turn, and ends that are asked for at once: two milliseconds or so."""
_LATEST = -1
_CONSUMER = -1

T = TypeVar("T")
Ends = dict[TopicPartition, int]


Sums = dict[tuple[str, str], int]
"""By group and topic."""


class _Row(NamedTuple):
    group_id: str
    place: TopicPartition
    offset: int
    lag: int | None


class _Found:
    """What was found at one look."""

    __slots__ = ("lags", "members", "offsets", "rows")

    def __init__(self) -> None:
        self.members: list[tuple[str, int]] = []
        self.rows: list[_Row] = []
        self.offsets: Sums = {}
        self.lags: Sums = {}

    def note(self, group_id: str, place: TopicPartition, offset: int, end: int | None) -> None:
        lag = None if end is None else end - offset
        key = (group_id, place.topic)
        self.rows.append(_Row(group_id, place, offset, lag))
        self.offsets[key] = self.offsets.get(key, 0) + offset
        if lag is not None:
            self.lags[key] = self.lags.get(key, 0) + lag


class GroupLags:
    """Groups may have a hundred thousand offsets: they are gone through some hundred at a time, with a turn of the
    loop after each."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._asked_at: float | None = None
        self._waiting: list[Callable[[], None]] | None = None
        """Who looks while the leaders are asked; None while they are not."""
        self._found = _Found()

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
            self._go_on(self._look())

    def _go_on(self, pieces: Iterator[None]) -> None:
        """A mistake is told, and those who look are told what was found before."""
        failures = self._broker.world.failures
        with failures.boundary("connection", "a look at the lag of groups", lambda _: self._tell()):
            for _ in pieces:
                self._broker.world.clock.call_soon(self._go_on, pieces)
                break

    def _look(self) -> Iterator[None]:
        positions: list[Position] = []
        places: dict[TopicPartition, None] = {}
        for tenure in list(self._broker.groups.shards.active):
            for found in paced(tenure.machine.positions()):
                if found is None:
                    yield
                    continue
                positions.append(found)
                for place in paced(found.committed):
                    if place is None:
                        yield
                    else:
                        places[place] = None
        here: Ends = {}
        elsewhere: dict[NodeId, list[TopicPartition]] = {}
        for place in paced(places):
            if place is None:
                yield
            else:
                self._sort(place, here, elsewhere)

        def answered(ends: list[Ends]) -> None:
            for told in ends:
                here.update(told)
            self._go_on(self._keep(positions, here))

        gathering = Gathering(len(elsewhere), answered)
        for index, (leader, asked) in enumerate(sorted(elsewhere.items())):
            _Question(self._broker, leader, asked, gathering.place(index))

    def _sort(self, place: TopicPartition, here: Ends, elsewhere: dict[NodeId, list[TopicPartition]]) -> None:
        """The ends of what is led here; and all else by its leader."""
        image = self._broker.metadata.partition_image(place.topic, place.partition)
        hosted = self._broker.hosted.get(place)
        if hosted is not None and hosted.knows_its_end:
            here[place] = hosted.log.high_watermark
        elif image is not None and image.has_leader and image.leader != self._broker.node_id:
            elsewhere.setdefault(image.leader, []).append(place)

    def _keep(self, positions: list[Position], ends: Ends) -> Iterator[None]:
        found = _Found()
        for each in paced(positions):
            if each is None:
                yield
                continue
            found.members.append((each.group_id, each.members))
            for committed in paced(each.committed.items()):
                if committed is None:
                    yield
                else:
                    place, offset = committed
                    found.note(each.group_id, place, offset, ends.get(place))
        self._found = found
        self._tell()

    def _tell(self) -> None:
        waiting, self._waiting = self._waiting or [], None
        for then in waiting:
            then()

    # Telling

    def collect(self) -> Iterator[Family | Wait]:
        yield self._refresh
        found, prefix = self._found, "kafka_consumergroup_"
        members = ((labels(consumergroup=group_id), count) for group_id, count in found.members)
        yield gauge(prefix + "members", "Members of a group.", members)
        offsets = ((_names(row), row.offset) for row in found.rows)
        yield gauge(prefix + "current_offset", "Where a group goes on reading.", offsets)
        yield gauge(prefix + "current_offset_sum", "The same, of a topic.", _sums(found.offsets))
        lags = ((_names(row), row.lag) for row in found.rows if row.lag is not None)
        yield gauge(prefix + "lag", "Records that a group has not read.", lags)
        yield gauge(prefix + "lag_sum", "The same, of a topic.", _sums(found.lags))


class _Question:
    """Where the logs of these partitions end, asked of their leader on a connection of its own, some hundred at a time.
    `told` is called once, with what came of it in time."""

    def __init__(
        self, broker: Broker, leader: NodeId, places: list[TopicPartition], told: Callable[[Ends], None]
    ) -> None:
        self._clock = broker.world.clock
        self._until = self._clock.monotonic() + ANSWER_SECONDS
        self._unasked = deque(places)
        self._told = told
        self._ends: Ends = {}
        registration = broker.metadata.image.brokers.get(leader)
        at = None if registration is None else registration.listener(broker.metadata.config.inter_broker_listener)
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
        for name, index in [self._unasked.popleft() for _ in range(min(PIECE, len(self._unasked)))]:
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
            self._ends |= {
                TopicPartition(topic.name, row.partition_index): row.offset
                for topic in answer.topics
                for row in topic.partitions
                if row.error_code == Code.NONE
            }
            if self._unasked and self._clock.monotonic() < self._until:
                self._ask()
                return
        self._connection.close()

    def _closed(self, why: Gone) -> None:
        self._told(self._ends)


def _names(row: _Row) -> str:
    return labels(consumergroup=row.group_id, topic=row.place.topic, partition=row.place.partition)


def _sums(sums: Sums) -> Iterator[tuple[str, float]]:
    return ((labels(consumergroup=group_id, topic=topic), total) for (group_id, topic), total in sums.items())


def paced(things: Iterable[T]) -> Iterator[T | None]:
    """With None after each piece of them."""
    for at, thing in enumerate(things, 1):
        yield thing
        if not at % PIECE:
            yield None
