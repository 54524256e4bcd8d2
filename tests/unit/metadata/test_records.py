from __future__ import annotations

import pytest

from highwater.metadata import records
from highwater.metadata.pieces import PIECE, whole
from highwater.model import Uuid
from highwater.wire.codec import Malformed, Message
from highwater.wire.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from highwater.wire.messages.feature_level_record import FeatureLevelRecord
from highwater.wire.messages.no_op_record import NoOpRecord
from highwater.wire.messages.partition_change_record import PartitionChangeRecord
from highwater.wire.messages.partition_record import PartitionRecord
from highwater.wire.messages.register_broker_record import RegisterBrokerRecord
from tests.unit.metadata.histories import History


def test_a_record_is_framed_by_frame_version_type_and_version() -> None:
    encoded = records.encode(FeatureLevelRecord(name="metadata.version", feature_level=30))
    assert encoded == b"\x01\x0c\x00" + b"\x11metadata.version" + b"\x00\x1e" + b"\x00"


@pytest.mark.parametrize(
    ("record", "version"),
    [
        (RegisterBrokerRecord(), 4),
        (PartitionRecord(), 2),
        (PartitionChangeRecord(), 2),
        (BrokerRegistrationChangeRecord(fenced=1), 0),
        (BrokerRegistrationChangeRecord(in_controlled_shutdown=1), 1),
        (BrokerRegistrationChangeRecord(log_dirs=[Uuid(b"x" * 16)]), 2),
        (BrokerRegistrationChangeRecord(cordoned_log_dirs=[]), 3),
        (NoOpRecord(), 0),
    ],
)
def test_versions_are_those_that_kafka_writes_at_metadata_version_30(record: Message, version: int) -> None:
    assert records.version_of(record) == version
    assert records.encode(record)[2] == version


def test_an_encoded_record_of_every_type_is_decoded() -> None:
    made = History(7).records(400)
    assert {record.API_KEY for record in made} >= set(records.TYPES) - {21, 23, 24, 25}
    for record in made + [records.TYPES[key]() for key in records.TYPES]:
        assert records.decode(records.encode(record)) == record


@pytest.mark.parametrize(
    ("value", "error", "words"),
    [
        (b"", Malformed, ".+"),
        (b"\x00\x14\x00\x00", Malformed, "frame version 0"),
        (b"\x02\x14\x00\x00", Malformed, "frame version 2"),
        (b"\x01\x7f\x00\x00", records.UnknownRecord, "unknown type 127"),
        (b"\x01\x14\x07\x00", records.UnknownRecord, "NoOpRecord of unknown version 7"),
        (b"\x01\x14\x00\x00\x00", Malformed, "1 bytes after the end of a NoOpRecord"),
        (b"\x01\x02\x00\x05ab", Malformed, ".+"),
    ],
)
def test_bytes_that_are_no_known_record_get_a_clear_error(value: bytes, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        records.decode(value)


def test_many_records_are_written_and_read_as_bytes_by_pieces() -> None:
    many = [FeatureLevelRecord(name=f"f{number}", feature_level=1) for number in range(2 * PIECE + 1)]
    encoding = records.encoding(many)
    assert [next(encoding), next(encoding)] == [None, None]
    values = whole(encoding)
    assert values == [records.encode(each) for each in many]
    decoding = records.decoding(values)
    assert [next(decoding), next(decoding)] == [None, None]
    assert whole(decoding) == tuple(many)
