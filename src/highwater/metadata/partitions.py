"""The state of one partition: its replicas, its leader, its ISR and its ELR."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

from highwater.metadata.brokers import DIRECTORY_MIGRATING
from highwater.metadata.draft import Inconsistent
from highwater.model import NO_NODE, NodeId, Uuid
from highwater.wire.messages.partition_change_record import PartitionChangeRecord
from highwater.wire.messages.partition_record import PartitionRecord

LEADER_UNCHANGED = -2
RECOVERY_UNCHANGED = -1


class Recovery(IntEnum):
    """Whether the leader is still recovering from an unclean election."""

    RECOVERED = 0
    RECOVERING = 1


class PartitionImage(NamedTuple):
    replicas: tuple[NodeId, ...]
    directories: tuple[Uuid, ...]
    isr: tuple[NodeId, ...]
    leader: NodeId
    leader_epoch: int
    partition_epoch: int
    recovery: Recovery = Recovery.RECOVERED
    elr: tuple[NodeId, ...] = ()
    last_known_elr: tuple[NodeId, ...] = ()
    removing: tuple[NodeId, ...] = ()
    adding: tuple[NodeId, ...] = ()

    @classmethod
    def of_record(cls, record: PartitionRecord) -> PartitionImage:
        replicas = nodes(record.replicas)
        return cls(
            replicas=replicas,
            directories=_directories(record.directories, replicas),
            isr=nodes(record.isr),
            leader=NodeId(record.leader),
            leader_epoch=record.leader_epoch,
            partition_epoch=record.partition_epoch,
            recovery=_recovery(record.leader_recovery_state),
            elr=nodes(record.eligible_leader_replicas),
            last_known_elr=nodes(record.last_known_elr),
            removing=nodes(record.removing_replicas),
            adding=nodes(record.adding_replicas),
        )

    def changed_by(self, record: PartitionChangeRecord) -> PartitionImage:
        """Every change raises the partition epoch. A change that names a leader, even the same one, also raises the
        leader epoch."""
        replicas = self.replicas if record.replicas is None else nodes(record.replicas)
        keeps_leader = record.leader == LEADER_UNCHANGED
        keeps_recovery = record.leader_recovery_state == RECOVERY_UNCHANGED
        return PartitionImage(
            replicas=replicas,
            directories=_directories(self.directories if record.directories is None else record.directories, replicas),
            isr=self.isr if record.isr is None else nodes(record.isr),
            leader=self.leader if keeps_leader else NodeId(record.leader),
            leader_epoch=self.leader_epoch if keeps_leader else self.leader_epoch + 1,
            partition_epoch=self.partition_epoch + 1,
            recovery=self.recovery if keeps_recovery else _recovery(record.leader_recovery_state),
            elr=self.elr if record.eligible_leader_replicas is None else nodes(record.eligible_leader_replicas),
            last_known_elr=self.last_known_elr if record.last_known_elr is None else nodes(record.last_known_elr),
            removing=self.removing if record.removing_replicas is None else nodes(record.removing_replicas),
            adding=self.adding if record.adding_replicas is None else nodes(record.adding_replicas),
        )

    def to_record(self, topic_id: Uuid, index: int) -> PartitionRecord:
        return PartitionRecord(
            partition_id=index,
            topic_id=topic_id,
            replicas=list(self.replicas),
            isr=list(self.isr),
            removing_replicas=list(self.removing),
            adding_replicas=list(self.adding),
            leader=self.leader,
            leader_recovery_state=int(self.recovery),
            leader_epoch=self.leader_epoch,
            partition_epoch=self.partition_epoch,
            directories=list(self.directories),
            eligible_leader_replicas=list(self.elr) or None,
            last_known_elr=list(self.last_known_elr) or None,
        )

    @property
    def has_leader(self) -> bool:
        return self.leader != NO_NODE

    @property
    def has_preferred_leader(self) -> bool:
        return self.leader in self.replicas[:1]

    def directory(self, replica: NodeId) -> Uuid:
        return self.directories[self.replicas.index(replica)]


def nodes(ids: Sequence[int] | None) -> tuple[NodeId, ...]:
    """Null means none: records that are older than the field have it."""
    return tuple(NodeId(i) for i in ids or ())


def _directories(directories: Sequence[Uuid], replicas: tuple[NodeId, ...]) -> tuple[Uuid, ...]:
    """Records from before KIP-858 have no directories."""
    if all(directory == DIRECTORY_MIGRATING for directory in directories):
        return (DIRECTORY_MIGRATING,) * len(replicas)
    if len(directories) != len(replicas):
        raise Inconsistent(f"{len(directories)} directories for {len(replicas)} replicas")
    return tuple(directories)


def _recovery(state: int) -> Recovery:
    try:
        return Recovery(state)
    except ValueError:
        raise Inconsistent(f"unknown leader recovery state {state}") from None
