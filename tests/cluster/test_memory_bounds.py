"""A node's memory is bounded by its settings, not by what peers announce, refuse to read, or have inflated."""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from time import monotonic, time_ns

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from highwater.errors import Code
from highwater.wire.compression import Codec, compress
from highwater.wire.messages.fetch_response import FetchResponse
from highwater.wire.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from highwater.wire.messages.produce_response import ProduceResponse
from highwater.wire.records import build
from highwater.wire.records import header as layout
from highwater.wire.records.header import HEADER_SIZE
from tests.cluster.greedy_groups import await_coordinator, join_many_groups
from tests.cluster.hostile_inputs import Target, create, fetch, produce
from tests.cluster.nodes import Node, wait_until
from tests.cluster.peer import Peer, asked
from tests.cluster.unread_answers import leave_unread, make_large_group
from tests.wire.bombs import PART, zstd_of_runs

LIMIT = 300 * 1024 * 1024
ANNOUNCED = 100 * 1024 * 1024
NOW = time_ns() // 1_000_000


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with running(tmp_path_factory.mktemp("memory")) as made:
        yield made


@contextmanager
def running(directory: Path, properties: Mapping[str, str] | None = None) -> Iterator[Node]:
    made = Node.fresh(directory, properties)
    try:
        yield made.start()
        assert "Traceback" not in made.output, made.output[-3000:]
    finally:
        made.kill()


@pytest.fixture(scope="module")
def target(node: Node) -> Target:
    return Target("bounded", create(node.port, "bounded"))


