"""Who leads a partition when brokers come and go, and who stays in its ISR (KIP-631; KIP-966 where ELR is on)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum, auto
from typing import Any, NamedTuple

from highwater.config import NodeConfig
from highwater.controller.settings import ElectionRules, election_rules
from highwater.metadata.brokers import BrokerRegistration
from highwater.metadata.cluster import MetadataImage
from highwater.metadata.topics import PartitionImage, Recovery, TopicImage
from highwater.model import NO_NODE, NodeId, Uuid
from highwater.wire.codec import Message
from highwater.wire.messages.partition_change_record import PartitionChangeRecord

Acceptable = Callable[[NodeId], bool]
Place = tuple[TopicImage, int, PartitionImage]


class Election(Enum):
    ONLINE = auto()
    """From the ISR, or from the ELR where the ISR is empty."""
    UNCLEAN = auto()
    """Any live replica if there is none of those; what only the others had is lost."""
    PREFERRED = auto()
    """As ONLINE, but the first replica before the current leader."""


class Winner(NamedTuple):
    leader: NodeId
    unclean: bool = False


NOBODY = Winner(NO_NODE)


def elect(
    partition: PartitionImage,
    isr: Sequence[NodeId],
    elr: Sequence[NodeId],
    acceptable: Acceptable,
    election: Election,
    elr_enabled: bool = False,
) -> Winner:
    """The leader of a partition that is to have this ISR and ELR."""

    def valid(replica: NodeId) -> bool:
        return (replica in isr or (not isr and replica in elr)) and acceptable(replica)

    order = (partition.leader, *partition.replicas)
    if election is Election.PREFERRED:
        order = (*partition.replicas[:1], *order)
    for replica in order:
        if valid(replica):
            return Winner(replica)
    if elr_enabled and not isr and not elr and len(partition.last_known_elr) == 1:
        last_leader = partition.last_known_elr[0]
        if last_leader in partition.replicas and acceptable(last_leader):
            return Winner(last_leader, unclean=True)
    if election is Election.UNCLEAN:
        return next((Winner(replica, True) for replica in partition.replicas if acceptable(replica)), NOBODY)
    return NOBODY


def partition_change(
    topic_id: Uuid,
    index: int,
    partition: PartitionImage,
    isr: Sequence[NodeId],
    acceptable: Acceptable,
    rules: ElectionRules,
    election: Election = Election.ONLINE,
    unclean_shutdown: NodeId = NO_NODE,
) -> PartitionChangeRecord | None:
    """The record that gives a partition this ISR and whatever leader follows from it; None if nothing changes.

    Without ELR the last member never leaves the ISR: it alone is known to have everything.
    """
    changed: dict[str, Any] = {}
    elr = _eligible(partition, isr, rules, unclean_shutdown)
    winner = elect(partition, isr, elr, acceptable, election, rules.elr)
    if winner.leader != partition.leader:
        changed["leader"] = winner.leader
        if winner.leader in elr:
            isr, elr = [winner.leader], [replica for replica in elr if replica != winner.leader]
        if winner.unclean:
            isr, elr = [winner.leader], []
            if partition.recovery is not Recovery.RECOVERING:
                changed["leader_recovery_state"] = int(Recovery.RECOVERING)
        if rules.elr and (winner.leader == NO_NODE) != bool(partition.last_known_elr):
            # Whoever led last is remembered while nobody does.
            changed["last_known_elr"] = [partition.leader] if winner.leader == NO_NODE else []
    if tuple(elr) != partition.elr:
        changed["eligible_leader_replicas"] = elr
    if tuple(isr) != partition.isr and (isr or rules.elr):
        changed["isr"] = list(isr)
    return PartitionChangeRecord(topic_id=topic_id, partition_id=index, **changed) if changed else None


def _eligible(
    partition: PartitionImage, isr: Sequence[NodeId], rules: ElectionRules, unclean_shutdown: NodeId
) -> list[NodeId]:
    """While the ISR is smaller than min.insync.replicas, who left it still has all that was ever committed, unless
    it stopped without syncing."""
    if not rules.elr or len(isr) >= rules.min_isr:
        return []
    candidates = sorted({*partition.elr, *partition.isr})
    return [replica for replica in candidates if replica not in isr and replica != unclean_shutdown]


def with_isr_member(head: MetadataImage, broker: NodeId) -> Iterator[Place]:
    return (place for place in head.topics.each_partition() if broker in place[2].isr)


def with_elr_member(head: MetadataImage, broker: NodeId) -> Iterator[Place]:
    return (place for place in head.topics.each_partition() if broker in place[2].elr)


def leaderless(head: MetadataImage) -> Iterator[Place]:
    return (place for place in head.topics.each_partition() if not place[2].has_leader)


def in_directory(head: MetadataImage, broker: NodeId, directory: Uuid) -> Iterator[Place]:
    for place in head.topics.each_partition():
        partition = place[2]
        if broker in partition.replicas and partition.directory(broker) == directory:
            yield place


def leads_any(head: MetadataImage, broker: NodeId) -> bool:
    return any(partition.leader == broker for _, _, partition in head.topics.each_partition())


def reelect(
    head: MetadataImage,
    config: NodeConfig,
    places: Iterable[Place],
    *,
    leaving: NodeId = NO_NODE,
    returning: NodeId = NO_NODE,
    unclean_shutdown: NodeId = NO_NODE,
) -> list[Message]:
    """Leaders and ISRs of `places` once `leaving` or `unclean_shutdown` is gone, or `returning` is back."""
    gone = (leaving, unclean_shutdown)
    present = {
        broker.id: broker
        for broker in head.brokers.by_id.values()
        if (broker.active or broker.id == returning) and broker.id not in gone
    }
    records: list[Message] = []
    known: dict[Uuid, ElectionRules] = {}
    for topic, index, partition in places:
        rules = known.get(topic.id)
        if rules is None:
            rules = known[topic.id] = election_rules(head, topic, config)
        record = partition_change(
            topic.id,
            index,
            partition,
            [replica for replica in partition.isr if replica not in gone],
            _acceptable(partition, present),
            rules,
            Election.UNCLEAN if rules.unclean else Election.ONLINE,
            unclean_shutdown,
        )
        if record is not None:
            records.append(record)
    return records


def _acceptable(partition: PartitionImage, present: Mapping[NodeId, BrokerRegistration]) -> Acceptable:
    """Present, with the directory of its replica online."""

    def acceptable(replica: NodeId) -> bool:
        broker = present.get(replica)
        return broker is not None and broker.has_online(partition.directory(replica))

    return acceptable
