"""Elections on request (ElectLeaders, KIP-460), and those that the controller holds by itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from enum import IntEnum
from itertools import islice
from typing import Final

from highwater.config import (
    AUTO_LEADER_REBALANCE_ENABLE,
    LEADER_IMBALANCE_CHECK_INTERVAL_SECONDS,
    LEADER_IMBALANCE_PER_BROKER_PERCENTAGE,
    UNCLEAN_LEADER_ELECTION_INTERVAL_MS,
    NodeConfig,
)
from highwater.controller.decision import MAX_RECORDS, Deciding, Decision, error_message
from highwater.controller.elections import Election, Electorate, leaderless
from highwater.errors import Code, KafkaError
from highwater.metadata.cluster import MetadataImage
from highwater.metadata.names import MAX_LENGTH
from highwater.metadata.pieces import PIECE
from highwater.metadata.topics import PartitionImage
from highwater.model import NodeId
from highwater.wire.codec import Message
from highwater.wire.messages.elect_leaders_request import ElectLeadersRequest
from highwater.wire.messages.elect_leaders_response import ElectLeadersResponse, PartitionResult, ReplicaElectionResult

MAX_ELECTIONS: Final = 200
"""The most partitions that one election of the controller's own changes, about 4 ms of work. If it changed that many,
the next one follows in the next turn of the loop."""


class ElectionType(IntEnum):
    PREFERRED = 0
    UNCLEAN = 1


def refused(request: ElectLeadersRequest, code: Code, version: int = 2) -> ElectLeadersResponse:
    """The response to a refused request. Version 0 has no error code at the top level."""
    results = [
        ReplicaElectionResult(
            topic=named.topic,
            partition_result=[
                PartitionResult(partition_id=index, error_code=code, error_message=code.description)
                for index in named.partitions
            ],
        )
        for named in request.topic_partitions or ()
    ]
    return ElectLeadersResponse(error_code=code if version > 0 else 0, replica_election_results=results)


def elect_leaders(
    head: MetadataImage, request: ElectLeadersRequest, config: NodeConfig
) -> Deciding[ElectLeadersResponse]:
    """Elects leaders of the named partitions, or of all. If all are asked for, the response leaves out those that need
    no election."""
    try:
        kind = ElectionType(request.election_type)
    except ValueError:
        return Decision(refused(request, Code.INVALID_REQUEST))
    electorate = Electorate(head, config)
    records: list[Message] = []
    results = []
    seen = 0
    for name, indexes in _asked(head, request):
        result = ReplicaElectionResult(topic=name)
        for index in indexes:
            seen += 1
            if not seen % PIECE:
                yield
            outcome = PartitionResult(partition_id=index, error_message=None)
            try:
                records.append(_elected(head, name, index, kind, electorate))
            except KafkaError as error:
                if request.topic_partitions is None and error.code == Code.ELECTION_NOT_NEEDED:
                    continue
                outcome.error_code, outcome.error_message = error.code, error_message(error)
            result.partition_result.append(outcome)
        results.append(result)
        if not len(results) % PIECE:
            yield
    if len(records) > MAX_RECORDS:
        return Decision(refused(request, Code.POLICY_VIOLATION))
    why = f"a client asked for {kind.name.lower()} leaders"
    return Decision(ElectLeadersResponse(replica_election_results=results), records, why=why)


def _asked(head: MetadataImage, request: ElectLeadersRequest) -> Iterator[tuple[str, list[int]]]:
    if request.topic_partitions is None:
        for topic in head.topics.by_id.values():
            yield topic.name, sorted(topic.partitions)
    else:
        for named in request.topic_partitions:
            yield named.topic, named.partitions


def _elected(head: MetadataImage, name: str, index: int, kind: ElectionType, electorate: Electorate) -> Message:
    """Raises KafkaError."""
    topic = head.topics.by_name.get(name)
    if topic is None:
        raise KafkaError(Code.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name[:MAX_LENGTH]}")
    partition = topic.partitions.get(index)
    if partition is None:
        raise KafkaError(Code.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{index}")
    preferred = kind is ElectionType.PREFERRED
    if partition.has_preferred_leader if preferred else partition.has_leader:
        raise KafkaError(Code.ELECTION_NOT_NEEDED)
    election = Election.PREFERRED if preferred else Election.UNCLEAN
    place = (topic, index, partition)
    record = electorate.change(place, partition.isr, election)
    if record is None and not preferred:
        record = electorate.begin_anew(place)
    if record is None:
        raise KafkaError(Code.PREFERRED_LEADER_NOT_AVAILABLE if preferred else Code.ELIGIBLE_LEADERS_NOT_AVAILABLE)
    return record


def rebalance_interval(config: NodeConfig) -> float:
    """Seconds from one `rebalance` to the next."""
    return float(config.get(LEADER_IMBALANCE_CHECK_INTERVAL_SECONDS))


def unclean_interval(config: NodeConfig) -> float:
    """Seconds from one `elect_unclean` to the next."""
    return config.get(UNCLEAN_LEADER_ELECTION_INTERVAL_MS) / 1000


def rebalance(head: MetadataImage, config: NodeConfig, limit: int = MAX_ELECTIONS) -> list[Message]:
    """Moves leadership back to preferred replicas that can take it, for each broker that does not lead more than
    `leader.imbalance.per.broker.percentage` of the partitions that it should lead. Does nothing if it is switched
    off."""
    if not config.get(AUTO_LEADER_REBALANCE_ENABLE):
        return []
    tolerated = config.get(LEADER_IMBALANCE_PER_BROKER_PERCENTAGE)
    deprived = _deprived(head, tolerated) if tolerated else None
    electorate = Electorate(head, config)
    changes = (
        electorate.change(place, place[2].isr, Election.PREFERRED)
        for place in head.topics.astray()
        if not _must_stay(place[2], electorate) and (deprived is None or preferred(place[2]) in deprived)
    )
    return list(islice((record for record in changes if record is not None), limit))


def _must_stay(partition: PartitionImage, electorate: Electorate) -> bool:
    """A cheap test that skips most partitions while a broker is down: its replicas are in no ISR."""
    still = preferred(partition) not in partition.isr and not (partition.adding or partition.removing)
    return still and electorate.acceptable(partition)(partition.leader)


def candidates(partition: PartitionImage) -> tuple[NodeId, ...]:
    """The replicas from which a leader is elected if the election is not an unclean one."""
    return partition.isr or partition.elr or partition.last_known_elr


def preferred(partition: PartitionImage) -> NodeId:
    return partition.replicas[0]


def _deprived(head: MetadataImage, tolerated: int) -> set[NodeId]:
    missing = Counter(preferred(partition) for _, _, partition in head.topics.astray())

    def due(broker: NodeId) -> int:
        return sum(preferred(partition) == broker for _, _, partition in head.topics.hosted_by(broker))

    return {broker for broker, count in missing.items() if count * 100 > tolerated * due(broker)}


def elect_owed(head: MetadataImage, config: NodeConfig, limit: int = MAX_ELECTIONS) -> list[Message]:
    """Elects leaders for partitions without one, where a replica with every committed record can lead. Usually the
    change that makes a leader possible elects it. But its controller may end in between, or have no room to write."""
    electorate = Electorate(head, config)
    changes = (
        electorate.change(place, place[2].isr, Election.ONLINE)
        for place in leaderless(head)
        if any(map(electorate.acceptable(place[2]), candidates(place[2])))
    )
    return list(islice((record for record in changes if record is not None and record.leader >= 0), limit))


def elect_unclean(head: MetadataImage, config: NodeConfig, limit: int = MAX_ELECTIONS) -> list[Message]:
    """Elects leaders for partitions without one, in topics with unclean.leader.election.enable."""
    electorate = Electorate(head, config)
    changes = (
        electorate.change(place, place[2].isr, Election.UNCLEAN)
        for place in leaderless(head)
        if electorate.rules(place[0]).unclean
    )
    return list(islice((record for record in changes if record is not None), limit))
