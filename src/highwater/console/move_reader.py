"""What moves: how far each new replica has caught up, what has ended, and how the brokers are filled."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from highwater.client import Admin, Client, ClientFailure
from highwater.client.balance_sight import Sight, look
from highwater.client.descriptions import PartitionDescription, describe_topics
from highwater.console.clients import Clients, OwnClient
from highwater.console.kafka_lanes import Replica, directories
from highwater.console.paced import Paced, period
from highwater.errors import Code, KafkaError
from highwater.model import NodeId, TopicPartition
from highwater.wire.messages.list_partition_reassignments_response import OngoingPartitionReassignment

MOVES_SHOWN: Final = 100
ENDED_KEPT: Final = 20
LOOKS: Final = 5
"""A broker may learn of the end of a move a little later than the controller. So often it is asked again."""

Sizes = Mapping[int, Mapping[TopicPartition, Replica]]
"""By broker. One that does not answer is missing."""


class MoveReader:
    def __init__(self, clients: Clients, wall: Callable[[], float] = time.time) -> None:
        self._client = OwnClient(clients)
        self._wall = wall
        self._lock = threading.Lock()
        self._expected: dict[TopicPartition, tuple[int, ...]] = {}
        """The moves that were seen or begun, with the replicas that they lead to."""
        self._cancelled: set[TopicPartition] = set()
        self._doubts: dict[TopicPartition, int] = {}
        self._ended: deque[dict[str, Any]] = deque(maxlen=ENDED_KEPT)
        self._sight = Paced(lambda: look(self._client.get()), lambda: period(2.0, self._partitions, 100))
        self._partitions = 0
        self._found: Sight | None = None
        self._rows: list[dict[str, Any]] = []
        self._moving = 0
        self.error: str | None = None

    def close(self) -> None:
        self._client.close()

    def expect(self, targets: Mapping[TopicPartition, Sequence[int]]) -> None:
        """These were begun just now: they may have ended before the next look."""
        with self._lock:
            self._expected.update({tp: tuple(replicas) for tp, replicas in targets.items()})

    def note_cancelled(self, partitions: Iterable[TopicPartition]) -> None:
        with self._lock:
            self._cancelled.update(partitions)

    def ask(self) -> None:
        """A failure is shown, and the last answers stay."""
        try:
            with self._lock:
                expected = dict(self._expected)
            moving = Admin(self._client.get()).list_reassignments()
            self._look_at(moving, expected)
            self._found = self._sight.value()
            self._partitions = len(self._found.partitions)
            self.error = None
        except (KafkaError, ClientFailure) as failure:
            self.error = str(failure)

    def _look_at(
        self, moving: Mapping[TopicPartition, OngoingPartitionReassignment], expected: Mapping[TopicPartition, Any]
    ) -> None:
        shown = sorted(moving)[:MOVES_SHOWN]
        ended = sorted(set(expected) - set(moving))
        described = described_partitions(self._client.get(), {tp.topic for tp in (*shown, *ended)})
        sizes = self._sizes({tp: moving[tp] for tp in shown})
        self._rows = [move_row(tp, moving[tp], described.get(tp), sizes) for tp in shown]
        self._moving = len(moving)
        known = [tp for tp in ended if self._is_known_to_end(tp, described.get(tp), expected[tp])]
        with self._lock:
            for tp in known:
                self._expected.pop(tp, None)
            self._expected.update({tp: target_of(row) for tp, row in moving.items()})

    def _is_known_to_end(self, tp: TopicPartition, part: PartitionDescription | None, target: tuple[int, ...]) -> bool:
        is_finished = part is not None and tuple(part.replica_nodes) == target
        is_cancelled = tp in self._cancelled and not is_finished
        self._doubts[tp] = self._doubts.get(tp, 0) + 1
        if not is_finished and not is_cancelled and self._doubts[tp] < LOOKS:
            return False
        del self._doubts[tp]
        self._cancelled.discard(tp)
        now = None if part is None else list(part.replica_nodes)
        at = str(int(self._wall() * 1000))
        how = "finished" if is_finished else "cancelled" if is_cancelled else "changed"
        self._ended.appendleft({**_name(tp), "how": how, "replicas": now, "at": at})
        return True

    def _sizes(self, moving: Mapping[TopicPartition, OngoingPartitionReassignment]) -> Sizes:
        wanted: dict[int, list[TopicPartition]] = {}
        for tp, row in moving.items():
            for broker in row.replicas:
                wanted.setdefault(broker, []).append(tp)
        found = {}
        for broker, places in wanted.items():
            try:
                found[broker] = directories(self._client.get(), broker, places).replicas
            except (KafkaError, ClientFailure):
                continue  # a broker that is down holds its moves up, and has nothing to say
        return found

    def view(self, running: dict[str, Any] | None, source: str) -> dict[str, Any]:
        sight = self._found
        return {
            "source": source,
            "brokers": [] if sight is None else broker_rows(sight),
            "astray": 0 if sight is None else sight.astray,
            "moves": self._rows,
            "moving": self._moving,
            "ended": list(self._ended),
            "running": running,
            "error": self.error,
        }


def target_of(row: OngoingPartitionReassignment) -> tuple[int, ...]:
    return tuple(each for each in row.replicas if each not in row.removing_replicas)


def described_partitions(client: Client, topics: set[str]) -> dict[TopicPartition, PartitionDescription]:
    """Topics that are gone are left out."""
    found = {}
    for topic in sorted(topics):
        try:
            (description,) = describe_topics(client, [topic])
        except KafkaError as error:
            if error.code is not Code.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            continue
        for row in description.partitions:
            found[TopicPartition(topic, row.partition_index)] = row
    return found


def move_row(
    tp: TopicPartition, row: OngoingPartitionReassignment, part: PartitionDescription | None, sizes: Sizes
) -> dict[str, Any]:
    """A new replica is measured in bytes against the fullest one that was there before."""
    old = [each for each in row.replicas if each not in row.adding_replicas]
    whole = max((sizes[each][tp].size for each in old if tp in sizes.get(each, {})), default=None)
    isr = () if part is None else part.isr_nodes
    adding = []
    for node in row.adding_replicas:
        log = sizes.get(node, {}).get(tp)
        adding.append(
            {
                "node": node,
                "bytes": None if log is None else str(log.size),
                "in_isr": node in isr,
                "share": 1.0 if node in isr else share_of(None if log is None else log.size, whole),
            }
        )
    return {
        **_name(tp),
        "target": list(target_of(row)),
        "adding": adding,
        "removing": list(row.removing_replicas),
        "leader": -1 if part is None else part.leader_id,
        "bytes": None if whole is None else str(whole),
    }


def share_of(size: int | None, whole: int | None) -> float | None:
    """None if one of them is unknown. It is complete only when the replica is in sync, which the ISR says."""
    if size is None or whole is None:
        return None
    return min(size / whole, 0.999) if whole else 0.0


def broker_rows(sight: Sight) -> list[dict[str, Any]]:
    rows = []
    for place in sorted(sight.places, key=lambda each: each.id):
        holds = [held for held in sight.partitions.values() if place.id in held.replicas]
        known = [each for each in sight.directories.get(place.id, []) if each.error is Code.NONE]
        rows.append(
            {
                "id": place.id,
                "rack": place.rack,
                "leads": sum(leader == place.id for leader in sight.leaders.values()),
                "preferred": sum(held.replicas[:1] == (NodeId(place.id),) for held in holds),
                "replicas": len(holds),
                "bytes": str(sum(sum(each.sizes.values()) for each in known)),
            }
        )
    return rows


def _name(tp: TopicPartition) -> dict[str, Any]:
    return {"topic": tp.topic, "partition": tp.partition}
