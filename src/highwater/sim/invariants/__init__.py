"""What must hold after every step of a cluster, even if nodes are killed, paused or cut off. Each object remembers what
it saw.

Log matching, leader completeness and the supersets come from the published specifications of Kafka's replication and of
Raft. If a name differs from the published one, that one is in brackets. The others are promises of this project. Start
with `invariant`.
"""

from highwater.sim.invariants.clients import AckedIsCommitted, ReadersNeverGoBack
from highwater.sim.invariants.invariant import Invariant, Violation
from highwater.sim.invariants.metadata import (
    BrokerEpochsRise,
    CalmIsr,
    EligibleReplicas,
    FencedNotInIsr,
    LeaderInIsr,
    PartitionEpochsRise,
)
from highwater.sim.invariants.quorum import (
    CommittedMetadataStays,
    MetadataLogMatching,
    OneActiveController,
    OneQuorumLeader,
    OneVote,
    QuorumEpochRises,
    SameImage,
)
from highwater.sim.invariants.replication import (
    FlushedIsrHoldsCommitted,
    HighWatermarkRises,
    IsrHoldsCommitted,
    LeaderComplete,
    LogMatching,
    MaximalIsr,
    OffsetsInOrder,
    OneFetcher,
    OnePartitionLeader,
    ReplicaEpochRises,
    TroubleHasACause,
)


def all_invariants() -> list[Invariant]:
    """New invariants for one run."""
    return [
        OneQuorumLeader(),
        QuorumEpochRises(),
        OneVote(),
        OneActiveController(),
        CommittedMetadataStays(),
        MetadataLogMatching(),
        SameImage(),
        PartitionEpochsRise(),
        BrokerEpochsRise(),
        LeaderInIsr(),
        CalmIsr(),
        FencedNotInIsr(),
        EligibleReplicas(),
        OnePartitionLeader(),
        ReplicaEpochRises(),
        OffsetsInOrder(),
        HighWatermarkRises(),
        IsrHoldsCommitted(),
        FlushedIsrHoldsCommitted(),
        LeaderComplete(),
        MaximalIsr(),
        LogMatching(),
        OneFetcher(),
        TroubleHasACause(),
        AckedIsCommitted(),
        ReadersNeverGoBack(),
    ]


__all__ = [
    "AckedIsCommitted",
    "BrokerEpochsRise",
    "CalmIsr",
    "CommittedMetadataStays",
    "EligibleReplicas",
    "FencedNotInIsr",
    "FlushedIsrHoldsCommitted",
    "HighWatermarkRises",
    "Invariant",
    "IsrHoldsCommitted",
    "LeaderComplete",
    "LeaderInIsr",
    "LogMatching",
    "MaximalIsr",
    "MetadataLogMatching",
    "OffsetsInOrder",
    "OneActiveController",
    "OneFetcher",
    "OnePartitionLeader",
    "OneQuorumLeader",
    "OneVote",
    "PartitionEpochsRise",
    "QuorumEpochRises",
    "ReadersNeverGoBack",
    "ReplicaEpochRises",
    "SameImage",
    "TroubleHasACause",
    "Violation",
    "all_invariants",
]
