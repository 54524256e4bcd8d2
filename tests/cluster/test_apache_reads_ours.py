"""Apache's DumpLogSegments finds nothing wrong with our files, and in them are the bytes that the clients sent."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from highwater.client import Admin, Client, NewTopic
from highwater.client import Producer as OurProducer
from highwater.client.offsets import delete_records
from highwater.model import TopicPartition
from highwater.wire.records import walk
from tests.apache import Ran
from tests.cluster import clients
from tests.cluster.clients import CODECS, text_records
from tests.cluster.nodes import Node
from tests.cluster.recorder import Recorder
from tests.cluster.tools import apache as apache_tools
from tests.cluster.tools import call

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("apache")]

RECORDS = 10_000
SMALL, LARGE = 40, 8
COMPLAINTS = re.compile(
    r"isvalid: false|invalid bytes|mismatch|corrupt|fail|error|out of order|could not|is followed by", re.IGNORECASE
)
SMALL_SEGMENTS = {"segment.bytes": "1048576", "retention.ms": "-1"}
OFTEN = {"metadata.log.max.record.bytes.between.snapshots": "2000"}
"""A snapshot of the metadata after every few records."""


def fill(node: Node, topic: str) -> None:
    """Several segments, all codecs, producers that will be in the snapshots; topics come and go."""
    with Client(node.bootstrap) as client:
        admin = Admin(client)
        admin.create_topics([NewTopic(topic, partitions=1, configs=SMALL_SEGMENTS)])
        for number in range(5):
            admin.create_topics([NewTopic(f"{topic}-passing-{number}", partitions=2)])
        admin.delete_topics([f"{topic}-passing-{number}" for number in range(4)])
    clients.confluent_write(node.bootstrap, topic, text_records(RECORDS))
    with Client(node.bootstrap) as client:
        partition = TopicPartition(topic, 0)
        producer = OurProducer(client)
        for number, size in enumerate([5_000] * SMALL + [400_000] * LARGE):
            at = clients.FIRST_TIME + clients.STEP * (RECORDS + number)
            producer.send(partition, [(at, b"key", b"x" * size, ())])
        delete_records(client, {partition: 100})


@pytest.fixture(scope="module")
def states(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    """Copies of a node's directory: after kill -9, after the start that follows it, and after a clean stop."""
    home = tmp_path_factory.mktemp("dumped")
    node = Node.fresh(home, OFTEN).start()
    try:
        fill(node, "first")
        node.kill()
        shutil.copytree(node.log_dir, home / "killed", ignore=shutil.ignore_patterns("*.tmp"))
        node.start()
        fill(node, "second")
        node.restart()
        shutil.copytree(node.log_dir, home / "restarted", ignore=shutil.ignore_patterns("*.tmp"))
        assert node.stop() == 0
        shutil.copytree(node.log_dir, home / "stopped", ignore=shutil.ignore_patterns("*.tmp"))
    finally:
        node.kill()
    yield {name: home / name for name in ("killed", "restarted", "stopped")}


def files(directory: Path, pattern: str) -> str:
    found = sorted(str(path) for path in directory.glob(pattern))
    assert found, pattern
    return ",".join(found)


@pytest.fixture(scope="module")
def dumps(states: dict[str, Path]) -> dict[tuple[str, str], Ran]:
    """What the tool printed for each state and kind of file."""
    calls = {}
    for state, directory in states.items():
        logs = files(directory, "[fs]*-0/*.log")
        indexes = files(directory, "[fs]*-0/*.index") + "," + files(directory, "[fs]*-0/*.timeindex")
        metadata = files(directory, "__cluster_metadata-0/*.log")
        snapshots = (
            files(directory, "__cluster_metadata-0/*.checkpoint") + "," + str(directory / "bootstrap.checkpoint")
        )
        calls[state, "log"] = call("dump-log", "--files", logs, "--deep-iteration", "--print-data-log")
        calls[state, "indexes"] = call("dump-log", "--files", indexes)
        calls[state, "sanity"] = call("dump-log", "--files", indexes, "--index-sanity-check")
        calls[state, "verify"] = call("dump-log", "--files", indexes, "--verify-index-only")
        calls[state, "snapshots"] = call("dump-log", "--files", files(directory, "[fs]*-0/*.snapshot"))
        calls[state, "metadata"] = call("dump-log", "--files", metadata, "--cluster-metadata-decoder")
        calls[state, "metadata snapshots"] = call("dump-log", "--files", snapshots, "--cluster-metadata-decoder")
    return dict(zip(calls, apache_tools(list(calls.values())), strict=True))


