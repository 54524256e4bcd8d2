"""The lines of the state-change log: what a decision changes, and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from highwater.metadata.brokers import FENCE, UNFENCE
from highwater.metadata.cluster import MetadataImage
from highwater.metadata.topics import PartitionImage, Recovery
from highwater.model import NO_NODE, NodeId, Uuid, uuid_text
from highwater.wire.codec import Message
from highwater.wire.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from highwater.wire.messages.partition_change_record import PartitionChangeRecord
from highwater.wire.messages.register_broker_record import RegisterBrokerRecord
from highwater.wire.messages.unregister_broker_record import UnregisterBrokerRecord

_LOGGED = (PartitionChangeRecord, BrokerRegistrationChangeRecord, RegisterBrokerRecord, UnregisterBrokerRecord)


def state_changes(before: MetadataImage, records: Sequence[Message], why: str) -> Iterator[str]:
    """One line for each broker and each partition that the records change, in their order. The reason of a partition's
    change is the change of a broker in the same records, or else `why`."""
    logged = [record for record in records if isinstance(record, _LOGGED)]
    cause = next((found for record in logged if (found := _cause(record)) is not None), None)
    changed: dict[tuple[Uuid, int], PartitionImage] = {}
    for record in logged:
        if isinstance(record, PartitionChangeRecord):
            key = record.topic_id, record.partition_id
            topic = before.topics.by_id.get(record.topic_id)
            was = changed.get(key) or (None if topic is None else topic.partitions.get(record.partition_id))
            if topic is not None and was is not None:
                now = changed[key] = was.changed_by(record)
                reason = why if cause is None else _because(cause, was)
                yield _line(f"{topic.name}-{record.partition_id}", "; ".join(partition_change(was, now)), reason)
        else:
            yield from _broker_lines(before, record, why)


def partition_change(was: PartitionImage, now: PartitionImage) -> Iterator[str]:
    """The differences between two states of a partition, the leader first."""
    if now.leader != was.leader:
        yield _elected(was, now)
    for name, old, new in (
        ("replicas", was.replicas, now.replicas),
        ("adding", was.adding, now.adding),
        ("removing", was.removing, now.removing),
        ("ISR", was.isr, now.isr),
        ("ELR", was.elr, now.elr),
        ("last known leader", was.last_known_elr, now.last_known_elr),
    ):
        if old != new:
            yield f"{name} {ids(old)} -> {ids(new)}"
    if now.leader == was.leader and now.leader_epoch != was.leader_epoch:
        yield f"leader {now.leader} stays, in epoch {now.leader_epoch}"
    for replica in now.replicas:
        if replica in was.replicas and now.directory(replica) != was.directory(replica):
            yield f"replica {replica} lies in directory {uuid_text(now.directory(replica))}"
    if now.recovery is not was.recovery and now.recovery is Recovery.RECOVERED:
        yield f"leader {now.leader} has recovered"


def unclean_elections(records: Sequence[Message]) -> int:
    """The number of records that elect a leader which may lack committed records."""
    return sum(
        isinstance(record, PartitionChangeRecord) and record.leader_recovery_state == Recovery.RECOVERING
        for record in records
    )


def _elected(was: PartitionImage, now: PartitionImage) -> str:
    if now.leader == NO_NODE:
        return f"no leader in epoch {now.leader_epoch}, no replica of ISR {ids(was.isr)} and ELR {ids(was.elr)} is left"
    elected = f"elected {now.leader} for epoch {now.leader_epoch}"
    if now.leader in was.isr:
        preferred = ", the preferred replica" if now.has_preferred_leader else ""
        return f"{elected} from the ISR{preferred}"
    if now.leader in was.elr and now.recovery is was.recovery:
        return f"{elected} from the ELR"
    had = [replica for replica in dict.fromkeys((*was.isr, *was.elr, *was.last_known_elr)) if replica != now.leader]
    if not had:
        return f"{elected}, the last leader, which did not stop cleanly: it has what its disk kept"
    return f"{elected}, uncleanly: what only {ids(had)} had is lost"


def ids(nodes: Sequence[NodeId]) -> str:
    return ",".join(str(node) for node in nodes) or "(none)"


def _cause(record: Message) -> tuple[NodeId, str] | None:
    """The broker of this record and what happened to it, if that is the reason for changes of its partitions."""
    if isinstance(record, RegisterBrokerRecord):
        return NodeId(record.broker_id), "started again"
    if isinstance(record, BrokerRegistrationChangeRecord):
        broker = NodeId(record.broker_id)
        if record.fenced == FENCE:
            return broker, "was fenced"
        if record.fenced == UNFENCE:
            return broker, "was unfenced"
        if record.in_controlled_shutdown:
            return broker, "shuts down"
    if isinstance(record, UnregisterBrokerRecord):
        return NodeId(record.broker_id), "was unregistered"
    return None


def _because(cause: tuple[NodeId, str], was: PartitionImage) -> str:
    broker, what = cause
    return f"leader {broker} {what}" if was.leader == broker else f"{broker} {what}"


def _broker_lines(
    before: MetadataImage,
    record: BrokerRegistrationChangeRecord | RegisterBrokerRecord | UnregisterBrokerRecord,
    why: str,
) -> Iterator[str]:
    subject = f"broker {record.broker_id}"
    known = before.brokers.get(record.broker_id)
    if isinstance(record, RegisterBrokerRecord):
        again = "" if known is None else f" after epoch {known.epoch}"
        yield _line(subject, f"registered with epoch {record.broker_epoch}{again}", why)
    elif isinstance(record, UnregisterBrokerRecord):
        yield _line(subject, "unregistered", why)
    elif record.fenced == FENCE:
        yield _line(subject, "fenced", why)
    elif record.fenced == UNFENCE:
        yield _line(subject, "unfenced", why)
    elif record.in_controlled_shutdown:
        yield _line(subject, "in controlled shutdown", why)


def _line(subject: str, what: str, why: str) -> str:
    return f"{subject} {what}: {why}" if why else f"{subject} {what}"