def peak(node: Node) -> int:
    """The most that the process ever had in memory, in bytes."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{node.pid}/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


def processor_seconds(node: Node) -> float:
    """What the process has had of the processors: no matter who else wants them."""
    user, system = Path(f"/proc/{node.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def serve(node: Node, target: Target) -> None:
    """A record goes in and comes out again. How soon depends on what else the loop and the machine have to do."""
    with Peer(node.port) as peer:
        batch = bytes(build([(NOW, b"key", b"value", ())]))
        row = peer.ask(produce(target, batch, partition=2), 9, ProduceResponse).responses[0].partition_responses[0]
        assert row.error_code == 0
        read = peer.ask(fetch(target, 12, row.base_offset, partition=2), 12, FetchResponse)
        assert read.responses[0].partitions[0].error_code == 0
        records = read.responses[0].partitions[0].records
        assert records is not None
        assert len(records) == len(batch)


def settle(node: Node, target: Target) -> None:
    """Serve until what was sent before has been taken in: memory has grown as far as it does."""
    calm, most = 0, peak(node)
    deadline = monotonic() + 30
    while calm < 40 and monotonic() < deadline:
        serve(node, target)
        now = peak(node)
        calm, most = (calm + 1, most) if now - most < 1 << 20 else (0, now)
    assert peak(node) < LIMIT, f"{peak(node):,} bytes"


def stall(node: Node, peers: ExitStack, count: int) -> None:
    """Announce much, and send nothing of it, a little, or more than all of them together may keep."""
    for number in range(count):
        peer = peers.enter_context(Peer(node.port))
        peer.send_at_most(struct.pack(">i", ANNOUNCED) + bytes((0, 100, 40_000, 1_000_000)[number % 4]))


def test_a_thousand_connections_that_announce_100_mib_and_stall(node: Node, target: Target) -> None:
    with ExitStack() as peers:
        stall(node, peers, 1_000)
        settle(node, target)
    settle(node, target)


def fill(node: Node, target: Target) -> None:
    filling = bytes(build([(NOW, None, bytes(900_000), ())]))
    with Peer(node.port) as producer:
        for _ in range(10):
            row = producer.ask(produce(target, filling), 9, ProduceResponse).responses[0].partition_responses[0]
            assert row.error_code == 0


def deafen(node: Node, target: Target, peers: ExitStack, count: int) -> list[Peer]:
    """Consumers that ask for a hundred megabytes each in fetches that they pipeline, and take none of it."""
    wanted = fetch(target, 12)
    wanted.max_bytes = wanted.topics[0].partitions[0].partition_max_bytes = 50 << 20
    deaf = [peers.enter_context(Peer(node.port, receive_buffer=4096)) for _ in range(count)]
    for peer in deaf:
        peer.send_at_most(b"".join(asked(wanted, 12, number) for number in range(12)))
    return deaf


def test_a_hundred_consumers_that_stop_reading(node: Node, target: Target) -> None:
    fill(node, target)
    with ExitStack() as peers:
        deaf = deafen(node, target, peers, 100)
        settle(node, target)
        answer = deaf[0].answer()
        assert answer is not None, "one that reads again gets what it asked for"
        assert len(answer) > 9_000_000
    settle(node, target)


@pytest.fixture(scope="module")
def large_group(node: Node) -> None:
    make_large_group(node.port)


@pytest.mark.usefixtures("large_group")
def test_sixty_connections_that_do_not_read_their_answers(node: Node, target: Target) -> None:
    with ExitStack() as peers:
        leave_unread(node.port, peers, 60)
        settle(node, target)
    settle(node, target)


BOMBS: dict[str, tuple[Codec, Callable[[], bytes]]] = {
    "gzip": (Codec.GZIP, lambda: bytes(compress(Codec.GZIP, bytes(PART))) * 14),
    "snappy": (Codec.SNAPPY, lambda: bytes(compress(Codec.SNAPPY, bytes(20 << 20)))),
    "snappy that declares 4 GiB": (Codec.SNAPPY, lambda: b"\xff\xff\xff\xff\x0f" + bytes(100)),
    "lz4": (Codec.LZ4, lambda: bytes(compress(Codec.LZ4, bytes(PART))) * 3),
    "zstd": (Codec.ZSTD, lambda: zstd_of_runs(17)),
    "zstd with a window of 128 MiB": (Codec.ZSTD, lambda: zstd_of_runs(27)),
}


@cache
def bomb(name: str) -> bytes:
    codec, packed = BOMBS[name]
    batch = bytearray(build([(NOW, b"k", b"v", ())], codec=codec))
    batch[HEADER_SIZE:] = packed()
    layout.seal(batch, 0, len(batch))
    return bytes(batch)


@pytest.mark.parametrize("name", BOMBS)
def test_a_decompression_bomb(node: Node, target: Target, name: str) -> None:
    """Inflates to more than a produced batch may, in less than message.max.bytes."""
    spent = processor_seconds(node)
    with ExitStack() as peers:
        senders = [peers.enter_context(Peer(node.port)) for _ in range(4)]
        for sender in senders:
            sender.send(asked(produce(target, bomb(name), bytes(build([(NOW, b"k", b"v", ())]))), 9))
        for sender in senders:
            answer = sender.answer()
            assert answer is not None
            rows = ProduceResponse.decode(answer[5:], 9).responses[0].partition_responses
            assert [row.error_code for row in rows] in ([10, 0], [87, 0]), "refused, and its neighbour is not"
    assert processor_seconds(node) - spent < 10
    serve(node, target)
    assert peak(node) < LIMIT, f"{peak(node):,} bytes"


def time_looked_up(target: Target) -> bytes:
    asked_for = ListOffsetsPartition(partition_index=1, timestamp=NOW + 1)
    topics = [ListOffsetsTopic(name=target.topic, partitions=[asked_for])]
    return asked(ListOffsetsRequest(replica_id=-1, topics=topics), 7)


def store_what_inflates(node: Node, target: Target) -> None:
    """As much as a produced batch may: a look-up of a time in it inflates it again."""
    records = [(NOW, None, bytes(60 << 20), ()), (NOW + 1, None, b"", ())]
    with Peer(node.port) as producer:
        stored = produce(target, bytes(build(records, codec=Codec.GZIP)), partition=1)
        assert producer.ask(stored, 9, ProduceResponse).responses[0].partition_responses[0].error_code == 0


@pytest.mark.usefixtures("large_group")
def test_all_kinds_of_greedy_clients_at_once_stay_within_the_memory_bound(node: Node, target: Target) -> None:
    fill(node, target)
    store_what_inflates(node, target)
    with ExitStack() as peers:
        stall(node, peers, 1_000)
        deafen(node, target, peers, 100)
        leave_unread(node.port, peers, 60)
        bombers = [peers.enter_context(Peer(node.port)) for _ in BOMBS]
        for name, bomber in zip(BOMBS, bombers, strict=True):
            bomber.send(asked(produce(target, bomb(name)), 9))
        searchers = [peers.enter_context(Peer(node.port)) for _ in range(8)]
        for searcher in searchers:
            searcher.send(time_looked_up(target))
        settle(node, target)
        for each in bombers + searchers:
            each.answer()  # the attack lasts until all of it is answered, which may be later than others are calm
        settle(node, target)
    settle(node, target)


def test_a_node_still_stops_cleanly_after_greedy_clients(node: Node, target: Target) -> None:
    serve(node, target)
    assert node.stop() == 0
    node.start()
    serve(node, target)


def test_clients_that_fill_a_coordinator_with_groups(tmp_path: Path) -> None:
    """Others get the error at once, and do not ask for ever."""
    with running(tmp_path, {"group.initial.rebalance.delay.ms": "0"}) as node:
        target = Target("bounded", create(node.port, "bounded"))
        await_coordinator(node.port)
        for size in (1_000_000, 100_000, 0):
            assert set(join_many_groups(node.port, size)) == {0, Code.GROUP_MAX_SIZE_REACHED}
        settle(node, target)
        consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": "late", "enable.auto.commit": False})
        try:
            offsets = [TopicPartition(target.topic, index, 1, metadata="m" * 4_000) for index in range(2)]
            with pytest.raises(KafkaException) as refused:
                consumer.commit(offsets=offsets, asynchronous=False)
            assert refused.value.args[0].code() == Code.INVALID_COMMIT_OFFSET_SIZE
            consumer.subscribe([target.topic])

            def is_shown() -> bool:
                message = consumer.poll(0.1)
                error = None if message is None else message.error()
                return error is not None and error.code() == Code.GROUP_MAX_SIZE_REACHED

            wait_until(is_shown)
        finally:
            consumer.close()
