"""A follower asks where its leader's log begins and ends, and gets an answer, whatever the leader says."""

from __future__ import annotations

from asyncio import BufferedProtocol

import pytest

from highwater.model import Endpoint, NodeId
from highwater.net.client import ClientConnection, Gone
from highwater.net.deadlines import DeadlineQueue
from highwater.partition.leader_ends import ask_for_ends
from highwater.replication.follower import Ends
from highwater.wire.messages.api_versions_request import ApiVersionsRequest
from highwater.wire.messages.api_versions_response import ApiVersion, ApiVersionsResponse
from highwater.wire.messages.list_offsets_request import ListOffsetsRequest
from highwater.wire.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from tests.unit.coordinator.stage import Stage
from tests.unit.net.parties import Peer, framed

LEADER = Endpoint("leader", 9092)
VERSION = 5


def offsets_response(*offsets: int, code: int = 0) -> ListOffsetsResponse:
    rows = [ListOffsetsPartitionResponse(partition_index=0, offset=offset, error_code=code) for offset in offsets]
    return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="orders", partitions=rows)])


NOTHING = ListOffsetsResponse()


class Leader(Peer):
    """Answers ListOffsets with what it is given, one after the other."""

    def __init__(self, answers: list[ListOffsetsResponse]) -> None:
        super().__init__()
        self.answers = answers
        self.heard = 0

    def buffer_updated(self, nbytes: int) -> None:
        super().buffer_updated(nbytes)
        for frame in self.frames[self.heard :]:
            self.heard += 1
            if int.from_bytes(frame[:2], "big") == ApiVersionsRequest.API_KEY:
                known = ApiVersion(api_key=ListOffsetsRequest.API_KEY, min_version=VERSION, max_version=VERSION)
                body = ApiVersionsResponse(api_keys=[known]).encode(int.from_bytes(frame[2:4], "big"))
            else:
                body = self.answers.pop(0).encode(VERSION)
            self.send(framed(frame[4:8] + body))


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ([offsets_response(3), offsets_response(9)], Ends(3, 9)),
        ([offsets_response(3), offsets_response(9, code=6)], None),
        ([NOTHING, offsets_response(9)], None),
        ([offsets_response(3), NOTHING], None),
        ([offsets_response(3), offsets_response()], None),
        ([offsets_response(3), offsets_response(9, 10)], None),
    ],
)
def test_the_ends_of_the_leaders_log_are_used_only_if_both_are_answered(
    answers: list[ListOffsetsResponse], expected: Ends | None
) -> None:
    with Stage() as stage:
        leader = stage.sim.world(LEADER.host)

        def accept() -> BufferedProtocol:
            return Leader(answers)

        stage.sim.run(leader.perform(leader.net.listen(accept, LEADER)))
        found: list[Ends | None] = []
        ended: list[Gone] = []

        async def ask() -> None:
            deadlines = DeadlineQueue(stage.world.clock)
            connection = ClientConnection(stage.world, LEADER, "follower", deadlines, ended.append)
            connection.open(
                lambda: ask_for_ends(connection, stage.partition, NodeId(2), 5.0, found.append), timeout=5.0
            )

        stage.sim.run(stage.world.perform(ask()))
        stage.sim.advance(10)
        assert (found, ended) == ([expected], [])
