"""The lag of the groups that this broker coordinates, as kafka_exporter reports it.

The offsets of a group are known here. The ends of the logs are asked of their leaders, on a scrape, but not more often
than every ten seconds. Offsets are read before the ends are asked for, so that no group is ahead of its log.
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
"""How long a scrape waits for a leader. A partition whose end is not known by then has no lag."""
PIECE = 500
"""The most offsets that are read in one turn, and ends that one request asks for: about two milliseconds."""
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
    """The result of one look."""

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
    """Groups may have a hundred thousand offsets. They are read some hundred at a time, with a turn of the loop after
    each piece."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._asked_at: float | None = None
        self._waiting: list[Callable[[], None]] | None = None
        """Scrapes that wait for the leaders' answers; None if no look is under way."""
        self._found = _Found()

    # Looking

    def _refresh(self, then: Callable[[], None]) -> None:
        """Calls `then` when the result is not older than ten seconds."""
        now = self._broker.world.clock.monotonic()
        if self._waiting is not None:
            self._waiting.append(then)
        elif self._asked_at is not None and now - self._asked_at < REFRESH_SECONDS:
            then()
        else:
            self._asked_at, self._waiting = now, [then]
            self._go_on(self._look())

    def _go_on(self, pieces: Iterator[None]) -> None:
        """After an unexpected failure the waiting scrapes get the last result."""
        failures = self._broker.world.failures
        with failures.boundary("connection", "a look at the lag of groups", lambda _: self._resume_waiting()):
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
            for found in ends:
                here.update(found)
            self._go_on(self._keep(positions, here))

        gathering = Gathering(len(elsewhere), answered)
        for index, (leader, asked) in enumerate(sorted(elsewhere.items())):
            _Question(self._broker, leader, asked, gathering.place(index))

    def _sort(self, place: TopicPartition, here: Ends, elsewhere: dict[NodeId, list[TopicPartition]]) -> None:
        """Adds the end of a partition that is led here to `here`, and sorts any other partition by its leader."""
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
        self._resume_waiting()

    def _resume_waiting(self) -> None:
        waiting, self._waiting = self._waiting or [], None
        for then in waiting:
            then()

    # Metrics

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
    """Asks a leader for the log ends of these partitions, on its own connection, some hundred at a time. Calls `done`
    once, with the ends that came in time."""

    def __init__(
        self, broker: Broker, leader: NodeId, places: list[TopicPartition], done: Callable[[Ends], None]
    ) -> None:
        self._clock = broker.world.clock
        self._until = self._clock.monotonic() + ANSWER_SECONDS
        self._unasked = deque(places)
        self._done = done
        self._ends: Ends = {}
        registration = broker.metadata.image.brokers.get(leader)
        at = None if registration is None else registration.listener(broker.metadata.config.inter_broker_listener)
        if at is None:
            done(self._ends)
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
        self._done(self._ends)


def _names(row: _Row) -> str:
    return labels(consumergroup=row.group_id, topic=row.place.topic, partition=row.place.partition)


def _sums(sums: Sums) -> Iterator[tuple[str, float]]:
    return ((labels(consumergroup=group_id, topic=topic), total) for (group_id, topic), total in sums.items())


def paced(things: Iterable[T]) -> Iterator[T | None]:
    """Yields the things, with None after each piece."""
    for at, thing in enumerate(things, 1):
        yield thing
        if not at % PIECE:
            yield None
