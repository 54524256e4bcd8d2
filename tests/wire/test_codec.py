"""The primitive encodings, and what hostile bytes are answered with."""

from __future__ import annotations

from random import Random

import pytest

from highwater.wire.codec import FlexibleReader, FlexibleWriter, Malformed, Message, Reader, UnsupportedField, Writer
from highwater.wire.messages.api_versions_request import ApiVersionsRequest
from highwater.wire.messages.create_topics_request import CreateTopicsRequest
from highwater.wire.messages.delete_groups_request import DeleteGroupsRequest
from highwater.wire.messages.fetch_request import FetchRequest
from highwater.wire.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from highwater.wire.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from highwater.wire.messages.offset_commit_request import OffsetCommitRequest
from highwater.wire.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from highwater.wire.messages.request_header import RequestHeader
from tests.wire.allocation import most_held
from tests.wire.specimens import specimen


def flexible(*values: int) -> FlexibleReader:
    return FlexibleReader(bytes(values))


@pytest.mark.parametrize("value", [0, 1, 127, 128, 300, 16383, 16384, 2**28, 2**31, 2**32 - 1])
def test_an_unsigned_varint_comes_back(value: int) -> None:
    writer = Writer()
    writer.uvarint(value)
    reader = Reader(writer.buffer)
    assert (reader.uvarint(), reader.pos) == (value, len(writer.buffer))


def test_a_varint_of_six_bytes_or_more_than_32_bits_is_malformed() -> None:
    for hostile in (b"\x80\x80\x80\x80\x80\x00", b"\xff\xff\xff\xff\x7f", b"\xff" * 20, b"\x80", b""):
        with pytest.raises(Malformed):
            Reader(hostile).uvarint()


@pytest.mark.parametrize("read", ["int8", "int16", "int32", "int64", "float64", "uuid", "uint16", "uint32", "boolean"])
def test_a_number_cut_short_is_malformed(read: str) -> None:
    sizes = {"int8": 1, "boolean": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "uuid": 16}
    getattr(Reader(bytes(sizes.get(read, 8))), read)()
    with pytest.raises(Malformed):
        getattr(Reader(bytes(sizes.get(read, 8) - 1)), read)()


def test_lengths_that_are_negative_or_beyond_the_end_are_malformed() -> None:
    hostile = [
        (Reader(b"\xff\xff"), "string"),
        (Reader(b"\x00\x03ab"), "string"),
        (Reader(b"\xff\xff\xff\xff"), "blob"),
        (Reader(b"\x7f\xff\xff\xffab"), "blob"),
        (Reader(b"\x00\x00\x00\x03ab"), "nullable_records"),
        (flexible(0), "string"),
        (flexible(4, 97, 98), "string"),
        (flexible(0), "blob"),
        (flexible(0xFF, 0xFF, 0xFF, 0xFF, 0x0F, 0), "nullable_blob"),
    ]
    for reader, method in hostile:
        with pytest.raises(Malformed):
            getattr(reader, method)()


def test_null_is_read_where_it_is_allowed() -> None:
    assert Reader(b"\xff\xff").nullable_string() is None
    assert Reader(b"\xff\xff\xff\xff").nullable_blob() is None
    assert flexible(0).nullable_string() is None
    assert flexible(0).nullable_records() is None
    assert flexible(0).nullable_count(1) == -1


def test_a_string_that_is_not_utf8_is_malformed() -> None:
    for hostile in (b"\x00\x02\xff\xfe", b"\x00\x02\xc0\xaf", b"\x00\x03\xed\xa0\x80"):
        with pytest.raises(Malformed):
            Reader(hostile).string()


def test_a_string_longer_than_kafka_takes_is_neither_read_nor_written() -> None:
    writer = FlexibleWriter()
    writer.blob(b"x" * 0x8000)
    with pytest.raises(Malformed):
        FlexibleReader(writer.buffer).string()
    with pytest.raises(ValueError, match="32768 bytes"):
        writer.string("x" * 0x8000)


def test_an_array_count_is_bounded_by_the_bytes_that_remain() -> None:
    assert Reader(b"\x00\x00\x00\x02" + bytes(10)).count(5) == 2
    with pytest.raises(Malformed):
        Reader(b"\x00\x00\x00\x02" + bytes(9)).count(5)
    with pytest.raises(Malformed):
        Reader(b"\x7f\xff\xff\xff" + bytes(9)).count(1, 0)


