"""Encodes and decodes the records of classic groups in `__consumer_offsets`.

A key is a 16-bit kind and a body; a value is a 16-bit version and a body.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from struct import pack
from typing import Final

from highwater.effects import Record
from highwater.groups.group import Group
from highwater.model import ZERO_UUID, TopicPartition, Uuid
from highwater.wire.codec import Malformed, Message, Reader
from highwater.wire.messages.group_metadata_key import GroupMetadataKey
from highwater.wire.messages.group_metadata_value import GroupMetadataValue, MemberMetadata
from highwater.wire.messages.offset_commit_key import OffsetCommitKey
from highwater.wire.messages.offset_commit_value import OffsetCommitValue

LEGACY_OFFSET_COMMIT: Final = 0
OFFSET_COMMIT: Final = 1
GROUP_METADATA: Final = 2

_GROUP_VALUE_VERSION: Final = 3
_OFFSET_VALUE_VERSION: Final = 4
_OFFSET_VALUE_VERSION_THAT_EXPIRES: Final = 1


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    offset: int
    leader_epoch: int
    metadata: str
    commit_ms: int
    expire_ms: int = -1
    """The expiry time that an old client asked for; -1 means the broker's retention."""
    topic_id: Uuid = ZERO_UUID


def kind_of(key: bytes) -> int:
    return Reader(key).int16()


def group_named_in(key: bytes) -> str:
    """The group of a key of any kind: every key begins with its name."""
    return Reader(key, 2).string()


def offset_record(group: str, place: TopicPartition, committed: CommittedOffset) -> Record:
    expires = committed.expire_ms >= 0
    value = OffsetCommitValue(
        offset=committed.offset,
        leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        commit_timestamp=committed.commit_ms,
        expire_timestamp=committed.expire_ms,
        topic_id=committed.topic_id,
    )
    version = _OFFSET_VALUE_VERSION_THAT_EXPIRES if expires else _OFFSET_VALUE_VERSION
    return Record(_offset_key(group, place), _versioned(version, value))


def offset_tombstone(group: str, place: TopicPartition) -> Record:
    return Record(_offset_key(group, place), None)


def group_record(group: Group, assignments: Mapping[str, bytes]) -> Record:
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol=group.protocol,
        leader=group.leader,
        current_state_timestamp=-1 if group.since_ms is None else group.since_ms,
        members=[
            MemberMetadata(
                member_id=member.id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.metadata(group.protocol),
                assignment=assignments.get(member.id, b""),
            )
            for member in group.members.values()
        ],
    )
    return Record(_group_key(group.id), _versioned(_GROUP_VALUE_VERSION, value))


def group_tombstone(group: str) -> Record:
    return Record(_group_key(group), None)


def read_offset_key(key: bytes) -> tuple[str, TopicPartition]:
    read = OffsetCommitKey.decode(key[2:], 0)
    return read.group, TopicPartition(read.topic, read.partition)


def read_offset_value(value: bytes) -> CommittedOffset:
    read = OffsetCommitValue.decode(value[2:], _version_of(value, OffsetCommitValue))
    return CommittedOffset(
        read.offset, read.leader_epoch, read.metadata, read.commit_timestamp, read.expire_timestamp, read.topic_id
    )


def read_group_value(value: bytes) -> GroupMetadataValue:
    return GroupMetadataValue.decode(value[2:], _version_of(value, GroupMetadataValue))


def _version_of(value: bytes, kind: type[Message]) -> int:
    version = Reader(value).int16()
    if not kind.VERSIONS[0] <= version <= kind.VERSIONS[1]:
        raise Malformed(f"{kind.__name__} has no version {version}")
    return version


def _versioned(version: int, value: Message) -> bytes:
    return pack(">h", version) + value.encode(version)


def _offset_key(group: str, place: TopicPartition) -> bytes:
    key = OffsetCommitKey(group=group, topic=place.topic, partition=place.partition)
    return pack(">h", OFFSET_COMMIT) + key.encode(0)


def _group_key(group: str) -> bytes:
    return pack(">h", GROUP_METADATA) + GroupMetadataKey(group=group).encode(0)
