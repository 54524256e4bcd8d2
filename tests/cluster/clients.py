"""Foreign clients, each made to write given records to one partition and to read one from its beginning.

A record is (timestamp, key, value, headers). Those whose clients cannot give a timestamp have None for it.
"""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterable, Iterator, Sequence

import kafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioPartition
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer
from confluent_kafka import TopicPartition as RdPartition

from tests.cluster.tools import apache, call

Headers = tuple[tuple[str, bytes | None], ...]
Record = tuple[int | None, bytes | None, bytes | None, Headers]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
"""The others need packages that it does not bring along."""
FIRST_TIME = 1_600_000_000_000
STEP = 10
"""Milliseconds between two records."""


def text_records(count: int, timed: bool = True, headers: Headers | None = None) -> list[Record]:
    """Some without key, some without value, some with headers; plain text, so that every tool can print them."""
    return [
        (
            FIRST_TIME + STEP * n if timed else None,
            None if n % 7 == 0 else b"key-%d" % n,
            None if n % 11 == 1 and n % 7 else b"value-%d-" % n + b"abcdefghij" * (n % 12),
            headers if headers is not None else ((("n", b"%d" % n), ("h", b"x")) if n % 5 == 0 else ()),
        )
        for n in range(count)
    ]


def binary_records(count: int) -> list[Record]:
    """As above, with all byte values, empty keys and values, and headers that are empty, absent and repeated."""
    every = bytes(range(256))
    odd: Headers = (("", b""), ("null", None), ("ü€\U0001f30a", every), ("null", b"again"))
    return [
        (
            FIRST_TIME + STEP * n,
            None if n % 7 == 0 else b"" if n % 7 == 1 else every[n % 200 :][:20] + b"%d" % n,
            None if n % 11 == 0 else b"" if n % 11 == 1 else every[: n % 100] + b"%d" % n,
            odd if n % 100 == 0 else ((("n", b"%d" % n),) if n % 5 == 0 else ()),
        )
        for n in range(count)
    ]


def sliced(records: Sequence[Record], codecs: Sequence[str]) -> Iterator[tuple[str, bool, Sequence[Record]]]:
    """(codec, idempotent, records): one slice for each codec, by turns from an idempotent producer and not."""
    size = -(-len(records) // len(codecs))
    for number, codec in enumerate(codecs):
        yield codec, number % 2 == 0, records[number * size : (number + 1) * size]


def confluent_write(bootstrap: str, topic: str, records: Sequence[Record]) -> None:
    for codec, idempotent, part in sliced(records, CODECS):
        producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "compression.type": codec,
                "enable.idempotence": idempotent,
                "max.in.flight": 5 if idempotent else 1,
                "queue.buffering.max.messages": 10_000_000,
                "linger.ms": 20,
                "log_level": 0,
            }
        )
        for timestamp, key, value, headers in part:
            producer.produce(topic, value, key, 0, timestamp=timestamp, headers=list(headers) or None)
        assert producer.flush(60) == 0


def confluent_read(bootstrap: str, topic: str, count: int) -> Iterator[Record]:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False, "log_level": 0}
    )
    consumer.assign([RdPartition(topic, 0, OFFSET_BEGINNING)])
    position = 0
    while position < count:
        messages = consumer.consume(min(10_000, count - position), timeout=120)
        assert messages, f"nothing came after {position} records"
        for message in messages:
            assert message.error() is None, message.error()
            assert message.offset() == position
            position += 1
            headers = tuple(message.headers() or ())
            yield message.timestamp()[1], message.key(), message.value(), headers
    consumer.close()


def kafka_python_write(bootstrap: str, topic: str, records: Sequence[Record]) -> None:
    for codec, idempotent, part in sliced(records, CODECS):
        producer = kafka.KafkaProducer(
            bootstrap_servers=bootstrap,
            compression_type=None if codec == "none" else codec,
            enable_idempotence=idempotent,
            max_in_flight_requests_per_connection=1,
            linger_ms=20,
            batch_size=500_000,
            acks="all",
        )
        for timestamp, key, value, headers in part:
            producer.send(topic, value, key, list(headers), partition=0, timestamp_ms=timestamp)
        producer.flush(60)
        producer.close()


def kafka_python_read(bootstrap: str, topic: str, count: int) -> Iterator[Record]:
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=bootstrap, enable_auto_commit=False, max_partition_fetch_bytes=8_000_000
    )
    partition = kafka.TopicPartition(topic, 0)
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    position = 0
    while position < count:
        polled = consumer.poll(timeout_ms=30_000, max_records=min(10_000, count - position)).get(partition, [])
        assert polled, f"nothing came after {position} records"
        for message in polled:
            assert message.offset == position
            position += 1
            yield message.timestamp, message.key, message.value, tuple(message.headers)
    consumer.close()


def aiokafka_write(bootstrap: str, topic: str, records: Sequence[Record]) -> None:
    asyncio.run(_aiokafka_write(bootstrap, topic, records))


