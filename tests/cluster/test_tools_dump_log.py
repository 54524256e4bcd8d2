"""dump-log prints what Apache's DumpLogSegments prints, on files that Apache Kafka wrote."""

from __future__ import annotations

import shutil
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer as ForeignConsumer

from highwater.client import Admin, Client, NewTopic, Producer
from highwater.model import TopicPartition
from highwater.wire.compression import Codec
from highwater.wire.records import walk
from tests.apache import Ran
from tests.cluster.nodes import wait_until
from tests.cluster.tools import Call, Server, apache, call, difference, ours, reason

LOG = "00000000000000000000.log"
RECORDS = [
    (1_500_000_000_000, b"key", b"value", [("h", b"1"), ("i", None)]),
    (1_500_000_000_007, None, b"no key", []),
    (1_500_000_000_003, b"no value", None, []),
    (1_500_000_000_004, b"", "\u00e4\u20ac \U0001f30a".encode(), [("", b""), ("\u00e4", b"x")]),
]


def fill(server: Server) -> None:
    """A topic with every codec, idempotent and not; one with several segments; one stamped by the broker."""
    with Client(server.bootstrap) as client:
        small = {"segment.bytes": "1048576", "index.interval.bytes": "4096", "retention.ms": "-1"}
        Admin(client).create_topics(
            [
                NewTopic("dump-codecs", partitions=1, configs={"retention.ms": "-1"}),
                NewTopic("dump-segments", partitions=1, configs=small),
                NewTopic("dump-times", partitions=1, configs={"message.timestamp.type": "LogAppendTime"}),
            ]
        )
        for codec in Codec:
            for idempotent in (True, False):
                producer = Producer(client, codec=codec, idempotent=idempotent)
                producer.send(TopicPartition("dump-codecs", 0), RECORDS)
                producer.send(TopicPartition("dump-codecs", 0), RECORDS)
        producer = Producer(client)
        for number in range(150):
            at = 1_500_000_000_000 + 1000 * number
            producer.send(TopicPartition("dump-segments", 0), [(at + i, b"k%d" % i, bytes(2000), ()) for i in range(5)])
        producer.send(TopicPartition("dump-times", 0), RECORDS)


