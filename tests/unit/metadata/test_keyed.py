"""Quotas, ACLs, credentials and tokens: kept under their keys, written back, taken away."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from highwater.metadata.changes import Changes
from highwater.metadata.cluster import MetadataImage
from highwater.metadata.keyed import KeyedRecords
from highwater.metadata.replay import apply
from highwater.model import Uuid
from highwater.wire.codec import Message
from highwater.wire.messages.access_control_entry_record import AccessControlEntryRecord
from highwater.wire.messages.client_quota_record import ClientQuotaRecord, EntityData
from highwater.wire.messages.delegation_token_record import DelegationTokenRecord
from highwater.wire.messages.no_op_record import NoOpRecord
from highwater.wire.messages.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from highwater.wire.messages.remove_delegation_token_record import RemoveDelegationTokenRecord
from highwater.wire.messages.remove_user_scram_credential_record import RemoveUserScramCredentialRecord
from highwater.wire.messages.user_scram_credential_record import UserScramCredentialRecord

A, B = Uuid(b"a" * 16), Uuid(b"b" * 16)


def quota(*entity: tuple[str, str | None], rate: float = 1.0, remove: bool = False) -> ClientQuotaRecord:
    made = [EntityData(entity_type=kind, entity_name=name) for kind, name in entity]
    return ClientQuotaRecord(entity=made, key="rate", value=rate, remove=remove)


def scram(mechanism: int, name: str, salt: bytes = b"") -> UserScramCredentialRecord:
    return UserScramCredentialRecord(mechanism=mechanism, name=name, salt=salt)


SUBJECTS: list[tuple[Callable[[MetadataImage], KeyedRecords], Changes, list[Message], list[Message]]] = [
    (
        lambda image: image.quotas,
        Changes(quotas=True),
        [quota(("user", "ann")), quota(("user", "bob"))],
        [quota(("user", "ann"), remove=True)],
    ),
    (
        lambda image: image.acls,
        Changes(acls=True),
        [AccessControlEntryRecord(id=A), AccessControlEntryRecord(id=B)],
        [RemoveAccessControlEntryRecord(id=A)],
    ),
    (
        lambda image: image.scram,
        Changes(credentials=True),
        [scram(1, "ann"), scram(1, "bob")],
        [RemoveUserScramCredentialRecord(mechanism=1, name="ann")],
    ),
    (
        lambda image: image.tokens,
        Changes(credentials=True),
        [DelegationTokenRecord(token_id="x"), DelegationTokenRecord(token_id="y")],
        [RemoveDelegationTokenRecord(token_id="x")],
    ),
]


@pytest.mark.parametrize(("subject", "expected", "added", "removed"), SUBJECTS)
def test_a_record_is_kept_until_another_takes_it_away(
    subject: Callable[[MetadataImage], KeyedRecords], expected: Changes, added: list[Message], removed: list[Message]
) -> None:
    image, changes = apply(MetadataImage("cluster"), added[::-1], 1, 1)
    assert list(subject(image).records()) == added
    assert changes == expected
    fewer, changes = apply(image, removed, 2, 1)
    assert list(subject(fewer).records()) == added[1:]
    assert changes == expected
    assert list(subject(image).records()) == added
    same, changes = apply(fewer, [NoOpRecord()], 3, 1)
    assert subject(same) is subject(fewer)
    assert not changes


def quotas_of(*records: ClientQuotaRecord) -> list[Message]:
    image = apply(MetadataImage("cluster"), records, len(records), 1)[0]
    return list(image.quotas.records())


def test_an_entity_is_the_same_in_any_order_of_its_parts() -> None:
    last = quota(("client-id", "c"), ("user", "ann"), rate=2.0)
    assert quotas_of(quota(("user", "ann"), ("client-id", "c")), last) == [last]


def test_the_default_entity_is_another_than_that_of_an_empty_name_and_comes_first() -> None:
    default, empty, named = (quota(("user", name)) for name in (None, "", "ann"))
    assert quotas_of(named, empty, default) == [default, empty, named]


def test_a_credential_belongs_to_a_user_and_a_mechanism() -> None:
    records = [scram(2, "ann"), scram(1, "bob"), scram(1, "ann"), scram(1, "bob", b"new")]
    image = apply(MetadataImage("cluster"), records, 3, 1)[0]
    assert list(image.scram.records()) == [scram(1, "ann"), scram(1, "bob", b"new"), scram(2, "ann")]
