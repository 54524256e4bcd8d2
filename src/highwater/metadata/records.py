"""Encodes and decodes metadata records: a frame version, the type, its version, and the body.

Versions are written as Kafka 4.3 does at metadata.version 30. The type decides on the version. The exception is a
change of a registration: Kafka writes it in the lowest version that has all changed fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from highwater.metadata.pieces import PIECE, Pieces
from highwater.wire.codec import FlexibleReader, FlexibleWriter, Malformed, Message
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

FRAME_VERSION: Final = 1

TYPES: Final[dict[int, type[Message]]] = {
    record.API_KEY: record
    for record in (
        RegisterBrokerRecord,
        UnregisterBrokerRecord,
        TopicRecord,
        PartitionRecord,
        ConfigRecord,
        PartitionChangeRecord,
        FenceBrokerRecord,
        UnfenceBrokerRecord,
        RemoveTopicRecord,
        DelegationTokenRecord,
        UserScramCredentialRecord,
        FeatureLevelRecord,
        ClientQuotaRecord,
        ProducerIdsRecord,
        BrokerRegistrationChangeRecord,
        AccessControlEntryRecord,
        RemoveAccessControlEntryRecord,
        NoOpRecord,
        ZkMigrationStateRecord,
        RemoveUserScramCredentialRecord,
        BeginTransactionRecord,
        EndTransactionRecord,
        AbortTransactionRecord,
        RemoveDelegationTokenRecord,
        RegisterControllerRecord,
        ClearElrRecord,
    )
}

_VERSIONS: Final = {RegisterBrokerRecord.API_KEY: 4, PartitionRecord.API_KEY: 2, PartitionChangeRecord.API_KEY: 2}


class UnknownRecord(Malformed):
    """A record type or version of a newer Kafka. The log cannot be read beyond it."""


def version_of(record: Message) -> int:
    if isinstance(record, BrokerRegistrationChangeRecord):
        if record.cordoned_log_dirs is not None:
            return 3
        if record.log_dirs:
            return 2
        return 1 if record.in_controlled_shutdown else 0
    return _VERSIONS.get(record.API_KEY, 0)


def encode(record: Message) -> bytes:
    """The value of the log record for `record`."""
    version = version_of(record)
    writer = FlexibleWriter()
    writer.uvarint(FRAME_VERSION)
    writer.uvarint(record.API_KEY)
    writer.uvarint(version)
    record.write(writer, version)
    return bytes(writer.buffer)


def encoding(records: Sequence[Message]) -> Pieces[list[bytes]]:
    values = []
    for record in records:
        values.append(encode(record))
        if not len(values) % PIECE:
            yield
    return values


def decoding(values: Iterable[memoryview | bytes | None]) -> Pieces[tuple[Message, ...]]:
    records: list[Message] = []
    for value in values:
        records.append(decode(value or b""))
        if not len(records) % PIECE:
            yield
    return tuple(records)


def decode(value: memoryview | bytes) -> Message:
    """Decodes any record that Kafka 4.3 may have written. Raises Malformed, or UnknownRecord for an unknown type or
    version."""
    reader = FlexibleReader(value)
    frame = reader.uvarint()
    if frame != FRAME_VERSION:
        raise Malformed(f"metadata record of frame version {frame}, only {FRAME_VERSION} is known")
    key, version = reader.uvarint(), reader.uvarint()
    kind = TYPES.get(key)
    if kind is None:
        raise UnknownRecord(f"metadata record of unknown type {key}")
    if not kind.VERSIONS[0] <= version <= kind.VERSIONS[1]:
        raise UnknownRecord(f"{kind.__name__} of unknown version {version}")
    record = kind.read(reader, version)
    if reader.pos != reader.end:
        raise Malformed(f"{reader.end - reader.pos} bytes after the end of a {kind.__name__}")
    return record
