"""Applies records to an image. Only the parts that they change are copied, each once per call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from highwater.metadata.brokers import BrokersDraft
from highwater.metadata.changes import NOTHING, Changes
from highwater.metadata.cluster import MetadataImage, Transaction
from highwater.metadata.configs import ConfigsDraft, topic_resource
from highwater.metadata.controllers import ControllersDraft
from highwater.metadata.draft import Inconsistent
from highwater.metadata.features import FeaturesDraft
from highwater.metadata.keyed import AclsDraft, QuotasDraft, ScramDraft, TokensDraft
from highwater.metadata.pieces import PIECE, Pieces, whole
from highwater.metadata.producer_ids import ProducerIdsImage
from highwater.metadata.topics import TopicsDraft
from highwater.wire.codec import Message
from highwater.wire.messages.abort_transaction_record import AbortTransactionRecord
from highwater.wire.messages.access_control_entry_record import AccessControlEntryRecord
from highwater.wire.messages.begin_transaction_record import BeginTransactionRecord
from highwater.wire.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from highwater.wire.messages.clear_elr_record import ClearElrRecord
from highwater.wire.messages.client_quota_record import ClientQuotaRecord
from highwater.wire.messages.config_record import ConfigRecord
from highwater.wire.messages.delegation_token_record import DelegationTokenRecord
from highwater.wire.messages.end_transaction_record import EndTransactionRecord
from highwater.wire.messages.feature_level_record import FeatureLevelRecord
from highwater.wire.messages.fence_broker_record import FenceBrokerRecord
from highwater.wire.messages.no_op_record import NoOpRecord
from highwater.wire.messages.partition_change_record import PartitionChangeRecord
from highwater.wire.messages.partition_record import PartitionRecord
from highwater.wire.messages.producer_ids_record import ProducerIdsRecord
from highwater.wire.messages.register_broker_record import RegisterBrokerRecord
from highwater.wire.messages.register_controller_record import RegisterControllerRecord
from highwater.wire.messages.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from highwater.wire.messages.remove_delegation_token_record import RemoveDelegationTokenRecord
from highwater.wire.messages.remove_topic_record import RemoveTopicRecord
from highwater.wire.messages.remove_user_scram_credential_record import RemoveUserScramCredentialRecord
from highwater.wire.messages.topic_record import TopicRecord
from highwater.wire.messages.unfence_broker_record import UnfenceBrokerRecord
from highwater.wire.messages.unregister_broker_record import UnregisterBrokerRecord
from highwater.wire.messages.user_scram_credential_record import UserScramCredentialRecord
from highwater.wire.messages.zk_migration_state_record import ZkMigrationStateRecord


def apply(image: MetadataImage, records: Sequence[Message], offset: int, epoch: int) -> tuple[MetadataImage, Changes]:
    """The image after `records`, and the visible changes. `offset` is the offset of the last record.

    Takes any number of whole batches that follow `image`. If it raises Inconsistent, nothing has changed.
    """
    return whole(applying(image, records, offset, epoch))


def applying(
    image: MetadataImage, records: Sequence[Message], offset: int, epoch: int
) -> Pieces[tuple[MetadataImage, Changes]]:
    """As `apply`, in pieces."""
    visible, transaction, changes = image, image.transaction, NOTHING
    revision = _Revision(transaction.working if transaction else visible)
    first, done = offset - len(records) + 1, 0
    for at, record in enumerate(records, first):
        if isinstance(record, BeginTransactionRecord):
            if transaction:
                raise Inconsistent("a metadata transaction begins within another")
            if at > first:
                visible, changed = revision.finish(at - 1, epoch)
                changes = changes.then(changed)
            transaction, revision = Transaction(record.name, at, visible, NOTHING), _Revision(visible)
        elif isinstance(record, EndTransactionRecord | AbortTransactionRecord):
            if not transaction:
                raise Inconsistent("a metadata transaction ends that has not begun")
            if isinstance(record, EndTransactionRecord):
                visible, changed = revision.finish(at, epoch)
                changes = changes.then(transaction.changes.then(changed))
            transaction, revision = None, _Revision(visible)
        else:
            pieces = revision.replay(record)
            if pieces is not None:
                done += yield from pieces
        done += 1
        if done >= PIECE:
            done = 0
            yield
    after, changed = revision.finish(offset, epoch)
    if transaction:
        pending = replace(transaction, working=after, changes=transaction.changes.then(changed))
        return replace(visible, transaction=pending), changes
    return after, changes.then(changed)


class _Revision:
    """An image that is being changed."""

    __slots__ = (
        "_acls",
        "_base",
        "_brokers",
        "_configs",
        "_controllers",
        "_features",
        "_producer_ids",
        "_quotas",
        "_scram",
        "_tokens",
        "_topics",
    )

    def __init__(self, base: MetadataImage) -> None:
        self._base = base
        self._features = FeaturesDraft(base.features)
        self._brokers = BrokersDraft(base.brokers)
        self._controllers = ControllersDraft(base.controllers)
        self._topics = TopicsDraft(base.topics)
        self._configs = ConfigsDraft(base.configs)
        self._quotas = QuotasDraft(base.quotas)
        self._producer_ids = base.producer_ids
        self._acls = AclsDraft(base.acls)
        self._scram = ScramDraft(base.scram)
        self._tokens = TokensDraft(base.tokens)

    def replay(self, record: Message) -> Pieces[int] | None:
        """Applies a record. If one record changes many things, it returns pieces, which return how many things were
        changed since the last piece."""
        return _HANDLERS[record.API_KEY](self, record)

    def finish(self, offset: int, epoch: int) -> tuple[MetadataImage, Changes]:
        topics = self._topics
        image = MetadataImage(
            cluster_id=self._base.cluster_id,
            offset=offset,
            epoch=epoch,
            features=self._features.finish(),
            brokers=self._brokers.finish(offset),
            controllers=self._controllers.finish(),
            topics=topics.finish(),
            configs=self._configs.finish(),
            quotas=self._quotas.finish(),
            producer_ids=self._producer_ids,
            acls=self._acls.finish(),
            scram=self._scram.finish(),
            tokens=self._tokens.finish(),
        )
        changes = Changes(
            created=tuple(topics.created),
            deleted=tuple(topics.deleted.values()),
            partitions={topic: tuple(indexes) for topic, indexes in topics.touched.items()},
            brokers=tuple(self._brokers.changed),
            controllers=tuple(self._controllers.changed),
            configs=tuple(self._configs.changed),
            features=tuple(self._features.changed),
            producer_ids=self._producer_ids is not self._base.producer_ids,
            quotas=self._quotas.changed,
            acls=self._acls.changed,
            credentials=self._scram.changed or self._tokens.changed,
        )
        return image, changes

    def _remove_topic(self, record: RemoveTopicRecord) -> Pieces[int]:
        """The settings of a deleted topic are removed, too. There is no record for that."""
        name, removed = yield from self._topics.remove(record)
        self._configs.remove(topic_resource(name))
        return removed

    def _advance_producer_ids(self, record: ProducerIdsRecord) -> None:
        if record.next_producer_id <= self._producer_ids.next_id:
            raise Inconsistent(f"producer ids go back from {self._producer_ids.next_id} to {record.next_producer_id}")
        self._producer_ids = ProducerIdsImage(record.next_producer_id)


_HANDLERS: dict[int, Callable[[_Revision, Any], Pieces[int] | None]] = {
    FeatureLevelRecord.API_KEY: lambda revision, record: revision._features.set(record),
    RegisterBrokerRecord.API_KEY: lambda revision, record: revision._brokers.register(record),
    UnregisterBrokerRecord.API_KEY: lambda revision, record: revision._brokers.unregister(record),
    FenceBrokerRecord.API_KEY: lambda revision, record: revision._brokers.fence(record),
    UnfenceBrokerRecord.API_KEY: lambda revision, record: revision._brokers.unfence(record),
    BrokerRegistrationChangeRecord.API_KEY: lambda revision, record: revision._brokers.change(record),
    RegisterControllerRecord.API_KEY: lambda revision, record: revision._controllers.register(record),
    TopicRecord.API_KEY: lambda revision, record: revision._topics.create(record),
    PartitionRecord.API_KEY: lambda revision, record: revision._topics.put_partition(record),
    PartitionChangeRecord.API_KEY: lambda revision, record: revision._topics.change_partition(record),
    ClearElrRecord.API_KEY: lambda revision, record: revision._topics.clear_elr(record),
    RemoveTopicRecord.API_KEY: _Revision._remove_topic,
    ConfigRecord.API_KEY: lambda revision, record: revision._configs.set(record),
    ClientQuotaRecord.API_KEY: lambda revision, record: revision._quotas.set(record),
    ProducerIdsRecord.API_KEY: _Revision._advance_producer_ids,
    AccessControlEntryRecord.API_KEY: lambda revision, record: revision._acls.add(record),
    RemoveAccessControlEntryRecord.API_KEY: lambda revision, record: revision._acls.drop(record),
    UserScramCredentialRecord.API_KEY: lambda revision, record: revision._scram.add(record),
    RemoveUserScramCredentialRecord.API_KEY: lambda revision, record: revision._scram.drop(record),
    DelegationTokenRecord.API_KEY: lambda revision, record: revision._tokens.add(record),
    RemoveDelegationTokenRecord.API_KEY: lambda revision, record: revision._tokens.drop(record),
    NoOpRecord.API_KEY: lambda revision, record: None,
    # A leftover of a migration from ZooKeeper. Kafka 4 ignores it, too.
    ZkMigrationStateRecord.API_KEY: lambda revision, record: None,
}
