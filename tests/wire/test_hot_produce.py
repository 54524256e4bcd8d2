"""The flat codec of Produce against the generated one."""

from __future__ import annotations

from random import Random

import pytest

from highwater.wire import produce
from highwater.wire.codec import Malformed
from highwater.wire.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from highwater.wire.messages.produce_response import LeaderIdAndEpoch, PartitionProduceResponse, ProduceResponse
from tests.wire.specimens import specimen

VERSIONS = range(ProduceRequest.VERSIONS[0], ProduceRequest.VERSIONS[1] + 1)
NO_LEADER = LeaderIdAndEpoch()


def flattened(request: ProduceRequest, version: int) -> tuple[object, ...]:
    topics = [
        (
            topic.topic_id if version >= 13 else topic.name,
            [(partition.index, partition.records) for partition in topic.partition_data],
        )
        for topic in request.topic_data
    ]
    return request.transactional_id, request.acks, request.timeout_ms, topics


def row(partition: PartitionProduceResponse) -> produce.PartitionRow:
    leader = partition.current_leader
    return (
        partition.index,
        partition.error_code,
        partition.base_offset,
        partition.log_append_time_ms,
        partition.log_start_offset,
        [(bad.batch_index, bad.batch_index_error_message) for bad in partition.record_errors] or None,
        partition.error_message,
        None if leader == NO_LEADER else (leader.leader_id, leader.leader_epoch),
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_requests_decode_to_what_the_generated_class_reads(version: int) -> None:
    random = Random(version)
    for _ in range(200):
        request = specimen(ProduceRequest, version, random)
        assert produce.decode_request(request.encode(version), version) == flattened(request, version)


@pytest.mark.parametrize("version", VERSIONS)
def test_responses_are_encoded_as_the_generated_class_writes(version: int) -> None:
    random = Random(version)
    for _ in range(200):
        response = specimen(ProduceResponse, version, random, foreign=False)
        topics = [
            (
                topic.topic_id if version >= 13 else topic.name,
                [row(partition) for partition in topic.partition_responses],
            )
            for topic in response.responses
        ]
        endpoints = [(node.node_id, node.host, node.port, node.rack) for node in response.node_endpoints]
        encoded = produce.encode_response(version, topics, response.throttle_time_ms, endpoints)
        assert encoded == response.encode(version)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_cut_anywhere_is_malformed(version: int) -> None:
    random = Random(version)
    raw = max((specimen(ProduceRequest, version, random).encode(version) for _ in range(5)), key=len)
    for end in range(len(raw)):
        with pytest.raises(Malformed):
            produce.decode_request(raw[:end], version)


@pytest.mark.parametrize("version", VERSIONS)
def test_mangled_requests_are_read_or_refused_as_the_generated_class_does(version: int) -> None:
    random = Random(version)
    for _ in range(2000):
        raw = bytearray(specimen(ProduceRequest, version, random).encode(version))
        for _ in range(random.choice((1, 2))):
            raw[random.randrange(len(raw))] = random.choice((0, 1, 2, 0x7F, 0x80, 0xFF))
        try:
            expected = flattened(ProduceRequest.decode(raw, version), version)
        except Malformed:
            with pytest.raises(Malformed):
                produce.decode_request(raw, version)
        else:
            assert produce.decode_request(raw, version) == expected


@pytest.mark.parametrize("version", [9, 13])
def test_more_partitions_than_the_size_allows_are_malformed(version: int) -> None:
    topic = TopicProduceData(partition_data=[PartitionProduceData(records=b"")] * 50_000)
    raw = ProduceRequest(topic_data=[topic]).encode(version)
    with pytest.raises(Malformed, match="more elements than"):
        produce.decode_request(raw, version)
    raw = ProduceRequest(topic_data=[TopicProduceData()] * 20_000).encode(9)
    with pytest.raises(Malformed, match="more elements than"):
        produce.decode_request(raw, 9)


def test_partitions_of_many_topics_are_charged_together() -> None:
    topic = TopicProduceData(partition_data=[PartitionProduceData(records=b"")] * 20)
    raw = ProduceRequest(topic_data=[topic] * 3_000).encode(9)
    with pytest.raises(Malformed, match="more elements than"):
        produce.decode_request(raw, 9)


def test_counts_beyond_the_bytes_that_remain_are_refused_at_once() -> None:
    body = ProduceRequest().encode(9)[:7]
    with pytest.raises(Malformed, match="9 elements announced, 5 bytes remain"):
        produce.decode_request(body + b"\x0a" + bytes(5), 9)
    with pytest.raises(Malformed, match="2147483646 elements announced"):
        produce.decode_request(body + b"\xff\xff\xff\xff\x07" + bytes(5), 9)


def test_a_topic_name_longer_than_kafka_takes_is_malformed() -> None:
    body = ProduceRequest().encode(9)[:7]
    with pytest.raises(Malformed, match="a string of 32768 bytes"):
        produce.decode_request(body + b"\x02\x81\x80\x02" + bytes(40_000), 9)


def test_records_are_a_view_of_the_request_and_not_a_copy() -> None:
    topic = TopicProduceData(name="t", partition_data=[PartitionProduceData(index=1, records=b"batch")])
    for version in (3, 9):
        frame = bytearray(ProduceRequest(acks=1, topic_data=[topic]).encode(version))
        [(_, [(_, records)])] = produce.decode_request(memoryview(frame), version).topics
        assert records is not None
        records[:] = b"BATCH"
        assert b"BATCH" in frame


def test_leader_hints_are_left_out_of_versions_that_cannot_carry_them() -> None:
    def encoded(version: int, leader: tuple[int, int] | None, endpoints: list[tuple[int, str, int, None]]) -> bytes:
        rows: list[produce.PartitionRow] = [(0, 6, -1, -1, -1, None, None, leader)]
        return produce.encode_response(version, [("t", rows)], 0, endpoints)

    for version in (3, 8, 9):
        assert encoded(version, (1, 2), [(1, "h", 9092, None)]) == encoded(version, None, [])
    assert encoded(10, (1, 2), [(1, "h", 9092, None)]) != encoded(10, None, [])