def test_a_tag_count_is_bounded_by_the_bytes_that_remain() -> None:
    assert len(flexible(2, 5, 0, 6, 0).tags()) == 2
    with pytest.raises(Malformed, match="3 elements announced, 4 bytes remain"):
        flexible(3, 5, 0, 6, 0).tags()


@pytest.mark.parametrize("read", ["records", "nullable_records"])
def test_every_view_is_charged_against_the_budget_of_objects(read: str) -> None:
    reader = FlexibleReader(b"\x01" * 12_000)
    with pytest.raises(Malformed, match="more elements than"):
        for _ in range(12_000):
            getattr(reader, read)()
    assert reader.pos >= 10_000


def test_a_nullable_struct_is_absent_only_if_its_marker_is_negative_or_as_a_tagged_field_zero() -> None:
    assert [Reader(bytes([marker])).present() for marker in (0, 1, 127, 128, 255)] == [True, True, True, False, False]
    assert [Reader(bytes([marker])).present_tagged() for marker in (0, 1, 5)] == [False, True, True]
    writer = Writer()
    for present in (False, True):
        writer.present(present)
        writer.present_tagged(present)
    assert writer.buffer == b"\xff\x00\x01\x01"


def test_records_are_a_view_of_the_request_and_not_a_copy() -> None:
    topic = TopicProduceData(name="t", partition_data=[PartitionProduceData(records=b"batch")])
    frame = bytearray(ProduceRequest(acks=1, timeout_ms=1, topic_data=[topic]).encode(9))
    records = ProduceRequest.decode(memoryview(frame), 9).topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    records[:] = b"BATCH"
    assert b"BATCH" in frame


def test_the_client_id_keeps_its_classic_encoding_in_the_flexible_header() -> None:
    header = RequestHeader(request_api_key=3, request_api_version=12, correlation_id=7, client_id="me")
    assert header.encode(2) == bytes.fromhex("0003000c00000007 0002 6d65 00")
    assert RequestHeader.decode(header.encode(2), 2) == header


def test_bytes_after_the_message_are_ignored() -> None:
    request = MetadataRequest(topics=None)
    assert MetadataRequest.decode(request.encode(12) + b"more", 12) == request


@pytest.mark.parametrize("version", [-1, 14])
def test_a_version_that_does_not_exist_is_refused(version: int) -> None:
    with pytest.raises(ValueError, match="no version"):
        MetadataRequest().encode(version)
    with pytest.raises(ValueError, match="no version"):
        MetadataRequest.decode(b"", version)


def test_messages_compare_by_their_fields_and_show_them() -> None:
    one, other = MetadataRequestTopic(name="a"), MetadataRequestTopic(name="a")
    assert one == other and one is not other
    other.unknown_tags = ((9, b""),)
    assert one != other and one != "a"
    assert "name='a'" in repr(one) and "unknown_tags" not in repr(one) and "unknown_tags=((9" in repr(other)


def test_defaults_are_not_shared_between_messages() -> None:
    MetadataRequest().topics.append(MetadataRequestTopic())  # type: ignore[union-attr]
    assert MetadataRequest().topics == []
    FetchRequest().replica_state.replica_id = 5
    assert FetchRequest().replica_state.replica_id == -1


def test_a_field_that_the_version_lacks_is_refused_unless_it_is_ignorable_or_default() -> None:
    with pytest.raises(UnsupportedField, match=r"FetchRequest\.replica_id cannot be written in version 15"):
        FetchRequest(replica_id=1).encode(15)
    assert FetchRequest(rack_id="here").encode(10) == FetchRequest().encode(10)


def test_null_is_refused_in_a_version_without_it() -> None:
    assert MetadataRequest(topics=None).encode(1)
    with pytest.raises(UnsupportedField):
        MetadataRequest(topics=None).encode(0)


def test_unknown_tags_are_kept_and_written_sorted() -> None:
    raw = ApiVersionsRequest(client_software_name="a", client_software_version="1").encode(3)[:-1]
    message = ApiVersionsRequest.decode(raw + bytes([2, 9, 1, 65, 5, 0]), 3)
    assert message.unknown_tags == ((9, b"A"), (5, b""))
    assert message.encode(3) == raw + bytes([2, 5, 0, 9, 1, 65])


def test_a_known_tag_given_twice_counts_the_last_time_and_its_size_is_not_trusted() -> None:
    raw = FetchRequest().encode(12)[:-1]
    message = FetchRequest.decode(raw + bytes([2, 0, 3, 3, 97, 98, 0, 77, 2, 99]), 12)
    assert message.cluster_id == "c"