def join_a_group(server: Server) -> None:
    """Leaves members and offsets in __consumer_offsets."""
    consumer = ForeignConsumer(
        {
            "bootstrap.servers": server.bootstrap,
            "group.id": "dump",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    consumer.subscribe(["dump-codecs"])
    deadline = time.monotonic() + 120
    while (message := consumer.poll(0.5)) is None or message.error() is not None:
        assert time.monotonic() < deadline, "no record came"
    consumer.commit(message, asynchronous=False)
    consumer.close()


@pytest.fixture(scope="module")
def copied(server: Server, transactional_topic: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what the cases read: both tools see the same bytes while the server goes on writing."""
    fill(server)
    join_a_group(server)
    wait_until(lambda: any((server.log_dir / "dump-segments-0").glob("*.snapshot")))
    target = tmp_path_factory.mktemp("dump") / "data"
    target.mkdir()
    for name in ("meta.properties", "bootstrap.checkpoint"):
        shutil.copy(server.log_dir / name, target)
    # No others: topics that other tests have deleted may vanish meanwhile, file by file.
    for pattern in (
        "dump-*",
        "tools-transactions-0",
        "__cluster_metadata-0",
        "__consumer_offsets-*",
        "__transaction_*",
    ):
        for source in server.log_dir.glob(pattern):
            if any(log.stat().st_size for log in source.glob("*.log")):
                shutil.copytree(source, target / source.name, ignore=shutil.ignore_patterns("*.tmp", "*.part"))
    return target


def segments(copied: Path, partition: str, suffix: str) -> str:
    return ",".join(str(path) for path in sorted((copied / partition).glob("*" + suffix)))


def offsets_partition(copied: Path) -> str:
    """Where the group of these tests is coordinated; others have their groups in others."""
    return next(path.parent.name for path in copied.glob(f"__consumer_offsets-*/{LOG}") if b"dump" in path.read_bytes())


def non_empty_transactions_partition(copied: Path) -> str:
    return next(path.parent.name for path in copied.glob(f"__transaction_state-*/{LOG}") if path.stat().st_size)


def cases(copied: Path, is_ours: bool) -> Iterator[Call]:
    codecs = segments(copied, "dump-codecs-0", ".log")
    yield call("dump-log", "--files", codecs)
    yield call("dump-log", "--files", codecs, "--deep-iteration")
    yield call("dump-log", "--files", codecs, "--print-data-log")
    yield call("dump-log", "--files", codecs, "--print-data-log", "--skip-record-metadata")
    yield call("dump-log", "--files", codecs, "--max-bytes", "700")
    yield call("dump-log", "--files", segments(copied, "dump-times-0", ".log"), "--print-data-log")
    for suffix in (".log", ".index", ".timeindex", ".snapshot"):
        yield call("dump-log", "--files", segments(copied, "dump-segments-0", suffix))
    indexes = segments(copied, "dump-segments-0", ".index") + "," + segments(copied, "dump-segments-0", ".timeindex")
    yield call("dump-log", "--files", indexes, "--verify-index-only")
    yield call("dump-log", "--files", indexes, "--index-sanity-check")
    transactions = segments(copied, "tools-transactions-0", ".log")
    yield call("dump-log", "--files", transactions, "--print-data-log")
    metadata = segments(copied, "__cluster_metadata-0", ".log")
    yield call("dump-log", "--files", metadata)
    yield call("dump-log", "--files", metadata, "--cluster-metadata-decoder")
    yield call("dump-log", "--files", metadata, "--cluster-metadata-decoder", "--skip-record-metadata")
    snapshots = segments(copied, "__cluster_metadata-0", ".checkpoint") + f",{copied}/bootstrap.checkpoint"
    yield call("dump-log", "--files", snapshots, "--cluster-metadata-decoder")
    offsets = segments(copied, offsets_partition(copied), ".log")
    yield call("dump-log", "--files", offsets, "--offsets-decoder")
    if not is_ours:
        yield from of_transactions(copied)
    yield call("dump-log", "--files", f"{copied}/meta.properties")
    yield from damaged(copied)
    yield call("dump-log", "--print-data-log")


def of_transactions(copied: Path) -> Iterator[Call]:
    """What only a cluster with transactions has."""
    yield call("dump-log", "--files", segments(copied, "tools-transactions-0", ".txnindex"))
    states = segments(copied, non_empty_transactions_partition(copied), ".log")
    yield call("dump-log", "--files", states, "--transaction-log-decoder")


def damaged(copied: Path) -> Iterator[Call]:
    """A tail cut off, a byte flipped, indexes that do not fit their log."""
    for name, change in (
        ("torn", lambda data: data[:-9]),
        ("flipped", lambda data: data[:80] + bytes([data[80] ^ 1]) + data[81:]),
    ):
        directory = copied / name
        shutil.copytree(copied / "dump-codecs-0", directory)
        (directory / LOG).write_bytes(change((directory / LOG).read_bytes()))
        yield call("dump-log", "--files", str(directory / LOG))
    directory = copied / "strange-index"
    directory.mkdir()
    log = Path(shutil.copy(copied / "dump-codecs-0" / LOG, directory))
    first, second, third = [(pos, header) for pos, _, header in walk(log.read_bytes())][:3]
    offsets = [(second[1].last_offset, first[0]), (third[1].last_offset, third[0])]
    log.with_suffix(".index").write_bytes(b"".join(struct.pack(">ii", *entry) for entry in offsets))
    late, early = RECORDS[1][0] + 5, RECORDS[1][0]
    times = [(late, second[1].last_offset), (early, third[1].last_offset), (late, third[1].last_offset + 1)]
    log.with_suffix(".timeindex").write_bytes(b"".join(struct.pack(">qi", *entry) for entry in times))
    yield call("dump-log", "--files", segments(copied, "strange-index", "index"))


@pytest.fixture(scope="module")
def compared(server: Server, copied: Path) -> list[tuple[Call, Ran, Ran]]:
    calls = list(cases(copied, server.is_ours))
    return [(each, expected, ours(each)) for each, expected in zip(calls, apache(calls), strict=True)]


def test_every_file_is_dumped_as_apache_dumps_it(compared: list[tuple[Call, Ran, Ran]]) -> None:
    for each, expected, found in compared:
        theirs = expected.stdout.splitlines()
        assert found.stdout.splitlines() == theirs, f"{each.args}: {difference(theirs, found.stdout.splitlines())}"


def test_complaints_are_the_same(compared: list[tuple[Call, Ran, Ran]]) -> None:
    complaints = 0
    for each, expected, found in compared:
        if expected.rc == 0:
            theirs = [line for line in expected.stderr.splitlines() if not line.startswith("SLF4J")]
            assert found.stderr.splitlines() == theirs, each.args
            complaints += bool(theirs)
        else:
            # Apache's may begin with the name of a Java exception.
            assert found.stderr
            assert reason(expected.stderr).endswith(reason(found.stderr))
        assert found.rc == expected.rc, each.args
    assert complaints >= 2


TRANSACTIONS = (
    "endTxnMarker: COMMIT",
    "endTxnMarker: ABORT",
    '"transactionalId":"tools"',
    "lastStableOffset: ",
)


def test_the_samples_hold_what_they_are_for(server: Server, compared: list[tuple[Call, Ran, Ran]]) -> None:
    """Or the comparison would say little: every codec, markers, several segments, tombstones of groups."""
    text = "\n".join(found.stdout for _, _, found in compared)

    for codec in Codec:
        assert f"compresscodec: {codec.name.lower()}" in text
    for part in (
        "LogAppendTime: ",
        "isvalid: false",
        "invalid bytes at the end of",
        "passed sanity check.",
        "LeaderChange: {",
        "KRaftVoters {",
        '"type":"REGISTER_BROKER_RECORD"',
        '"type":"PARTITION_RECORD"',
        "firstSequence: ",
        '"group":"dump"',
    ):
        assert part in text
    for part in TRANSACTIONS:
        assert (part in text) is not server.is_ours
    assert text.count("Log starting offset: ") > text.count("Log starting offset: 0\n")


def test_text_checkpoints_are_listed_too(copied: Path) -> None:
    """Apache's tool passes them over."""
    epochs, marks = copied / "dump-codecs-0/leader-epoch-checkpoint", copied / "replication-offset-checkpoint"
    marks.write_text("0\n1\ndump-codecs 0 80\n")
    found = ours(call("dump-log", "--files", f"{epochs},{marks}"))

    assert found.stdout.splitlines() == [
        f"Dumping {epochs}",
        "epoch: 0 startOffset: 0",
        f"Dumping {marks}",
        "topic: dump-codecs partition: 0 offset: 80",
    ]
