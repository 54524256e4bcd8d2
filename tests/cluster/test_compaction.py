"""Compacted topics beside Apache Kafka: its tools and brokers read what we leave, and we keep what it keeps."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner
from confluent_kafka import KafkaError, Message, Producer

from highwater.cli import main
from highwater.cli.status_answers import ask
from highwater.cli.status_topics import Status
from highwater.client import Admin, Client, NewTopic, ResourceType
from highwater.log.index import TransactionIndex
from highwater.wire import records
from tests.apache import ApacheKafka, free_ports
from tests.cluster.clients import CODECS
from tests.cluster.nodes import Node, wait_until
from tests.cluster.test_apache_reads_ours import COMPLAINTS
from tests.cluster.test_we_read_apache import apache_on, read_messages, read_values
from tests.cluster.tools import apache as apache_tools
from tests.cluster.tools import call

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("apache")]

TOPIC = "compacted"
KEYS, GONE = 30, 10
AT_ONCE = {"log.cleaner.backoff.ms": "100", "log.cleaner.min.cleanable.ratio": "0"}
SEGMENT_BYTES = 1 << 20
SETTINGS = {"cleanup.policy": "compact", "segment.bytes": str(SEGMENT_BYTES)}
GAP = re.compile(r"Non-consecutive offsets in |  -?\d+ is followed by \d+|SLF4J")


def clean_end(log_dir: Path, topic: str = TOPIC) -> int:
    path = log_dir / "cleaner-offset-checkpoint"
    lines = path.read_text().splitlines()[2:] if path.exists() else []
    return next((int(line.split()[2]) for line in lines if line.startswith(f"{topic} 0 ")), 0)


def active_base(log_dir: Path, topic: str = TOPIC) -> int:
    return max(int(path.stem) for path in (log_dir / f"{topic}-0").glob("*.log"))


def await_cleaning(log_dir: Path, topic: str = TOPIC) -> None:
    wait_until(lambda: clean_end(log_dir, topic) == active_base(log_dir, topic) > 0, 120)


def send(
    bootstrap: str,
    rows: list[tuple[str, bytes | None]],
    topic: str = TOPIC,
    codec: str = "none",
    per_batch: int = 10_000,
) -> None:
    failures: list[KafkaError] = []
    settings = {"compression.type": codec, "linger.ms": 5, "batch.num.messages": per_batch, "max.in.flight": 1}
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0, **settings})
    for key, value in rows:
        producer.produce(
            topic, value, key, partition=0, on_delivery=lambda failed, _: failures.append(failed) if failed else None
        )
        producer.poll(0)
    assert producer.flush(120) == 0 and not failures, failures


def fill_a_segment(bootstrap: str, topic: str = TOPIC) -> None:
    """So that all that was written before is in closed ones. Each record is a batch: so segments end at the same
    records wherever they are written, and however slowly, and with them what is compacted."""
    send(bootstrap, [(f"filler-{number}", bytes(20_000)) for number in range(60)], topic, per_batch=1)


def written(bootstrap: str) -> dict[str, bytes]:
    expected: dict[str, bytes] = {}
    for codec in CODECS:
        rows = [(f"key-{codec}-{number % KEYS}", f"{number} ".encode() * 100) for number in range(30 * KEYS)]
        send(bootstrap, list(rows), codec=codec)
        expected.update(rows)
    gone = list(expected)[:GONE]
    send(bootstrap, [(key, None) for key in gone])
    for key in gone:
        del expected[key]
    fill_a_segment(bootstrap)
    return expected


class Compacted(NamedTuple):
    node: Node
    http: str
    expected: dict[str, bytes]


@pytest.fixture(scope="module")
def compacted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Compacted]:
    (port,) = free_ports(1)
    http = f"127.0.0.1:{port}"
    node = Node.fresh(tmp_path_factory.mktemp("compacted"), {**AT_ONCE, "highwater.http.listener": http}).start()
    try:
        with Client(node.bootstrap) as client:
            Admin(client).create_topics([NewTopic(TOPIC, partitions=1, configs=SETTINGS)])
        expected = written(node.bootstrap)
        await_cleaning(node.log_dir)
        yield Compacted(node, http, expected)
    finally:
        node.kill()


def read_all(bootstrap: str) -> list[Message]:
    return read_messages(bootstrap, TOPIC, "read_uncommitted")


def values_of(messages: list[Message]) -> dict[str, bytes]:
    """What is left of the keys that are looked at, once each."""
    found: dict[str, bytes | None] = {}
    for message in messages:
        key = message.key().decode()
        if key.startswith("key-"):
            assert key not in found, f"{key} is there twice"
            found[key] = message.value()
    assert sum(value is None for value in found.values()) == GONE, "tombstones are to be seen for a day"
    return {key: value for key, value in found.items() if value is not None}


def test_a_client_finds_the_last_value_of_each_key(compacted: Compacted) -> None:
    assert values_of(read_all(compacted.node.bootstrap)) == compacted.expected


def test_apaches_tool_finds_nothing_wrong_with_a_compacted_log(compacted: Compacted) -> None:
    directory = compacted.node.log_dir / f"{TOPIC}-0"
    logs = ",".join(str(path) for path in sorted(directory.glob("*.log")))
    closed = [path for kind in ("index", "timeindex") for path in sorted(directory.glob(f"*.{kind}"))[:-1]]
    indexes = ",".join(map(str, closed))
    dump, sanity, verify = apache_tools(
        [
            call("dump-log", "--files", logs, "--deep-iteration", "--print-data-log"),
            call("dump-log", "--files", indexes, "--index-sanity-check"),
            call("dump-log", "--files", indexes, "--verify-index-only"),
        ]
    )
    for ran in (dump, sanity, verify):
        assert ran.rc == 0
        assert [line for line in ran.stderr.splitlines() if not GAP.match(line)] == []
        lines = (line.partition(" payload: ")[0] for line in ran.stdout.splitlines())
        assert [line for line in lines if COMPLAINTS.search(line) and not line.startswith("Dumping ")] == []
    assert sanity.stdout.count(" passed sanity check.") + sanity.stdout.count(" is empty.") == len(closed) > 1
    printed = re.findall(r"^\| offset: (\d+) .* key: (\S+)", dump.stdout, re.MULTILINE)
    seen = [(str(message.offset()), message.key().decode()) for message in read_all(compacted.node.bootstrap)]
    assert printed == seen
    assert " deleteHorizonMs: OptionalLong[" in dump.stdout
    for codec in CODECS:
        assert f"compresscodec: {codec} " in dump.stdout


def test_the_cleaner_reports_what_it_has_done(compacted: Compacted) -> None:
    def is_over(status: Status | None) -> bool:
        return status is not None and all(
            row["compaction"]["under_way"] is None for row in status["partitions"] if row["topic"] == TOPIC
        )

    wait_until(lambda: is_over(ask(compacted.http)))  # what it has done is written down a moment before
    status = ask(compacted.http)
    assert status is not None
    (row,) = (each for each in status["partitions"] if each["topic"] == TOPIC)
    compaction = row["compaction"]
    assert compaction["clean_end"] == active_base(compacted.node.log_dir) and compaction["dirty_bytes"] == 0
    assert compaction["last"]["keys"] > 0 and compaction["failed"] is None and compaction["under_way"] is None
    closed = sorted((compacted.node.log_dir / f"{TOPIC}-0").glob("*.log"))[:-1]
    assert compaction["clean_bytes"] == sum(path.stat().st_size for path in closed)
    assert status["cleaner"]["cleanings"] >= 1
    assert status["cleaner"]["bytes_read"] > status["cleaner"]["bytes_written"] > 0
    shown = CliRunner().invoke(main, ["status", "--http", compacted.http]).output
    (line,) = (line for line in shown.splitlines() if f"{TOPIC}-0" in line and "0 bytes, 0%" in line)
    assert f" {compaction['clean_end']} " in line and "bytes stayed" in line


def test_a_record_without_a_key_is_refused_and_the_others_are_not(compacted: Compacted) -> None:
    producer = Producer({"bootstrap.servers": compacted.node.bootstrap, "linger.ms": 0, "log_level": 0})
    compaction: list[tuple[bytes | None, str | None]] = []
    for key in (None, b"filler-0"):
        producer.produce(
            TOPIC, b"v", key, on_delivery=lambda failed, sent: compaction.append((sent.key(), failed and failed.name()))
        )
        producer.flush(120)
    assert compaction == [(None, "INVALID_RECORD"), (b"filler-0", None)]


def workers_of(pid: int) -> list[int]:
    """Its processes that do a job. Threads and processes may end while one looks."""
    found = [int(child) for path in Path(f"/proc/{pid}/task").glob("*/children") for child in text_of(path).split()]
    return [child for child in found if "spawn_main" in text_of(Path(f"/proc/{child}/cmdline"))]


def text_of(path: Path) -> str:
    with suppress(FileNotFoundError, ProcessLookupError):
        return path.read_text(errors="replace")
    return ""


def test_a_node_that_is_killed_takes_its_cleaning_process_along(tmp_path: Path) -> None:
    """Else its next life might find it at work on the same files."""
    node = Node.fresh(tmp_path, {**AT_ONCE, "log.cleaner.io.max.bytes.per.second": "10000"}).start()
    try:
        with Client(node.bootstrap) as client:
            Admin(client).create_topics([NewTopic(TOPIC, partitions=1, configs=SETTINGS)])
        for _ in range(2):
            fill_a_segment(node.bootstrap)
        wait_until(lambda: workers_of(node.pid))
        (worker,) = workers_of(node.pid)
        node.kill()
        wait_until(lambda: not Path(f"/proc/{worker}").exists())
        node.start()
        assert len(read_all(node.bootstrap)) == 120
        assert node.stop() == 0, "also while a log is cleaned"
    finally:
        node.kill()


def test_apache_kafka_goes_on_with_a_log_that_we_compacted(compacted: Compacted, tmp_path: Path) -> None:
    compacted.node.stop()
    shutil.copytree(compacted.node.config.parent, tmp_path / "node-1")
    compacted.node.start()
    kafka = ApacheKafka(tmp_path)
    moved(compacted.node.config, kafka)
    try:
        kafka.start()
        assert values_of(read_all(kafka.bootstrap)) == compacted.expected
    finally:
        kafka.kill()


def moved(config: Path, kafka: ApacheKafka) -> None:
    """A copy of the node, with its data where it now lies and on ports of its own."""
    text = config.read_text().replace(str(config.parent), str(kafka.config_of(1).parent))
    for listener in ("PLAINTEXT", "CONTROLLER"):
        old = re.search(rf"listeners=.*{listener}://127\.0\.0\.1:(\d+)", text)
        assert old is not None
        text = text.replace(f":{old[1]}", f":{kafka.ports[0] if listener == 'PLAINTEXT' else free_ports(1)[0]}")
    text = "".join(line for line in text.splitlines(keepends=True) if not line.startswith("highwater."))
    kafka.config_of(1).write_text(text)


class Kept(NamedTuple):
    """What a compacted log holds, however its batches are cut."""

    data: list[tuple[int, bytes | None, bytes | None]]
    markers: list[tuple[int, int, int, bool]]
    """Offset, producer, kind, and whether its end is in sight."""
    aborted: list[object]
    committed: list[bytes | None]


def kept(log_dir: Path, bootstrap: str, topic: str) -> Kept:
    data, markers, aborted = [], [], []
    for path in sorted((log_dir / f"{topic}-0").glob("*.log")):
        content = memoryview(path.read_bytes())
        for position, size, header in records.walk(content):
            batch = content[position : position + size]
            assert records.is_intact(batch)
            if header.is_control and header.record_count:
                kind = records.parse_control(batch)[0].type
                markers.append((header.base_offset, header.producer_id, kind, header.delete_horizon is not None))
            elif not header.is_control:
                data += [(each.offset, each.key, each.value) for each in records.iterate(batch)]
    for path in sorted((log_dir / f"{topic}-0").glob("*.txnindex")):
        aborted += TransactionIndex.decode(path.read_bytes()) if path.stat().st_size else []
    return Kept(data, markers, aborted, read_values(bootstrap, topic, "read_committed"))


def write_transactions(bootstrap: str, topic: str) -> None:
    """Of two producers, side by side: data of one lies between data and marker of the other, over several segments."""
    producers = []
    for name in ("one", "two"):
        settings = {"transactional.id": f"{topic}-{name}", "linger.ms": 0, "log_level": 0}
        producers.append(Producer({"bootstrap.servers": bootstrap, **settings}))
        producers[-1].init_transactions(60)
    for number in range(8):
        for producer in producers:
            producer.begin_transaction()
        for part in range(4):
            for which, producer in enumerate(producers):
                for record in range(10):
                    key = f"key-{(record * 7 + part + which * 3) % 35}"
                    value = f"{number} {which} {part} {record} ".encode() + bytes(4_000)
                    producer.produce(topic, value, key, partition=0)
                assert producer.flush(120) == 0
        for which, producer in enumerate(producers):
            if (number + which) % 3 == 0:
                producer.commit_transaction(120)
            else:
                producer.abort_transaction(120)
    fill_a_segment(bootstrap, topic)


CLEANINGS = 4


def cleaned_again(log_dir: Path, bootstrap: str, topic: str) -> Iterator[Kept]:
    """After a first cleaning, and after so many more that all that may go is gone: a marker is without data after one,
    gets its time after another, and goes after a third. How often a cleaner comes by meanwhile is its own affair."""
    with Client(bootstrap) as client:
        Admin(client).alter_configs(ResourceType.TOPIC, topic, put={"min.cleanable.dirty.ratio": "0"})
    for turn in range(CLEANINGS):
        await_cleaning(log_dir, topic)
        if turn in (0, CLEANINGS - 1):
            yield kept(log_dir, bootstrap, topic)
        fill_a_segment(bootstrap, topic)


def test_compaction_of_a_log_with_transactions_keeps_the_same_records_as_apache_kafka(tmp_path: Path) -> None:
    topic = "transactional"
    kafka = apache_on(tmp_path / "apache", AT_ONCE)
    node = None
    try:
        kafka.start()
        with Client(kafka.bootstrap) as client:
            later = {**SETTINGS, "min.cleanable.dirty.ratio": "1.0", "delete.retention.ms": "0"}
            Admin(client).create_topics([NewTopic(topic, partitions=1, configs=later)])
        write_transactions(kafka.bootstrap, topic)
        before = kept(kafka.log_dir, kafka.bootstrap, topic)
        kafka.stop()
        ours = ApacheKafka(tmp_path / "ours")
        shutil.copytree(kafka.config_of(1).parent, ours.config_of(1).parent)
        moved(kafka.config_of(1), ours)

        kafka.start()
        expected = list(cleaned_again(kafka.log_dir, kafka.bootstrap, topic))
        kafka.kill()
        node = Node(ours.config_of(1)).start()
        assert kept(node.log_dir, node.bootstrap, topic) == before
        found = list(cleaned_again(node.log_dir, node.bootstrap, topic))
        assert len(before.data) > len(expected[0].data) and len(before.aborted) == 11
        for when, ours_kept, theirs in zip(("the first", "the last"), found, expected, strict=True):
            for name, one, other in zip(Kept._fields, ours_kept, theirs, strict=True):
                assert one == other, f"{name} after {when} cleaning"
        assert len(expected[0].markers) == 16 > len(expected[1].markers), "markers go at last, and not before"
    finally:
        kafka.kill()
        if node is not None:
            node.kill()
