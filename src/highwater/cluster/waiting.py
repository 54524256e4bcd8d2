"""Explains why there is no quorum yet: which nodes wait for which addresses."""

from __future__ import annotations

from collections.abc import Sequence

from highwater.client.connection import Connection
from highwater.client.failures import ClientFailure
from highwater.cluster.layout import NodeLayout
from highwater.errors import Code, KafkaError, code_of
from highwater.model import METADATA_TOPIC, Endpoint
from highwater.storage.recorded_voters import recorded_voters
from highwater.wire.messages.describe_quorum_request import DescribeQuorumRequest, PartitionData, TopicData
from highwater.wire.messages.describe_quorum_response import DescribeQuorumResponse
from highwater.world.real_disk import RealDisk

ANSWER_SECONDS = 1.0


def waits_for(members: Sequence[NodeLayout]) -> list[str]:
    """One line for each of these nodes that waits for others, or for itself; empty if the quorum has a leader. A node
    connects to the voters that its own directory names."""
    lines: list[str] = []
    starting: list[str] = []
    for member in members:
        recorded = recorded_voters(RealDisk(), member.log_dir)
        absent = []
        for voter in () if recorded is None else recorded.voters.nodes:
            try:
                if _leads(Endpoint(*voter.listeners[0][1:])):
                    return []
            except (ClientFailure, KafkaError) as failed:
                if voter.key.id == member.id:
                    starting.append(f"voter {member.id} does not answer: {_plainly(failed)}")
                else:
                    absent.append(f"voter {voter.key.id}: {_plainly(failed)}")
        if absent:
            lines.append(f"node {member.id} waits for {'; '.join(absent)}")
    return lines or starting or ["every voter answers, and none leads yet"]


def _plainly(failed: ClientFailure | KafkaError) -> str:
    """Without the client's advice on security: the listeners of a local cluster have none."""
    return str(failed).partition("; if its listener is an encrypted one")[0]


def _leads(at: Endpoint) -> bool:
    """Whether the voter at this address leads. Raises ClientFailure if none answers."""
    asked = TopicData(topic_name=METADATA_TOPIC, partitions=[PartitionData(partition_index=0)])
    connection = Connection(at, timeout=ANSWER_SECONDS, dial_timeout=ANSWER_SECONDS)
    try:
        answer = connection.request(DescribeQuorumRequest(topics=[asked]), DescribeQuorumResponse)
    finally:
        connection.close()
    partitions = [partition for topic in answer.topics for partition in topic.partitions]
    return any(code_of(partition.error_code) is Code.NONE for partition in partitions)
