"""Records that are stored whole under a key: client quotas, ACLs, SCRAM credentials and delegation tokens.

They are not interpreted here. A snapshot of an image contains every one of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from highwater.metadata.draft import Draft, Inconsistent
from highwater.model import uuid_text
from highwater.wire.codec import Message
from highwater.wire.messages.access_control_entry_record import AccessControlEntryRecord
from highwater.wire.messages.client_quota_record import ClientQuotaRecord
from highwater.wire.messages.delegation_token_record import DelegationTokenRecord
from highwater.wire.messages.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from highwater.wire.messages.remove_delegation_token_record import RemoveDelegationTokenRecord
from highwater.wire.messages.remove_user_scram_credential_record import RemoveUserScramCredentialRecord
from highwater.wire.messages.user_scram_credential_record import UserScramCredentialRecord

Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class KeyedRecords:
    by_key: Mapping[Key, Message] = field(default_factory=dict)

    def records(self) -> Iterator[Message]:
        for key in sorted(self.by_key):
            yield self.by_key[key]


class KeyedDraft:
    __slots__ = ("_base", "_by_key", "changed")

    def __init__(self, base: KeyedRecords) -> None:
        self._base = base
        self._by_key = Draft(base.by_key)
        self.changed = False

    def put(self, key: Key, record: Message) -> None:
        self._by_key.put(key, record)
        self.changed = True

    def remove(self, key: Key) -> None:
        self._by_key.remove(key)
        self.changed = True

    def holds(self, key: Key) -> bool:
        return self._by_key.get(key) is not None

    def finish(self) -> KeyedRecords:
        by_key = self._by_key.finish()
        return self._base if by_key is self._base.by_key else KeyedRecords(by_key)


class QuotasDraft(KeyedDraft):
    __slots__ = ()

    def set(self, record: ClientQuotaRecord) -> None:
        entity = sorted((e.entity_type, e.entity_name is not None, e.entity_name or "") for e in record.entity)
        key = (tuple(entity), record.key)
        if record.remove:
            self.remove(key)
        else:
            self.put(key, record)


class AclsDraft(KeyedDraft):
    __slots__ = ()

    def add(self, record: AccessControlEntryRecord) -> None:
        self.put((record.id,), record)

    def drop(self, record: RemoveAccessControlEntryRecord) -> None:
        if not self.holds((record.id,)):
            raise Inconsistent(f"a record removes ACL {uuid_text(record.id)}, which does not exist")
        self.remove((record.id,))


class ScramDraft(KeyedDraft):
    __slots__ = ()

    def add(self, record: UserScramCredentialRecord) -> None:
        self.put((record.mechanism, record.name), record)

    def drop(self, record: RemoveUserScramCredentialRecord) -> None:
        self.remove((record.mechanism, record.name))


class TokensDraft(KeyedDraft):
    __slots__ = ()

    def add(self, record: DelegationTokenRecord) -> None:
        self.put((record.token_id,), record)

    def drop(self, record: RemoveDelegationTokenRecord) -> None:
        self.remove((record.token_id,))
