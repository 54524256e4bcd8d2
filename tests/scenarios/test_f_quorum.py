"""No request of a stranger makes a controller's own files useless to it."""

from __future__ import annotations

import pytest

from highwater.errors import Code
from highwater.wire.messages import vote_request as v
from highwater.wire.messages.vote_response import VoteResponse
from tests.scenarios.stage import ORDERS, Stage


@pytest.mark.parametrize("epoch", [2**31 - 1, 2**31 - 2, 2**30])
def test_a_vote_of_a_stranger_in_the_last_epoch_leaves_the_controller_as_it_is(epoch: int) -> None:
    with Stage(3, voters=3) as stage:
        partition = v.PartitionData(partition_index=0, replica_epoch=epoch, replica_id=77)
        topic = v.TopicData(topic_name="__cluster_metadata", partitions=[partition])
        for name in stage.cluster.names:
            at = stage.member(name).controller
            asked = stage.client.client.ask(at, v.VoteRequest(topics=[topic]), VoteResponse, 20.0, highest=0)
            assert stage.run(asked).topics[0].partitions[0].error_code == Code.INVALID_REQUEST
        stage.pass_time(5)
        for _ in range(2):
            stage.kill(*stage.cluster.names)
            stage.start(*stage.cluster.names)
        stage.create(ORDERS, replicas=(1, 2))
        stage.send(b"one")