def test_the_tool_has_no_complaint(dumps: dict[tuple[str, str], Ran]) -> None:
    # The second and third stand for what it says of every uncompressed segment that does not begin at 0.
    expected = ("SLF4J", "Non-consecutive offsets in ", "  -1 is followed by ")
    for what, ran in dumps.items():
        assert ran.rc == 0, what
        assert [line for line in ran.stderr.splitlines() if not line.startswith(expected)] == [], what
        lines = (line.partition(" payload: ")[0] for line in ran.stdout.splitlines())
        assert [line for line in lines if COMPLAINTS.search(line) and not line.startswith("Dumping ")] == [], what


def test_every_record_is_in_the_dump(dumps: dict[tuple[str, str], Ran]) -> None:
    for state, topics in (("killed", 1), ("restarted", 2), ("stopped", 2)):
        printed = dumps[state, "log"].stdout
        assert len(re.findall(r"^\| offset: ", printed, re.MULTILINE)) == topics * (RECORDS + SMALL + LARGE)
        for codec in CODECS:
            assert f"compresscodec: {codec} " in printed
        last = text_records(RECORDS)[-1]
        assert last[1] is not None and last[2] is not None
        assert f"key: {last[1].decode()} payload: {last[2].decode()}" in printed


def test_every_index_passes_the_sanity_check(dumps: dict[tuple[str, str], Ran]) -> None:
    for state in ("killed", "restarted", "stopped"):
        printed = dumps[state, "sanity"].stdout
        fine = printed.count(" passed sanity check.") + printed.count(" is empty.")
        assert printed.count("Dumping ") == fine > 6
        assert len(re.findall(r"^offset: \d+ position: \d+", dumps[state, "indexes"].stdout, re.MULTILINE)) > 20
        assert len(re.findall(r"^timestamp: \d+ offset: \d+", dumps[state, "indexes"].stdout, re.MULTILINE)) > 20


def test_the_producers_are_in_the_snapshots(dumps: dict[tuple[str, str], Ran]) -> None:
    for state in ("killed", "restarted", "stopped"):
        assert re.search(r"^producerId: \d+ producerEpoch: 0 ", dumps[state, "snapshots"].stdout, re.MULTILINE)


def test_the_metadata_log_and_its_snapshots_are_decoded(dumps: dict[tuple[str, str], Ran]) -> None:
    for state in ("killed", "restarted", "stopped"):
        log, snapshots = dumps[state, "metadata"].stdout, dumps[state, "metadata snapshots"].stdout
        for kind in ("REGISTER_BROKER", "TOPIC", "PARTITION", "CONFIG", "REMOVE_TOPIC", "PRODUCER_IDS"):
            assert f'"type":"{kind}_RECORD"' in log, kind
        for part in ("SnapshotHeader", "SnapshotFooter", "KRaftVoters", '"type":"PARTITION_RECORD"'):
            assert part in snapshots, part
        assert "LeaderChange" in log
        assert snapshots.count("Dumping ") >= 3


@pytest.mark.parametrize("idempotent", [True, False], ids=["idempotent", "plain"])
def test_stored_batches_are_the_sent_bytes_but_for_offset_and_leader_epoch(tmp_path: Path, idempotent: bool) -> None:
    recorder = Recorder()
    node = Node.fresh(tmp_path, {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{recorder.port}"})
    try:
        node.start()
        recorder.pass_on_to(node.port)
        with Client(node.bootstrap) as client:
            partitions = len(CODECS)
            Admin(client).create_topics([NewTopic("sent", partitions=partitions, configs={"retention.ms": "-1"})])
        for partition, codec in enumerate(CODECS):
            settings = {"compression.type": codec, "enable.idempotence": idempotent, "log_level": 0}
            producer = Producer({"bootstrap.servers": f"127.0.0.1:{recorder.port}", **settings})
            for timestamp, key, value, headers in text_records(2_000):
                assert timestamp is not None
                producer.produce("sent", value, key, partition, timestamp=timestamp, headers=list(headers))
            assert producer.flush(120) == 0
        sent = [masked(records) for _, _, records in sorted(recorder.produced(), key=lambda each: each[1])]
        stored = []
        for partition in range(partitions):
            data = (node.log_dir / f"sent-{partition}" / "00000000000000000000.log").read_bytes()
            stored += [masked(memoryview(data)[at : at + header.size]) for at, _, header in walk(data)]
        assert len(stored) >= partitions
        same = stored == sent
        assert same
    finally:
        node.kill()
        recorder.close()


def masked(batch: memoryview) -> bytes:
    """Without base offset and partition leader epoch, which the leader writes."""
    return bytes(batch[8:12]) + bytes(batch[16:])
