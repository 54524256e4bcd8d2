"""The flat codec of Fetch against the generated one."""

from __future__ import annotations

from random import Random

import pytest

from highwater.wire import fetch
from highwater.wire.codec import Malformed
from highwater.wire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from highwater.wire.messages.fetch_response import (
    EpochEndOffset,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
    SnapshotId,
)
from tests.wire.specimens import specimen

VERSIONS = range(FetchRequest.VERSIONS[0], FetchRequest.VERSIONS[1] + 1)


def flattened(request: FetchRequest, version: int) -> fetch.FetchRequestFlat:
    by_id = version >= 13
    old = version < 15
    return fetch.FetchRequestFlat(
        request.cluster_id,
        request.replica_id if old else request.replica_state.replica_id,
        request.replica_state.replica_epoch,
        request.max_wait_ms,
        request.min_bytes,
        request.max_bytes,
        request.isolation_level,
        request.session_id,
        request.session_epoch,
        [
            (topic.topic_id if by_id else topic.topic, [flat_partition(partition) for partition in topic.partitions])
            for topic in request.topics
        ],
        [(topic.topic_id if by_id else topic.topic, topic.partitions) for topic in request.forgotten_topics_data],
        request.rack_id,
    )


def flat_partition(partition: FetchPartition) -> fetch.FetchPartition:
    return (
        partition.partition,
        partition.current_leader_epoch,
        partition.fetch_offset,
        partition.last_fetched_epoch,
        partition.log_start_offset,
        partition.partition_max_bytes,
        partition.replica_directory_id,
        partition.high_watermark,
    )


def row(partition: PartitionData, random: Random) -> fetch.PartitionRow[bytes]:
    leader, diverging, snapshot = partition.current_leader, partition.diverging_epoch, partition.snapshot_id
    aborted = partition.aborted_transactions
    return (
        partition.partition_index,
        partition.error_code,
        partition.high_watermark,
        partition.last_stable_offset,
        partition.log_start_offset,
        None if aborted is None else [(each.producer_id, each.first_offset) for each in aborted],
        partition.preferred_read_replica,
        None if partition.records is None else pieces(bytes(partition.records), random),
        None if diverging == EpochEndOffset() else (diverging.epoch, diverging.end_offset),
        None if leader == LeaderIdAndEpoch() else (leader.leader_id, leader.leader_epoch),
        None if snapshot == SnapshotId() else (snapshot.end_offset, snapshot.epoch),
    )


def pieces(records: bytes, random: Random) -> list[bytes]:
    cut = random.randint(0, len(records))
    return [part for part in (records[:cut], records[cut:]) if part]


@pytest.mark.parametrize("version", VERSIONS)
def test_requests_decode_to_what_the_generated_class_reads(version: int) -> None:
    random = Random(version)
    for _ in range(200):
        request = specimen(FetchRequest, version, random)
        assert fetch.decode_request(request.encode(version), version) == flattened(request, version)


@pytest.mark.parametrize("version", VERSIONS)
def test_responses_are_encoded_as_the_generated_class_writes(version: int) -> None:
    random = Random(version)
    for _ in range(200):
        response = specimen(FetchResponse, version, random, foreign=False)
        topics = [
            (
                topic.topic_id if version >= 13 else topic.topic,
                [row(partition, random) for partition in topic.partitions],
            )
            for topic in response.responses
        ]
        endpoints = [(node.node_id, node.host, node.port, node.rack) for node in response.node_endpoints]
        parts = fetch.encode_response(
            version, response.throttle_time_ms, response.error_code, response.session_id, topics, endpoints
        )
        assert b"".join(parts) == response.encode(version)


def test_the_parts_of_the_records_are_passed_on_as_they_are() -> None:
    class Slice:
        def __len__(self) -> int:
            return 1000

    one, other = Slice(), Slice()
    rows: list[fetch.PartitionRow[Slice]] = [
        (0, 0, 9, 9, 0, None, -1, [one, other], None, None, None),
        (1, 0, 9, 9, 0, None, -1, [], None, None, None),
    ]
    head, first, second, tail = fetch.encode_response(12, 0, 0, 0, [("t", rows)])
    assert first is one and second is other
    assert isinstance(head, bytearray) and isinstance(tail, bytearray)
    whole = FetchResponse.decode(bytes(head + bytes(2000) + tail), 12)
    assert [len(each.records or b"") for each in whole.responses[0].partitions] == [2000, 0]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_cut_anywhere_is_malformed(version: int) -> None:
    random = Random(version)
    raw = max((specimen(FetchRequest, version, random).encode(version) for _ in range(5)), key=len)
    for end in range(len(raw)):
        with pytest.raises(Malformed):
            fetch.decode_request(raw[:end], version)


@pytest.mark.parametrize("version", VERSIONS)
def test_mangled_requests_are_read_or_refused_as_the_generated_class_does(version: int) -> None:
    random = Random(version)
    for _ in range(1500):
        raw = bytearray(specimen(FetchRequest, version, random).encode(version))
        for _ in range(random.choice((1, 2))):
            raw[random.randrange(len(raw))] = random.choice((0, 1, 2, 0x7F, 0x80, 0xFF))
        try:
            expected = flattened(FetchRequest.decode(raw, version), version)
        except Malformed:
            with pytest.raises(Malformed):
                fetch.decode_request(raw, version)
        else:
            assert fetch.decode_request(raw, version) == expected


@pytest.mark.parametrize("version", [4, 12])
def test_more_topics_than_the_size_allows_are_malformed(version: int) -> None:
    raw = FetchRequest(topics=[FetchTopic()] * 50_000).encode(version)
    with pytest.raises(Malformed, match="more elements than"):
        fetch.decode_request(raw, version)
    raw = FetchRequest(forgotten_topics_data=[ForgottenTopic()] * 50_000).encode(12)
    with pytest.raises(Malformed, match="more elements than"):
        fetch.decode_request(raw, 12)


def test_a_tag_of_a_later_version_is_malformed() -> None:
    replica_state = bytes([1, 1, 13]) + bytes(13)
    for version, refused in ((12, True), (14, True), (15, False)):
        raw = FetchRequest().encode(version)[:-1] + replica_state
        if refused:
            with pytest.raises(Malformed, match="tag 1 in version"):
                fetch.decode_request(raw, version)
        else:
            assert fetch.decode_request(raw, version).replica_id == 0


def test_hints_are_left_out_of_versions_that_cannot_carry_them() -> None:
    def encoded(version: int, preferred: int, endpoints: list[tuple[int, str, int, None]]) -> bytes:
        rows: list[fetch.PartitionRow[bytes]] = [(0, 0, 9, 9, 0, None, preferred, None, None, None, None)]
        return b"".join(fetch.encode_response(version, 0, 0, 0, [("t", rows)], endpoints))

    assert encoded(10, 3, []) == encoded(10, -1, [])
    assert encoded(11, 3, []) != encoded(11, -1, [])
    assert encoded(12, -1, [(1, "h", 9092, None)]) == encoded(12, -1, [])