async def _aiokafka_write(bootstrap: str, topic: str, records: Sequence[Record]) -> None:
    for codec, idempotent, part in sliced(records, CODECS):
        producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap,
            compression_type=None if codec == "none" else codec,
            enable_idempotence=idempotent,
            acks="all",
        )
        await producer.start()
        # Its own batches: `send` costs a future for every record.
        batch = producer.create_batch()
        for timestamp, key, value, headers in part:
            if batch.append(timestamp=timestamp, key=key, value=value, headers=list(headers)) is None:
                await (await producer.send_batch(batch, topic, partition=0))
                batch = producer.create_batch()
                batch.append(timestamp=timestamp, key=key, value=value, headers=list(headers))
        await (await producer.send_batch(batch, topic, partition=0))
        await producer.stop()


def aiokafka_read(bootstrap: str, topic: str, count: int) -> Iterator[Record]:
    yield from asyncio.run(_aiokafka_read(bootstrap, topic, count))


async def _aiokafka_read(bootstrap: str, topic: str, count: int) -> list[Record]:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap, enable_auto_commit=False, max_partition_fetch_bytes=8_000_000
    )
    await consumer.start()
    partition = AioPartition(topic, 0)
    consumer.assign([partition])
    await consumer.seek_to_beginning(partition)
    found: list[Record] = []
    while len(found) < count:
        polled = (await consumer.getmany(timeout_ms=30_000)).get(partition, [])
        assert polled, f"nothing came after {len(found)} records"
        assert polled[0].offset == len(found)
        found += [(each.timestamp, each.key, each.value, tuple(each.headers)) for each in polled]
    await consumer.stop()
    return found


def kcat_write(bootstrap: str, topic: str, records: Sequence[Record]) -> None:
    """One run for each codec; the headers of a run are those of its first record."""
    for codec, idempotent, part in sliced(records, CODECS):
        lines = b"".join((key or b"") + b"\t" + (value or b"") + b"\n" for _, key, value, _ in part)
        headers = [f"-H{name}={(value or b'').decode()}" for name, value in part[0][3]]
        settings = ["-X", f"enable.idempotence={str(idempotent).lower()}", "-X", "queue.buffering.max.messages=2000000"]
        command = ["kcat", "-P", "-b", bootstrap, "-t", topic, "-p", "0", "-K", "\t", "-Z", "-z", codec, "-T", "-q"]
        subprocess.run([*command, *settings, *headers], input=lines, check=True, timeout=60, capture_output=True)


def kcat_read(bootstrap: str, topic: str, count: int) -> Iterator[Record]:
    layout = "%o\t%T\t%K\t%k\t%S\t%s\t%h\n"
    command = ["kcat", "-C", "-b", bootstrap, "-t", topic, "-p", "0", "-o", "beginning", "-e", "-q", "-f", layout]
    printed = subprocess.run(command, check=True, timeout=60, capture_output=True).stdout
    for position, line in enumerate(printed.splitlines()):
        offset, timestamp, key_size, key, value_size, value, headers = line.split(b"\t")
        assert int(offset) == position
        yield (
            int(timestamp),
            None if key_size == b"-1" else key,
            None if value_size == b"-1" else value,
            tuple(
                (name.decode(), text)
                for name, _, text in (each.partition(b"=") for each in headers.split(b","))
                if name
            ),
        )


def console_write(bootstrap: str, topic: str, records: Sequence[Record]) -> None:
    calls = []
    reader = [f"--reader-property={each}" for each in ("parse.key=true", "parse.headers=true", "null.marker=NULL")]
    for codec, idempotent, part in sliced(records, CODECS):
        lines = "".join(f"{_header_text(headers)}\t{_text(key)}\t{_text(value)}\n" for _, key, value, headers in part)
        properties = (f"enable.idempotence={str(idempotent).lower()}", "linger.ms=20", "batch.size=200000")
        commands = [f"--command-property={each}" for each in properties]
        where = ["--bootstrap-server", bootstrap, "--topic", topic, "--compression-codec", codec]
        calls.append(call("console-producer", *where, *reader, *commands, input=lines))
    for done in apache(calls):
        assert done.rc == 0, done.stderr


def console_read(bootstrap: str, topic: str, count: int) -> Iterator[Record]:
    printed = ("print.timestamp", "print.offset", "print.headers", "print.key")
    layout = [f"--formatter-property={each}=true" for each in printed]
    where = ["--bootstrap-server", bootstrap, "--topic", topic, "--partition", "0", "--offset", "earliest"]
    null = "--formatter-property=null.literal=NULL"
    (done,) = apache([call("console-consumer", *where, "--max-messages", str(count), *layout, null)])
    assert done.rc == 0, done.stderr
    for position, line in enumerate(done.stdout.splitlines()):
        timestamp, offset, headers, key, value = line.split("\t")
        assert offset == f"Offset:{position}"
        assert timestamp.startswith("CreateTime:")
        yield int(timestamp.partition(":")[2]), _bytes(key), _bytes(value), _parsed_headers(headers)


def _text(data: bytes | None) -> str:
    return "NULL" if data is None else data.decode()


def _bytes(text: str) -> bytes | None:
    return None if text == "NULL" else text.encode()


def _header_text(headers: Headers) -> str:
    return ",".join(f"{name}:{_text(value)}" for name, value in headers) or "NULL"


def _parsed_headers(text: str) -> Headers:
    if text == "NO_HEADERS":
        return ()
    return tuple((name, _bytes(value)) for name, _, value in (each.partition(":") for each in text.split(",")))


def untimed(records: Iterable[Record]) -> list[Record]:
    return [(None, key, value, headers) for _, key, value, headers in records]
