"""Ask the leader where its log begins and ends. A follower does so when its own log end is outside of that log."""

from __future__ import annotations

from collections.abc import Callable

from highwater.model import NodeId, Offset
from highwater.net.client import CallFailed, ClientConnection
from highwater.partition.partition import Partition
from highwater.replication.follower import Ends
from highwater.wire.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from highwater.wire.messages.list_offsets_response import ListOffsetsResponse

EARLIEST, LATEST = -2, -1


def ask_for_ends(
    connection: ClientConnection,
    partition: Partition,
    local: NodeId,
    timeout: float,
    done: Callable[[Ends | None], None],
) -> None:
    """Calls `done` once: with both ends, or with None if the leader did not give one of them."""
    found: dict[int, Offset | None] = {}

    def answered(when: int, answer: ListOffsetsResponse | CallFailed) -> None:
        rows = [] if isinstance(answer, CallFailed) else [row for topic in answer.topics for row in topic.partitions]
        found[when] = rows[0].offset if len(rows) == 1 and not rows[0].error_code else None
        if len(found) == 2:
            start, end = found[EARLIEST], found[LATEST]
            done(None if start is None or end is None else Ends(start, end))

    version = connection.pick(ListOffsetsRequest.API_KEY, ListOffsetsRequest.VERSIONS) or 1
    for when in (EARLIEST, LATEST):
        connection.send(
            _question(partition, when, local),
            version,
            ListOffsetsResponse,
            lambda answer, when=when: answered(when, answer),  # type: ignore[misc]
            timeout,
        )


def _question(partition: Partition, when: int, local: NodeId) -> ListOffsetsRequest:
    tp = partition.tp
    asked = ListOffsetsPartition(partition_index=tp.partition, current_leader_epoch=partition.epoch, timestamp=when)
    return ListOffsetsRequest(replica_id=local, topics=[ListOffsetsTopic(name=tp.topic, partitions=[asked])])