def test_an_unknown_tag_given_twice_is_passed_on_twice() -> None:
    raw = ApiVersionsRequest().encode(3)[:-1] + bytes([2, 9, 0, 9, 0])
    assert ApiVersionsRequest.decode(raw, 3).encode(3) == raw


def test_a_tag_of_a_later_version_is_malformed() -> None:
    raw = FetchRequest().encode(12)[:-1]
    with pytest.raises(Malformed, match="tag 1 in version 12"):
        FetchRequest.decode(raw + bytes([1, 1, 0]), 12)


HOSTILE_COUNTS = [
    (MetadataRequest, 0, b"\x7f\xff\xff\xff"),
    (MetadataRequest, 12, b"\x80\x80\x80\x80\x08"),
    (DeleteGroupsRequest, 0, b"\x7f\xff\xff\xff"),
    (DeleteGroupsRequest, 2, b"\xff\xff\xff\xff\x0f"),
    (CreateTopicsRequest, 7, b"\xff\xff\xff\xff\x07"),
    (FetchRequest, 4, bytes(17) + b"\x7f\xff\xff\xff"),
    (ApiVersionsRequest, 3, b"\x02a\x02b\xff\xff\xff\xff\x07"),
    (ApiVersionsRequest, 3, b"\x02a\x02b\x01\x05\xff\xff\xff\xff\x07"),
]


@pytest.mark.parametrize(("cls", "version", "raw"), HOSTILE_COUNTS)
def test_a_count_of_two_billion_is_refused_before_anything_is_allocated(
    cls: type[Message], version: int, raw: bytes
) -> None:
    def refuse() -> None:
        with pytest.raises(Malformed):
            cls.decode(raw + bytes(100), version)

    assert most_held(refuse, 100_000) < 100_000


@pytest.mark.parametrize(
    "cls", [CreateTopicsRequest, FetchRequest, JoinGroupRequest, OffsetCommitRequest, ProduceRequest]
)
def test_a_message_cut_anywhere_is_malformed(cls: type[Message]) -> None:
    random = Random(4)
    for version in range(cls.VERSIONS[0], cls.VERSIONS[1] + 1):
        raw = min(
            (specimen(cls, version, random).encode(version) for _ in range(9)), key=lambda raw: abs(len(raw) - 150)
        )
        for end in range(len(raw)):
            with pytest.raises(Malformed):
                cls.decode(raw[:end], version)


def dense_body(kind: str, count: int) -> tuple[type[Message], int, bytes]:
    """`count` objects in as few bytes as their version allows."""
    if kind == "structs":
        return MetadataRequest, 9, MetadataRequest(topics=[MetadataRequestTopic(name="")] * count).encode(9)
    if kind == "strings":
        return DeleteGroupsRequest, 2, DeleteGroupsRequest(groups_names=["no"] * count).encode(2)
    if kind == "blobs":
        protocol = JoinGroupRequestProtocol(name="no", metadata=b"no")
        return JoinGroupRequest, 9, JoinGroupRequest(protocols=[protocol] * count).encode(9)
    if kind == "views":
        topic = TopicProduceData(name="", partition_data=[PartitionProduceData(records=b"")] * (count // 2))
        return ProduceRequest, 9, ProduceRequest(topic_data=[topic]).encode(9)
    tags = FlexibleWriter()
    tags.uvarint(count)
    return ApiVersionsRequest, 3, b"\x02a\x02b" + tags.buffer + b"\x05\x01?" * count


KINDS = ("structs", "strings", "blobs", "views", "tags")


@pytest.mark.parametrize("kind", KINDS)
def test_a_body_of_many_tiny_objects_costs_a_small_multiple_of_its_size(kind: str) -> None:
    size = 1 << 19
    cls, version, body = dense_body(kind, size // 8)
    body = body.ljust(size, b"\0")
    assert most_held(lambda: cls.decode(body, version), 24 * size) < 24 * size


@pytest.mark.parametrize("kind", KINDS)
def test_a_body_of_more_objects_than_its_size_allows_is_malformed(kind: str) -> None:
    cls, version, body = dense_body(kind, 100_000)

    def refuse() -> None:
        with pytest.raises(Malformed, match="more elements than"):
            cls.decode(body, version)

    assert most_held(refuse, 24 * len(body)) < 24 * len(body)
