"""The leader and the ISR of a partition when brokers come and go (KIP-631; KIP-966 where ELR is on)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum, auto
from typing import Any, NamedTuple

from highwater.config import NodeConfig
from highwater.controller.reassignment import Assignment, assignment_of, changes_of, completed
from highwater.controller.settings import ElectionRules, election_rules
from highwater.metadata.brokers import DIRECTORY_LOST, DIRECTORY_UNASSIGNED
from highwater.metadata.cluster import MetadataImage
from highwater.metadata.topics import PartitionImage, Place, Recovery, TopicImage
from highwater.model import NO_NODE, NodeId, Uuid
from highwater.wire.codec import Message
from highwater.wire.messages.partition_change_record import PartitionChangeRecord

Acceptable = Callable[[NodeId], bool]


class Election(Enum):
    ONLINE = auto()
    """From the ISR, or from the ELR if the ISR is empty."""
    UNCLEAN = auto()
    """Any live replica if the ISR and the ELR have none. Records that only other replicas had are lost."""
    PREFERRED = auto()
    """As ONLINE, but the preferred replica goes before the current leader."""


class Winner(NamedTuple):
    leader: NodeId
    unclean: bool = False


NOBODY = Winner(NO_NODE)


def elect(
    partition: PartitionImage,
    replicas: Sequence[NodeId],
    isr: Sequence[NodeId],
    elr: Sequence[NodeId],
    acceptable: Acceptable,
    election: Election,
    elr_enabled: bool = False,
) -> Winner:
    """The leader of a partition that will have these replicas, this ISR and this ELR."""

    def valid(replica: NodeId) -> bool:
        return (replica in isr or (not isr and replica in elr)) and acceptable(replica)

    order = (partition.leader, *replicas)
    if election is Election.PREFERRED:
        order = (*replicas[:1], *order)
    for replica in order:
        if valid(replica):
            return Winner(replica)
    if elr_enabled and not isr and not elr and len(partition.last_known_elr) == 1:
        last_leader = partition.last_known_elr[0]
        if last_leader in replicas and acceptable(last_leader):
            return Winner(last_leader, unclean=True)
    if election is Election.UNCLEAN:
        # A replica that is being added may have nothing yet, so it comes last.
        by_age = sorted(replicas, key=lambda replica: replica in partition.adding)
        return next((Winner(replica, True) for replica in by_age if acceptable(replica)), NOBODY)
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
    recovery: Recovery | None = None,
    target: Assignment | None = None,
    new_directory: Callable[[NodeId], Uuid] = lambda replica: DIRECTORY_UNASSIGNED,
) -> PartitionChangeRecord | None:
    """The record that gives a partition this ISR, and the `target` assignment if there is one, and everything that
    follows from it: the end of a reassignment, the ELR, the leader. None if nothing changes.

    Without ELR the last member never leaves the ISR: only that member is known to have everything.
    """
    wanted = assignment_of(partition) if target is None else target
    if (done := completed(wanted, isr)) is not None:
        wanted, isr = Assignment(done[0]), done[1]
    replicas = wanted.replicas
    changed: dict[str, Any] = {}
    elr = _eligible(partition, replicas, isr, rules, unclean_shutdown)
    winner = elect(partition, replicas, isr, elr, acceptable, election, rules.elr)
    if winner.leader != partition.leader:
        changed["leader"] = winner.leader
        if winner.leader in elr:
            isr, elr = [winner.leader], [replica for replica in elr if replica != winner.leader]
            if len(isr) >= rules.bound(len(replicas)):
                elr = []  # the bound is lower now: this leader commits records that the ELR lacks
        if winner.unclean:
            isr, elr = [winner.leader], []
            if partition.recovery is not Recovery.RECOVERING:
                changed["leader_recovery_state"] = int(Recovery.RECOVERING)
        if (done := completed(wanted, isr)) is not None:  # with the winner's ISR; perhaps no later change comes
            wanted = Assignment(done[0])
            elr = [replica for replica in elr if replica in wanted.replicas]
    elif not set(partition.replicas) <= set(replicas):
        # The leader is named though it stays. That raises the leader epoch, which excludes the removed replicas.
        changed["leader"] = partition.leader
    changed |= changes_of(partition, wanted, new_directory)
    last_known = _last_known(partition, replicas, winner.leader) if rules.elr and "leader" in changed else None
    if last_known is not None and last_known != partition.last_known_elr:
        changed["last_known_elr"] = list(last_known)
    if tuple(elr) != partition.elr:
        changed["eligible_leader_replicas"] = elr
    if tuple(isr) != partition.isr and (isr or rules.elr):
        changed["isr"] = list(isr)
    if recovery is not None and recovery is not partition.recovery:
        changed["leader_recovery_state"] = int(recovery)
    return PartitionChangeRecord(topic_id=topic_id, partition_id=index, **changed) if changed else None


def _last_known(partition: PartitionImage, replicas: Sequence[NodeId], leader: NodeId) -> tuple[NodeId, ...]:
    """The last leader is remembered while there is none, as long as it is a replica. A change that removes a replica
    always names the leader."""
    if leader != NO_NODE:
        return ()
    remembered = partition.last_known_elr or ((partition.leader,) if partition.has_leader else ())
    return tuple(replica for replica in remembered if replica in replicas)


def _eligible(
    partition: PartitionImage,
    replicas: Sequence[NodeId],
    isr: Sequence[NodeId],
    rules: ElectionRules,
    unclean_shutdown: NodeId,
) -> list[NodeId]:
    """The ELR. While the ISR is smaller than min.insync.replicas, nothing is committed. So a replica that left the ISR
    still has every committed record, unless it stopped uncleanly."""
    if not rules.elr or len(isr) >= rules.bound(len(replicas)):
        return []
    candidates = sorted({*partition.elr, *partition.isr})
    return [r for r in candidates if r in replicas and r not in isr and r != unclean_shutdown]


def with_isr_member(head: MetadataImage, broker: NodeId) -> Iterator[Place]:
    return (place for place in head.topics.hosted_by(broker) if broker in place[2].isr)


def with_elr_member(head: MetadataImage, broker: NodeId) -> Iterator[Place]:
    return (place for place in head.topics.hosted_by(broker) if broker in place[2].elr)


def leaderless(head: MetadataImage) -> Iterator[Place]:
    return (place for place in head.topics.astray() if not place[2].has_leader)


def in_directory(head: MetadataImage, broker: NodeId, directory: Uuid) -> Iterator[Place]:
    return (place for place in head.topics.hosted_by(broker) if place[2].directory(broker) == directory)


def leads_any(head: MetadataImage, broker: NodeId) -> bool:
    return any(partition.leader == broker for _, _, partition in head.topics.hosted_by(broker))


class Electorate:
    """The brokers that may lead, and the rules of election for each topic: computed once for a whole decision."""

    __slots__ = ("_config", "_head", "_present", "_rules")

    def __init__(
        self, head: MetadataImage, config: NodeConfig, *, gone: Sequence[NodeId] = (), returning: NodeId = NO_NODE
    ) -> None:
        self._head = head
        self._config = config
        self._present = {
            broker.id: broker
            for broker in head.brokers.by_id.values()
            if (broker.active or broker.id == returning) and broker.id not in gone
        }
        self._rules: dict[Uuid, ElectionRules] = {}

    def rules(self, topic: TopicImage) -> ElectionRules:
        rules = self._rules.get(topic.id)
        if rules is None:
            rules = self._rules[topic.id] = election_rules(self._head, topic, self._config)
        return rules

    def acceptable(self, partition: PartitionImage) -> Acceptable:
        """A replica is acceptable if its broker is present and its directory is online."""

        def acceptable(replica: NodeId) -> bool:
            broker = self._present.get(replica)
            if broker is None or replica not in partition.replicas:  # a replica that is only about to be added
                return False
            return broker.has_online(partition.directory(replica))

        return acceptable

    def change(
        self,
        place: Place,
        isr: Sequence[NodeId],
        election: Election | None = None,
        unclean_shutdown: NodeId = NO_NODE,
        recovery: Recovery | None = None,
        target: Assignment | None = None,
    ) -> PartitionChangeRecord | None:
        """As `partition_change`. Without `election`, the topic's settings decide whether an unclean one is allowed."""
        topic, index, partition = place
        rules = self.rules(topic)
        if election is None:
            election = Election.UNCLEAN if rules.unclean else Election.ONLINE
        return partition_change(
            topic.id,
            index,
            partition,
            isr,
            self.acceptable(partition),
            rules,
            election,
            unclean_shutdown,
            recovery,
            target,
            self._head.brokers.default_directory,
        )

    def begin_anew(self, place: Place) -> PartitionChangeRecord | None:
        """Elects a leader for a partition if all its replicas have lost their logs: the first one with a present
        broker, with an empty log. Only for an operator's request, because all records of the partition are given up."""
        topic, index, partition = place
        broker = next((self._present[each] for each in partition.replicas if each in self._present), None)
        if broker is None or any(partition.directory(each) != DIRECTORY_LOST for each in partition.replicas):
            return None
        home = {broker.id: broker.default_directory}
        return PartitionChangeRecord(
            topic_id=topic.id,
            partition_id=index,
            leader=broker.id,
            isr=[broker.id],
            directories=[home.get(each, partition.directory(each)) for each in partition.replicas],
            leader_recovery_state=int(Recovery.RECOVERING),
            eligible_leader_replicas=[] if partition.elr else None,
            last_known_elr=[] if partition.last_known_elr else None,
        )


def reelect(
    head: MetadataImage,
    config: NodeConfig,
    places: Iterable[Place],
    *,
    leaving: NodeId = NO_NODE,
    returning: NodeId = NO_NODE,
    unclean_shutdown: NodeId = NO_NODE,
    silent: Sequence[NodeId] = (),
) -> Iterator[Message]:
    """The changes of `places` when `leaving` or `unclean_shutdown` goes or `returning` comes back. No broker of
    `silent` is elected."""
    gone = (leaving, unclean_shutdown)
    electorate = Electorate(head, config, gone=(*gone, *silent), returning=returning)
    for place in places:
        isr = [replica for replica in place[2].isr if replica not in gone]
        record = electorate.change(place, isr, unclean_shutdown=unclean_shutdown)
        if record is not None:
            yield record
