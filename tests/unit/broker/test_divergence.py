"""What docs/divergence.md says of a whole node, shown on one."""

from __future__ import annotations

import struct
from pathlib import PurePath

import crc32c
import pytest

from highwater.broker import k00_produce
from highwater.config import ConfigError
from highwater.errors import Code
from highwater.log.log import Log
from highwater.model import TopicPartition
from highwater.sim import Simulation
from highwater.sim.trace import Event
from highwater.wire import compression, records
from highwater.wire.compression import Codec
from highwater.wire.messages.api_versions_request import ApiVersionsRequest
from highwater.wire.messages.api_versions_response import ApiVersionsResponse
from highwater.wire.messages.find_coordinator_request import FindCoordinatorRequest
from highwater.wire.messages.find_coordinator_response import FindCoordinatorResponse
from highwater.wire.messages.init_producer_id_request import InitProducerIdRequest
from highwater.wire.messages.init_producer_id_response import InitProducerIdResponse
from highwater.wire.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from highwater.wire.messages.produce_response import PartitionProduceResponse, ProduceResponse
from highwater.world.real import JOB_THREADS
from tests.unit.broker.living import CLIENT, DIRECTORY, NODE, Living

NEWER_GROUPS_AND_TRANSACTIONS = (24, 25, 26, 27, 28, 65, 66, 68, 69, 76, 77, 78, 79, 88, 89)


def produce(living: Living, batch: bytes | bytearray, acks: int = -1) -> PartitionProduceResponse:
    data = TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=batch)])
    request = ProduceRequest(acks=acks, timeout_ms=5000, topic_data=[data])
    return living.ask(request, ProduceResponse, 9).responses[0].partition_responses[0]


def batch_of(living: Living, *values: bytes, key: bytes = b"k") -> bytearray:
    now = living.world.clock.wall_ms()
    return records.build([(now, key, value, ()) for value in values])


def log_of(living: Living) -> Log:
    return living.node.broker.store.logs[TopicPartition("t", 0)]


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"log_dirs": "/data,/more"}, "log.dirs: one directory is supported"),
        (
            {"controller_quorum_bootstrap_servers": "", "controller_quorum_voters": f"1@{NODE}:9093,2@other:9093"},
            "a fixed quorum of several voters is not supported",
        ),
    ],
)
def test_one_directory_is_used_and_voters_are_named_by_formatting(settings: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        Living(**settings)


def test_new_groups_and_transactions_are_not_advertised_and_there_are_three_features() -> None:
    with Living().start() as living:
        asked = ApiVersionsRequest(client_software_name="test", client_software_version="1")
        answer = living.ask(asked, ApiVersionsResponse, 4)
        assert not {each.api_key for each in answer.api_keys} & set(NEWER_GROUPS_AND_TRANSACTIONS)
        finalized = {each.name: each.max_version_level for each in answer.finalized_features}
        assert finalized == {"metadata.version": 30, "kraft.version": 1, "eligible.leader.replicas.version": 1}


def test_transactions_and_share_groups_have_no_coordinator() -> None:
    with Living().start() as living:
        for kind, version, code in (
            (1, 4, Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
            (2, 6, Code.UNSUPPORTED_VERSION),
            (2, 5, Code.INVALID_REQUEST),
            (3, 6, Code.INVALID_REQUEST),
        ):
            asked = FindCoordinatorRequest(key_type=kind, coordinator_keys=["a", "b"])
            answer = living.ask(asked, FindCoordinatorResponse, version)
            assert [(each.key, each.error_code) for each in answer.coordinators] == [("a", code), ("b", code)]
        assert "__consumer_offsets" not in living.node.broker.metadata.image.topics.by_name


def test_produce_is_advertised_from_version_0_and_refused_below_3() -> None:
    with Living().start() as living:
        asked = ApiVersionsRequest(client_software_name="test", client_software_version="1")
        answer = living.ask(asked, ApiVersionsResponse, 4)
        assert [each.min_version for each in answer.api_keys if each.api_key == ProduceRequest.API_KEY] == [0]
    assert k00_produce.API.versions[0] == 3


def test_transactions_are_refused_where_they_begin_and_where_they_write() -> None:
    with Living().start() as living:
        living.create_topic("t")
        asked = InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=1000)
        error = living.ask(asked, InitProducerIdResponse, 4).error_code
        assert error == Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        now = living.world.clock.wall_ms()
        of_transaction = records.build(
            [(now, None, b"v", ())], producer_id=7, producer_epoch=0, base_sequence=0, transactional=True
        )
        assert produce(living, of_transaction).error_code == Code.INVALID_TXN_STATE


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.ZSTD])
def test_lengths_that_lie_are_refused_inside_compressed_batches_too(codec: Codec) -> None:
    with Living().start() as living:
        living.create_topic("t")
        plain = batch_of(living, b"v")
        body = bytearray(plain[records.HEADER_SIZE :])
        body[0] += 2
        lying = bytearray(plain[: records.HEADER_SIZE]) + compression.compress(codec, body + b"\0")
        struct.pack_into(">i", lying, 8, len(lying) - 12)
        struct.pack_into(">h", lying, 21, codec)
        struct.pack_into(">I", lying, 17, crc32c.crc32c(lying[21:]))
        assert produce(living, lying).error_code == Code.INVALID_RECORD


