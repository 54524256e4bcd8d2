"""Every common client, and Apache's own tools, write to a node and read from it: a million records, all as sent."""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import kafka
import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioPartition
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as RdPartition

from highwater.client import Admin, Client, NewTopic
from highwater.wire.compression import Codec
from highwater.wire.records import walk
from tests.apache import run_tool
from tests.cluster import clients
from tests.cluster.clients import FIRST_TIME, STEP, Record, binary_records, text_records, untimed
from tests.cluster.nodes import Node
from tests.cluster.tools import apache as apache_tools
from tests.cluster.tools import call

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("apache")]

COUNT = 100_000
MANY = 300_000
MONOTONIC = 300_000
EVERY_RECORD = MANY + 4 * COUNT + MONOTONIC


class Case(NamedTuple):
    """A writer, what it writes, and who reads it."""

    write: Callable[[str, str, Sequence[Record]], None]
    records: Callable[[], list[Record]]
    timed: bool
    codecs: Sequence[str]
    readers: Sequence[Callable[[str, str, int], Iterator[Record]]]


_RUN_HEADERS = (("run", b"kcat"), ("h", b"x"))
CASES = {
    "confluent-kafka": Case(
        clients.confluent_write,
        lambda: binary_records(MANY),
        True,
        clients.CODECS,
        (clients.confluent_read, clients.aiokafka_read),
    ),
    "kafka-python": Case(
        clients.kafka_python_write,
        lambda: text_records(COUNT),
        True,
        clients.CODECS,
        (clients.confluent_read, clients.kafka_python_read, clients.kcat_read, clients.console_read),
    ),
    "aiokafka": Case(
        clients.aiokafka_write,
        lambda: binary_records(COUNT),
        True,
        clients.CODECS,
        (clients.confluent_read, clients.aiokafka_read),
    ),
    "kcat": Case(
        clients.kcat_write,
        lambda: text_records(COUNT, timed=False, headers=_RUN_HEADERS),
        False,
        clients.CODECS,
        (clients.confluent_read, clients.kcat_read, clients.console_read),
    ),
    "ConsoleProducer": Case(
        clients.console_write,
        lambda: text_records(COUNT, timed=False),
        False,
        clients.CODECS,
        (clients.aiokafka_read, clients.kcat_read, clients.console_read),
    ),
}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    node = Node.fresh(tmp_path_factory.mktemp("clients"), {"log.retention.ms": "-1"})
    try:
        yield node.start()
    finally:
        node.kill()


def create(node: Node, topic: str, **configs: str) -> None:
    with Client(node.bootstrap) as client:
        Admin(client).create_topics([NewTopic(topic, partitions=1, configs=configs)])


def end_of(node: Node, topic: str) -> int:
    """The high watermark that librdkafka got."""
    consumer = Consumer(
        {"bootstrap.servers": node.bootstrap, "group.id": "none", "enable.auto.commit": False, "log_level": 0}
    )
    try:
        return int(consumer.get_watermark_offsets(RdPartition(topic, 0), timeout=120)[1])
    finally:
        consumer.close()


@pytest.mark.parametrize("name", CASES)
def test_records_of_one_client_are_read_by_the_others(node: Node, name: str) -> None:
    case = CASES[name]
    expected = case.records()
    create(node, name)
    began_ms = int(time.time() * 1000)

    case.write(node.bootstrap, name, expected)

    assert end_of(node, name) == len(expected)
    stamps: set[tuple[int | None, ...]] = set()
    for reader in case.readers:
        found = list(reader(node.bootstrap, name, len(expected)))
        if not case.timed:
            stamps.add(tuple(record[0] for record in found))
            found = untimed(found)
        # Not in the assertion itself: a message with all of them would take longer than the test.
        same = found == expected
        assert same, f"{reader.__name__}: {first_difference(found, expected)}"
    if not case.timed:
        (times,) = stamps
        assert all(time is not None and began_ms <= time <= time_now_ms() for time in times)
    assert codecs_in_the_log(node, name) == set(case.codecs)


def time_now_ms() -> int:
    return int(time.time() * 1000)


def first_difference(found: Sequence[Record], expected: Sequence[Record]) -> str:
    for position, (one, other) in enumerate(zip(found, expected, strict=False)):
        if one != other:
            return f"offset {position}: {one!r} instead of {other!r}"
    return f"{len(found)} records instead of {len(expected)}"


def codecs_in_the_log(node: Node, topic: str) -> set[str]:
    """What the batches on disk are compressed with: librdkafka falls back to none without a word."""
    logs = sorted((node.log_dir / f"{topic}-0").glob("*.log"))
    return {Codec(header.attributes & 7).name.lower() for log in logs for _, _, header in walk(log.read_bytes())}


def test_a_tool_of_apache_ends_before_the_next_begins(node: Node) -> None:
    """What the console producer holds it sends at the end of its JVM: here, ahead of the next tool in the same one."""
    create(node, "in-turn")
    where = ["--bootstrap-server", node.bootstrap, "--topic", "in-turn"]
    first = call("console-producer", *where, "--command-property=linger.ms=5000", input="first\n")
    second = call("console-producer", *where, "--sync", input="second\n")

    assert [done.rc for done in apache_tools([first, second])] == [0, 0]

    assert [record[2] for record in clients.confluent_read(node.bootstrap, "in-turn", 2)] == [b"first", b"second"]


