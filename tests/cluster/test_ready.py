"""What a node that says it is ready has done by then."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from highwater.client import Admin, Client, NewTopic
from highwater.errors import Code, code_of
from highwater.wire.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from highwater.wire.messages.list_offsets_response import ListOffsetsResponse
from tests.cluster.nodes import Node, wait_until

TOPIC = "many"
PARTITIONS = 500


def answers(bootstrap: str) -> Counter[Code]:
    """To one question about each partition: no retry hides an error."""
    asked = [ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(PARTITIONS)]
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=TOPIC, partitions=asked)])
    with Client(bootstrap) as client:
        (topic,) = client.ask(request, ListOffsetsResponse).topics
    return Counter(code_of(each.error_code) for each in topic.partitions)


@pytest.mark.slow
def test_a_node_that_says_it_is_ready_leads_what_it_is_to_lead(tmp_path: Path) -> None:
    node = Node.fresh(tmp_path).start()
    try:
        with Client(node.bootstrap) as client:
            Admin(client).create_topics([NewTopic(TOPIC, partitions=PARTITIONS)])
        wait_until(lambda: answers(node.bootstrap) == {Code.NONE: PARTITIONS})
        for _ in range(3):
            node.restart()
            assert answers(node.bootstrap) == {Code.NONE: PARTITIONS}
    finally:
        node.kill()
