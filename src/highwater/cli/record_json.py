"""Record values as JSON, in the form of Kafka's converters: in schema order, with tagged fields only if they are
set."""

from __future__ import annotations

import base64
import json
from typing import Any

from highwater.model import Uuid, uuid_text
from highwater.wire.codec import Struct

SINCE: dict[tuple[str, str], dict[str, int]] = {
    ("register_broker_record", "RegisterBrokerRecord"): {"is_migrating_zk_broker": 2, "in_controlled_shutdown": 1},
    ("partition_record", "PartitionRecord"): {"directories": 1},
    ("leader_change_message", "Voter"): {"voter_directory_id": 1},
    ("offset_commit_value", "OffsetCommitValue"): {"leader_epoch": 3, "expire_timestamp": 1},
    ("group_metadata_value", "GroupMetadataValue"): {"current_state_timestamp": 2},
    ("group_metadata_value", "MemberMetadata"): {"group_instance_id": 3, "rebalance_timeout": 1},
    ("consumer_protocol_subscription", "ConsumerProtocolSubscription"): {
        "owned_partitions": 1,
        "generation_id": 2,
        "rack_id": 3,
    },
}
"""The first version of fields that were added to a record later, by module and struct."""

UNTIL: dict[tuple[str, str], dict[str, int]] = {("offset_commit_value", "OffsetCommitValue"): {"expire_timestamp": 1}}
"""The last version of fields that were removed from a record."""

TAGGED: dict[tuple[str, str], frozenset[str]] = {
    ("abort_transaction_record", "AbortTransactionRecord"): frozenset({"reason"}),
    ("begin_transaction_record", "BeginTransactionRecord"): frozenset({"name"}),
    ("partition_record", "PartitionRecord"): frozenset(
        {"leader_recovery_state", "eligible_leader_replicas", "last_known_elr"}
    ),
    ("broker_registration_change_record", "BrokerRegistrationChangeRecord"): frozenset(
        {"fenced", "in_controlled_shutdown", "log_dirs", "cordoned_log_dirs"}
    ),
    ("partition_change_record", "PartitionChangeRecord"): frozenset(
        {
            "isr",
            "leader",
            "replicas",
            "removing_replicas",
            "adding_replicas",
            "leader_recovery_state",
            "directories",
            "eligible_leader_replicas",
            "last_known_elr",
        }
    ),
    ("register_broker_record", "RegisterBrokerRecord"): frozenset({"log_dirs", "cordoned_log_dirs"}),
    ("consumer_group_metadata_value", "ConsumerGroupMetadataValue"): frozenset({"metadata_hash"}),
    ("consumer_group_member_metadata_value", "ConsumerGroupMemberMetadataValue"): frozenset(
        {"classic_member_metadata"}
    ),
    ("consumer_group_target_assignment_metadata_value", "ConsumerGroupTargetAssignmentMetadataValue"): frozenset(
        {"assignment_timestamp"}
    ),
    ("consumer_group_current_member_assignment_value", "TopicPartitions"): frozenset({"assignment_epochs"}),
    ("offset_commit_value", "OffsetCommitValue"): frozenset({"topic_id"}),
    ("transaction_log_value", "TransactionLogValue"): frozenset(
        {"previous_producer_id", "next_producer_id", "next_producer_epoch", "client_transaction_version"}
    ),
}
"""Fields that are left out if they have their default."""

UUIDS = frozenset(
    {
        "topic_id",
        "voter_directory_id",
        "incarnation_id",
        "log_dirs",
        "cordoned_log_dirs",
        "directories",
        "id",
    }
)
"""Sixteen bytes are an id only if the schema says so."""


def to_json(struct: Struct, version: int) -> dict[str, Any]:
    """The fields of `struct` that `version` has."""
    where = (type(struct).__module__.rpartition(".")[2], type(struct).__name__)
    since, until, tagged = SINCE.get(where, {}), UNTIL.get(where, {}), TAGGED.get(where, frozenset())
    defaults = type(struct)() if tagged else struct
    return {
        _camel_case(name): _value(name, getattr(struct, name), version)
        for name in struct.__slots__
        if since.get(name, 0) <= version <= until.get(name, version)
        and not (name in tagged and getattr(struct, name) == getattr(defaults, name))
    }


def compact(value: object) -> str:
    """One line without blanks, as Jackson prints a tree."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _value(name: str, value: Any, version: int) -> Any:
    if isinstance(value, Struct):
        return to_json(value, version)
    if isinstance(value, list):
        return [_value(name, one, version) for one in value]
    if isinstance(value, bytes | bytearray | memoryview):
        raw = bytes(value)
        return uuid_text(Uuid(raw)) if name in UUIDS and len(raw) == 16 else base64.b64encode(raw).decode()
    return value


def _camel_case(name: str) -> str:
    first, *rest = name.rstrip("_").split("_")
    return ("kRaft" if first == "kraft" else first) + "".join(word.capitalize() for word in rest)