def test_the_java_producer_writes_what_it_counts(node: Node) -> None:
    """ProducerPerformance, with values that are its count."""
    create(node, "monotonic")
    limits = ["--num-records", str(MONOTONIC), "--throughput", "-1", "--payload-monotonic"]
    properties = ["compression.type=lz4", "linger.ms=20", "batch.size=200000"]
    main = "org.apache.kafka.tools.ProducerPerformance"
    done = run_tool(
        main, "--bootstrap-server", node.bootstrap, "--topic", "monotonic", *limits, "--command-property", *properties
    )

    assert done.rc == 0, done.stderr
    values = [record[2] for record in clients.confluent_read(node.bootstrap, "monotonic", MONOTONIC)]
    same = values == [b"%d" % number for number in range(MONOTONIC)]
    assert same


def test_a_million_records_were_written(node: Node) -> None:
    """The sum over the tests above."""
    topics = [*CASES, "monotonic"]
    if any(not (node.log_dir / f"{topic}-0").exists() for topic in topics):
        pytest.skip("not all of the tests of this file were run")
    assert sum(end_of(node, topic) for topic in topics) == EVERY_RECORD >= 1_000_000


@pytest.fixture(scope="module")
def timed(node: Node) -> str:
    """A topic whose record n, of 5 000 in several segments and batches, has the time FIRST_TIME + n * STEP."""
    create(node, "timed", **{"segment.bytes": "1048576"})
    producer = Producer({"bootstrap.servers": node.bootstrap, "batch.num.messages": 50, "log_level": 0})
    for n in range(5_000):
        producer.produce("timed", bytes(500), partition=0, timestamp=FIRST_TIME + STEP * n)
    assert producer.flush(120) == 0
    return "timed"


TIMES = {
    FIRST_TIME - 5: 0,
    FIRST_TIME: 0,
    FIRST_TIME + 1: 1,
    FIRST_TIME + 1_234 * STEP: 1_234,
    FIRST_TIME + 1_234 * STEP + 1: 1_235,
    FIRST_TIME + 4_999 * STEP: 4_999,
    FIRST_TIME + 4_999 * STEP + 1: None,
}


def test_confluent_kafka_finds_offsets_by_time(node: Node, timed: str) -> None:
    consumer = Consumer(
        {"bootstrap.servers": node.bootstrap, "group.id": "none", "enable.auto.commit": False, "log_level": 0}
    )
    for when, offset in TIMES.items():
        (found,) = consumer.offsets_for_times([RdPartition(timed, 0, when)], timeout=120)
        assert found.error is None
        # -1 is its name for the end.
        assert found.offset == (-1 if offset is None else offset), when
    consumer.close()


def test_kafka_python_finds_offsets_by_time(node: Node, timed: str) -> None:
    consumer = kafka.KafkaConsumer(bootstrap_servers=node.bootstrap, enable_auto_commit=False)
    partition = kafka.TopicPartition(timed, 0)
    for when, offset in TIMES.items():
        found = consumer.offsets_for_times({partition: when})[partition]
        assert (None if found is None else found.offset) == offset, when
        assert found is None or found.timestamp == FIRST_TIME + STEP * found.offset
    consumer.close()


def test_aiokafka_finds_offsets_by_time(node: Node, timed: str) -> None:
    async def look_up() -> None:
        consumer = AIOKafkaConsumer(bootstrap_servers=node.bootstrap, enable_auto_commit=False)
        await consumer.start()
        partition = AioPartition(timed, 0)
        for when, offset in TIMES.items():
            found = (await consumer.offsets_for_times({partition: when}))[partition]
            assert (None if found is None else found.offset) == offset, when
        await consumer.stop()

    asyncio.run(look_up())


def test_kcat_finds_offsets_by_time(node: Node, timed: str) -> None:
    for when, offset in TIMES.items():
        command = ["kcat", "-Q", "-b", node.bootstrap, "-t", f"{timed}:0:{when}"]
        found = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout
        assert found.split()[:3] == [timed, "[0]", "offset"]
        assert int(found.split()[3]) == (-1 if offset is None else offset), when


def test_apaches_tool_finds_offsets_by_time(node: Node, timed: str) -> None:
    asked: dict[str | int, int | None] = {**TIMES, "earliest": 0, "latest": 5_000, "max-timestamp": 4_999}
    where = ["--bootstrap-server", node.bootstrap, "--topic-partitions", f"{timed}:0", "--time"]
    answers = apache_tools([call("get-offsets", *where, str(when)) for when in asked])
    for (when, offset), answer in zip(asked.items(), answers, strict=True):
        expected = "" if offset is None else f"{timed}:0:{offset}\n"
        assert answer.stdout == expected, (when, answer.stderr)


def test_a_consumer_that_ends_while_it_waits_for_records_ends_at_once(node: Node, timed: str) -> None:
    """It closes its fetch session behind a fetch that waits: that one has to be answered, too. Else it would go on for
    the half minute that a close may take."""
    create(node, "quiet")
    consumer = Consumer(
        {"bootstrap.servers": node.bootstrap, "group.id": "none", "enable.auto.commit": False, "log_level": 0}
    )
    consumer.assign([RdPartition("quiet", 0, 0)])
    assert consumer.poll(0.5) is None
    consumer.close()

    where = ["--bootstrap-server", node.bootstrap, "--topic", timed, "--partition", "0", "--offset", "earliest"]
    patient = [f"--command-property={each}" for each in ("fetch.max.wait.ms=60000", "request.timeout.ms=90000")]
    apache_tools([call("console-consumer", *where, "--max-messages", "1")])  # the JVM has begun, and knows the way
    seconds = []
    while len(seconds) < 3 and min(seconds, default=25.0) >= 25:  # a machine that is busy may be so slow, not each time
        began = time.monotonic()
        (done,) = apache_tools([call("console-consumer", *where, *patient, "--max-messages", "5000")])
        seconds.append(time.monotonic() - began)
        assert done.stdout.count("\n") == 5_000
    assert min(seconds) < 25