def test_flush_ms_is_kept_without_a_flush_scheduler() -> None:
    with Living(log_flush_interval_ms="2000").start() as living:
        living.create_topic("t")
        produce(living, batch_of(living, b"v"))
        living.sim.advance(1.0)
        assert log_of(living).durable_end == 0
        living.sim.advance(1.5)
        assert log_of(living).durable_end == 1


@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize(("interval", "first"), [("1", "sync"), ("2", "send")])
def test_only_if_each_message_is_flushed_do_producers_wait_for_the_sync(acks: int, interval: str, first: str) -> None:
    with Living(log_flush_interval_messages=interval).start() as living:
        living.create_topic("t")
        batch = batch_of(living, b"v", b"w")
        seen: list[str] = []

        def watch(event: Event) -> None:
            synced = event.kind == "sync" and event.subject.endswith("t-0/00000000000000000000.log")
            if event.node == NODE and event.phase == "before" and log_of(living).log_end == 2:
                seen.extend([event.kind] if synced or (event.kind == "send" and CLIENT in event.subject) else [])

        living.sim.on_event(watch)
        assert produce(living, batch, acks).error_code == Code.NONE
        living.sim.advance(1)
        assert seen == sorted(["send", "sync"], key=lambda kind: kind != first)


def test_indexes_are_as_large_as_what_is_in_them() -> None:
    with Living().start() as living:
        living.create_topic("t")
        disk, directory = living.world.disk, DIRECTORY / "t-0"
        found = {name: disk.stat(directory / name) for name in disk.list(directory)}
        assert {name: each.size for name, each in found.items() if each is not None and "index" in name} == {
            "00000000000000000000.index": 0,
            "00000000000000000000.timeindex": 0,
        }


def test_a_log_damaged_below_its_recovery_point_is_refused_and_not_cut() -> None:
    with Living(log_flush_interval_messages="1", log_flush_offset_checkpoint_interval_ms="1000").start() as living:
        living.create_topic("t")
        for value in (b"first", b"second", b"third"):
            produce(living, batch_of(living, value))
        living.sim.advance(120)
        living.sim.crash(NODE)
        file = DIRECTORY / "t-0" / "00000000000000000000.log"
        before = _bytes(living.sim, file)
        living.sim.storage(NODE).damage(file, 65, b"\xff\xff")
        living.reborn().start()
        assert produce(living, batch_of(living, b"fourth")).error_code == Code.KAFKA_STORAGE_ERROR
        assert len(_bytes(living.sim, file)) == len(before)


def _bytes(sim: Simulation, path: PurePath) -> bytes:
    return bytes(sim.storage(NODE).file(path).data)


def test_a_log_damaged_behind_its_recovery_point_is_cut_there() -> None:
    with Living().start() as living:
        living.create_topic("t")
        for value in (b"first", b"second", b"third"):
            produce(living, batch_of(living, value))
        size = log_of(living).segments[0].size
        living.sim.crash(NODE, power_loss=False)
        living.sim.storage(NODE).damage(DIRECTORY / "t-0" / "00000000000000000000.log", size - 1, b"\xff")
        living.reborn().start()
        assert log_of(living).log_end == 2


def test_four_logs_at_most_are_recovered_at_a_time() -> None:
    assert JOB_THREADS == 4
