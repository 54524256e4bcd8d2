"""Hostile inputs by name, the same for ours and for Apache Kafka, and what becomes of them."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from random import Random
from time import monotonic
from typing import Any, NamedTuple

from highwater.model import Uuid
from highwater.wire.codec import Message, Struct
from highwater.wire.messages.api_versions_request import ApiVersionsRequest
from highwater.wire.messages.api_versions_response import ApiVersionsResponse
from highwater.wire.messages.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from highwater.wire.messages.create_topics_response import CreateTopicsResponse
from highwater.wire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from highwater.wire.messages.fetch_response import FetchResponse
from highwater.wire.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from highwater.wire.messages.list_offsets_response import ListOffsetsResponse
from highwater.wire.messages.metadata_request import MetadataRequest
from highwater.wire.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from highwater.wire.messages.produce_response import ProduceResponse
from tests.cluster.peer import Peer, asked, decoded, framed, request
from tests.hostile_batches import FIELDS, good_batch, hostile_batch, with_header

CLOSED = "closed"
Outcome = tuple[object, ...] | str
_SENTINEL = 77


class Reply(NamedTuple):
    """How an answer is to be read."""

    message: type[Message]
    version: int


class Input(NamedTuple):
    name: str
    frames: bytes
    replies: tuple[Reply, ...] = ()
    """Of the requests that are answered, in order; their correlation ids count from 1."""


class Target(NamedTuple):
    """The topic that inputs speak of."""

    topic: str
    id: Uuid


def create(port: int, name: str, settings: dict[str, str] | None = None) -> Uuid:
    """A topic of three partitions that are led when this returns."""
    configs = [CreatableTopicConfig(name=key, value=value) for key, value in (settings or {}).items()]
    topic = CreatableTopic(name=name, num_partitions=3, replication_factor=1, configs=configs)
    ends = [ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(3)]
    listing = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=name, partitions=ends)])
    deadline = monotonic() + 120
    with Peer(port) as peer:
        created = peer.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7, CreateTopicsResponse)
        assert [each.error_code for each in created.topics] == [0]
        while _codes(peer.ask(listing, 7, ListOffsetsResponse)) != (0, 0, 0):
            assert monotonic() < deadline, f"{name} is not led"
    return created.topics[0].topic_id


def outcome(port: int, given: Input) -> Outcome:
    """The error codes of all answers, or that the connection was closed before it could be used again."""
    with Peer(port) as peer:
        peer.send(given.frames, asked(ApiVersionsRequest(), 0, _SENTINEL))
        peer.end()
        answers = peer.answers()
    codes = [
        _codes(decoded(payload, reply.message, reply.version, number))
        for number, (payload, reply) in enumerate(zip(answers, given.replies, strict=False), start=1)
        if payload[:4] != struct.pack(">i", _SENTINEL)
    ]
    alive = bool(answers) and answers[-1][:4] == struct.pack(">i", _SENTINEL)
    return tuple(codes) if alive else CLOSED


def _codes(value: object) -> tuple[int, ...]:
    """Every error code of an answer, in the order of its fields."""
    if isinstance(value, list):
        return tuple(code for element in value for code in _codes(element))
    if not isinstance(value, Struct):
        return ()
    code = getattr(value, "error_code", None)
    own = () if code is None else (int(code),)
    return own + tuple(code for name in value.__slots__ for code in _codes(getattr(value, name)))


def produce(target: Target, *batches: bytes | None, version: int = 9, acks: int = -1, partition: int = 0) -> Message:
    """One topic, the batches to as many partitions from `partition` on."""
    rows = [PartitionProduceData(index=partition + n, records=batch) for n, batch in enumerate(batches)]
    named = TopicProduceData(name=target.topic if version < 13 else "", partition_data=rows)
    if version >= 13:
        named.topic_id = target.id
    return ProduceRequest(acks=acks, timeout_ms=5_000, topic_data=[named])


def produced(name: str, target: Target, *batches: bytes | None, version: int = 9, acks: int = -1) -> Input:
    frames = asked(produce(target, *batches, version=version, acks=acks), version)
    return Input(f"produce v{version}: {name}", frames, () if acks == 0 else (Reply(ProduceResponse, version),))


def fetch(target: Target, version: int = 12, offset: int = 0, epoch: int = -1, partition: int = 0) -> FetchRequest:
    row = FetchPartition(
        partition=partition, fetch_offset=offset, current_leader_epoch=epoch, partition_max_bytes=1 << 20
    )
    topic = FetchTopic(topic=target.topic if version < 13 else "", partitions=[row])
    if version >= 13:
        topic.topic_id = target.id
    return FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, topics=[topic])


def framing() -> Iterator[Input]:
    whole = asked(ApiVersionsRequest(), 0)
    for name, sent in {
        "size 0": struct.pack(">i", 0) + bytes(20),
        "size -1": struct.pack(">i", -1) + bytes(20),
        "the least size": struct.pack(">i", -(2**31)) + bytes(20),
        "a size beyond the bound": struct.pack(">i", 100 * 1024 * 1024 + 1) + bytes(20),
        "the largest size": struct.pack(">i", 2**31 - 1) + bytes(20),
        "a TLS hello": bytes.fromhex("1603010200010001fc0303") + bytes(200),
        "an HTTP request": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "text": b"hello, is there anybody?\r\n" * 8,
        "an SSH hello": b"SSH-2.0-OpenSSH_9.2\r\n",
        "a client id of negative length": framed(struct.pack(">hhih", 18, 0, 1, -2)),
        "a client id longer than the frame": framed(struct.pack(">hhih", 18, 0, 1, 32767)),
        "a client id that is not UTF-8": framed(struct.pack(">hhih", 18, 0, 1, 2) + b"\xff\xfe"),
        "a flexible header without tags": framed(struct.pack(">hhih", 3, 12, 1, -1)),
        "a header with too many tags": framed(struct.pack(">hhih", 3, 12, 1, -1) + b"\xff\xff\xff\xff\x07"),
        **{f"a header of {size} bytes": framed(whole[4 : 4 + size]) for size in (1, 2, 4, 7, 8, 9)},
    }.items():
        yield Input(f"frame: {name}", sent)


def addressing() -> Iterator[Input]:
    for key in (-1, 15, 99, 9999, 32767):
        yield Input(f"API {key}", request(key, 0, 1, b"", False))
    highest = {0: 13, 1: 18, 2: 11, 3: 13, 19: 7, 20: 6, 21: 2, 22: 6, 23: 4, 32: 4, 37: 3, 44: 1, 55: 2, 60: 2, 75: 0}
    for key, version in highest.items():
        for bad in (-1, version + 1, 32767):
            yield Input(f"API {key} version {bad}", request(key, bad, 1, bytes(60), version > 3))
    for key, version in ((0, 0), (0, 2), (1, 0), (1, 3), (2, 0), (19, 1), (20, 0), (23, 1), (32, 0)):
        yield Input(f"API {key} version {version}, which is gone", request(key, version, 1, bytes(60), False))
    for version in (5, 99, 32767, -1):
        sent = request(18, version, 1, b"what a future version may hold", True)
        yield Input(f"ApiVersions version {version}", sent, (Reply(ApiVersionsResponse, 0),))
    for name, release in (("bad name", "1"), ("", "1"), ("-a", "1"), ("a.", "1"), ("a", ""), ("a", "1_0"), ("ü", "1")):
        body = ApiVersionsRequest(client_software_name=name, client_software_version=release)
        yield Input(f"ApiVersions of {name!r} {release!r}", asked(body, 3), (Reply(ApiVersionsResponse, 3),))


def bodies(target: Target) -> Iterator[Input]:
    """Well-formed requests cut, lengthened, and with lies in every place where a length may stand."""
    listed = ListOffsetsRequest(
        replica_id=-1,
        topics=[ListOffsetsTopic(name=target.topic, partitions=[ListOffsetsPartition(timestamp=-1)])],
    )
    create = CreateTopicsRequest(topics=[CreatableTopic(name="bad/name", num_partitions=1, replication_factor=1)])
    software = ApiVersionsRequest(client_software_name="a", client_software_version="1")
    every_topic = MetadataRequest(topics=[])
    for message, response, version in (
        (produce(target, bytes(good_batch())), ProduceResponse, 8),
        (produce(target, bytes(good_batch())), ProduceResponse, 9),
        (fetch(target, 11), FetchResponse, 11),
        (fetch(target, 12), FetchResponse, 12),
        (listed, ListOffsetsResponse, 5),
        (listed, ListOffsetsResponse, 7),
        (create, CreateTopicsResponse, 4),
        (create, CreateTopicsResponse, 7),
        (software, ApiVersionsResponse, 3),
        (every_topic, None, 8),
        (every_topic, None, 9),
    ):
        body = message.encode(version)
        name = f"{type(message).__name__} v{version}"
        flexible = version >= message.FLEXIBLE
        replies = () if response is None else (Reply(response, version),)
        places = sorted({0, 1, 2, len(body) // 3, len(body) // 2, len(body) - 2, len(body) - 1} & set(range(len(body))))
        for at in places:
            yield Input(f"{name} cut at {at}", request(message.API_KEY, version, 1, body[:at], flexible), replies)
        if replies:
            more = request(message.API_KEY, version, 1, body + b"\xff" * 9, flexible)
            yield Input(f"{name} with bytes behind it", more, replies)
        if flexible and replies:
            for label, tags in {
                "an unknown tag": b"\x01\x63\x01\x00",
                "an unknown tag twice": b"\x02\x63\x00\x63\x00",
                "tags out of order": b"\x02\x63\x00\x62\x00",
                "2^31-1 tags": b"\xff\xff\xff\xff\x07",
                "a tag longer than the bytes": b"\x01\x63\x7f",
                "an endless varint": b"\xff" * 10,
            }.items():
                yield Input(
                    f"{name} with {label}", request(message.API_KEY, version, 1, body[:-1] + tags, True), replies
                )


def lies() -> Iterator[Input]:
    """Counts and lengths that no frame can keep."""
    for label, body in {
        "2^31-1 topics": struct.pack(">i", 2**31 - 1),
        "-2 topics": struct.pack(">i", -2),
        "one topic of a negative name": struct.pack(">ih", 1, -1),
        "a name longer than the bytes": struct.pack(">ih", 1, 30_000),
        "a name that is not UTF-8": struct.pack(">ih", 1, 2) + b"\xff\xff\x00",
    }.items():
        yield Input(f"Metadata v4: {label}", request(3, 4, 1, body, False))
    for label, body in {
        "2^31-1 topics": b"\xff\xff\xff\xff\x07",
        "2^32-1 topics": b"\xff\xff\xff\xff\x0f",
        "an endless count": b"\xff" * 8,
    }.items():
        yield Input(f"Metadata v12: {label}", request(3, 12, 1, body, True))
    for label, body in {
        "null topics": struct.pack(">hhii", -1, -1, 1000, -1),
        "records of negative length": struct.pack(">hhiih1siii", -1, -1, 1000, 1, 1, b"x", 1, 0, -7),
        "records beyond the bytes": struct.pack(">hhiih1siii", -1, -1, 1000, 1, 1, b"x", 1, 0, 1 << 30),
    }.items():
        yield Input(f"Produce v8: {label}", request(0, 8, 1, body, False), (Reply(ProduceResponse, 8),))


def _with_field(batch: bytes, name: str, value: int) -> bytes:
    fields: dict[str, Any] = {name: value}
    return with_header(batch, **fields)


def batches(target: Target) -> Iterator[Input]:
    """What Kafka answers to each wrong field of a batch whose checksum is right, and to damaged records."""
    good = bytes(good_batch())
    for name, size in FIELDS.items():
        top = 1 << 8 * size - 1
        for value in (-top, -1, 0, 1, 3, 0x10, 0x20, top - 1):
            if -top <= value < top:
                yield produced(f"{name}={value}", target, _with_field(good, name, value))
    random = Random("batches")
    for number in range(80):
        yield produced(f"damaged batch {number}", target, hostile_batch(random))


def every_input(target: Target) -> list[Input]:
    listed = [*framing(), *addressing(), *bodies(target), *lies(), *batches(target)]
    assert len({given.name for given in listed}) == len(listed)
    return [*listed, *topics(), *reads(target)]


def topics() -> Iterator[Input]:
    reply = (Reply(CreateTopicsResponse, 7),)
    names = ("", ".", "..", "a/b", "ä", "x" * 250, "with space", "__cluster_metadata", "new\nline")
    for name in names:
        create = CreateTopicsRequest(
            topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1)], validate_only=True
        )
        yield Input(f"create {name[:20]!r}", asked(create, 7), reply)
    for label, partitions, factor in (
        ("no partitions", 0, 1),
        ("-2 partitions", -2, 1),
        ("no replicas", 1, 0),
        ("2 replicas", 1, 2),
        ("32767 replicas", 1, 32767),
        ("2^31-1 partitions", 2**31 - 1, 1),
        ("10001 partitions", 10_001, 1),
    ):
        topic = CreatableTopic(name="proposed", num_partitions=partitions, replication_factor=factor)
        yield Input(f"create with {label}", asked(CreateTopicsRequest(topics=[topic], validate_only=True), 7), reply)
    twice = [CreatableTopic(name="twice", num_partitions=1, replication_factor=1) for _ in range(2)]
    yield Input("create one topic twice", asked(CreateTopicsRequest(topics=twice, validate_only=True), 7), reply)
    for key, value in (("no.such.setting", "1"), ("retention.ms", "soon"), ("retention.ms", None), ("", "")):
        topic = CreatableTopic(
            name="proposed",
            num_partitions=1,
            replication_factor=1,
            configs=[CreatableTopicConfig(name=key, value=value)],
        )
        create = CreateTopicsRequest(topics=[topic], validate_only=True)
        yield Input(f"create with {key!r}={value!r}", asked(create, 7), reply)


def reads(target: Target) -> Iterator[Input]:
    for version in (4, 11, 12, 13, 18):
        reply = (Reply(FetchResponse, version),)
        for offset in (-(2**63), -2, -1, 10**9, 2**63 - 1):
            yield Input(f"fetch v{version} at {offset}", asked(fetch(target, version, offset), version), reply)
        for partition in (-1, 3, 2**31 - 1):
            sent = asked(fetch(target, version, partition=partition), version)
            yield Input(f"fetch v{version} of partition {partition}", sent, reply)
        if version >= 9:
            yield Input(f"fetch v{version} in epoch 99", asked(fetch(target, version, epoch=99), version), reply)
            yield Input(f"fetch v{version} in epoch -5", asked(fetch(target, version, epoch=-5), version), reply)
        for session, epoch in ((123, 5), (0, 5), (123, -1), (-7, 3), (0, -9)) if version >= 7 else ():
            again = fetch(target, version)
            again.session_id, again.session_epoch = session, epoch
            yield Input(f"fetch v{version} in session {session} epoch {epoch}", asked(again, version), reply)
    for when in (-(2**63), -9, -8, -7, -6, -5, -4, -3, -2, -1, 0, 2**63 - 1):
        for version in (1, 7, 11):
            row = ListOffsetsPartition(timestamp=when)
            listed = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=target.topic, partitions=[row])])
            yield Input(f"offset v{version} at {when}", asked(listed, version), (Reply(ListOffsetsResponse, version),))
    for label, row in {
        "partition -1": ListOffsetsPartition(partition_index=-1, timestamp=-1),
        "partition 7": ListOffsetsPartition(partition_index=7, timestamp=-1),
        "epoch 99": ListOffsetsPartition(timestamp=-1, current_leader_epoch=99),
    }.items():
        listed = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=target.topic, partitions=[row])])
        yield Input(f"offset of {label}", asked(listed, 7), (Reply(ListOffsetsResponse, 7),))
