"""`highwater console-producer`: kafka-console-producer.sh."""

from __future__ import annotations

import random
import sys
import time

import click

from highwater.cli.bootstrap import bootstrap_option, require_cluster
from highwater.cli.completion import topic_names
from highwater.cli.interrupt import Interrupt
from highwater.cli.line_reader import PROPERTIES, LineReader, LineRecord, lines
from highwater.cli.missing_topic import warn_if_missing
from highwater.cli.output import LIKELY, suggest_setting
from highwater.cli.properties import load_properties, number, open_client, pairs
from highwater.cli.tool import EXIT_CODE, fail, given, misuse, require, tool
from highwater.client.client import Client, parse_bootstrap_servers
from highwater.client.failures import ClientFailure
from highwater.client.producer import ACKS_ALL, Producer, partition_for_key
from highwater.errors import KafkaError
from highwater.kernel import NewRecord
from highwater.model import TopicPartition
from highwater.wire.compression import Codec

LINE_READER = "org.apache.kafka.tools.LineMessageReader"
UNDERSTOOD = ("acks", "batch.size", "compression.type", "delivery.timeout.ms", "enable.idempotence", "linger.ms")
RENAMED = {
    "producer-property": "command-property",
    "producer.config": "command-config",
    "property": "reader-property",
}
WITHOUT_EFFECT = (
    "message-send-max-retries",
    "retry-backoff-ms",
    "metadata-expiry-ms",
    "max-block-ms",
    "max-memory-bytes",
    "socket-buffer-size",
)
RECORD_OVERHEAD = 70
"""The size of a record without its key and value, to decide when a batch is full."""


@tool("console-producer")
@bootstrap_option
@click.option("--topic", metavar="TOPIC", shell_complete=topic_names, help="REQUIRED: the topic to send to.")
@click.option("--sync", is_flag=True, help="Send each line by itself and wait for its acknowledgement.")
@click.option(
    "--compression-codec",
    is_flag=False,
    flag_value="gzip",
    metavar="CODEC",
    help="none, gzip, snappy, lz4 or zstd; gzip if the option has no value.",
)
@click.option("--batch-size", type=int, default=16384, help="Bytes per batch (batch.size).")
@click.option("--max-partition-memory-bytes", type=int, hidden=True)
@click.option("--timeout", type=int, default=1000, help="How long a line waits for others, in ms (linger.ms).")
@click.option("--request-required-acks", default="-1", help="acks: -1 or all, 0, 1.")
@click.option("--request-timeout-ms", type=int, default=1500, help="How long one request may take.")
@click.option("--line-reader", default=LINE_READER, hidden=True)
@click.option("--reader-property", multiple=True, metavar="K=V", help="parse.key, key.separator, parse.headers, …")
@click.option("--reader-config", metavar="FILE", help="Property file for the line reader.")
@click.option("--command-property", multiple=True, metavar="K=V", help="A setting of the producer.")
@click.option("--command-config", metavar="FILE", help="Property file with settings of the producer.")
@click.option("--property", multiple=True, hidden=True)
@click.option("--producer-property", multiple=True, hidden=True)
@click.option("--producer.config", "producer_config", hidden=True)
@click.option("--message-send-max-retries", type=int, hidden=True)
@click.option("--retry-backoff-ms", type=int, hidden=True)
@click.option("--metadata-expiry-ms", type=int, hidden=True)
@click.option("--max-block-ms", type=int, hidden=True)
@click.option("--max-memory-bytes", type=int, hidden=True)
@click.option("--socket-buffer-size", type=int, hidden=True)
def command(context: click.Context, **options: object) -> None:
    """Send lines from standard input to a topic."""
    _check(context)
    params = context.params
    reader_file = params["reader_config"]
    try:
        settings = producer_settings(context)
        named = pairs(params["reader_property"] + params["property"])
        suggest_setting(named, PROPERTIES, LIKELY)
        reader = LineReader({**(load_properties(reader_file) if reader_file else {}), **named})
        client_settings = {**settings, "default.api.timeout.ms": settings.get("delivery.timeout.ms", "120000")}
        with open_client(
            params["bootstrap_server"],
            client_settings,
            client_id="console-producer",
            also_understood=UNDERSTOOD,
            what=f"Still trying to send to topic {params['topic']}",
        ) as client:
            sender = LineSender(client, params["topic"], settings, sync=params["sync"])
            linger = number(settings, "linger.ms", 1000) / 1000
            with Interrupt() as interrupt:
                sender.run(reader, linger, interrupt.descriptor)
    except KeyboardInterrupt:
        click.echo("Ended before every line was acknowledged", err=True)
        sys.exit(EXIT_CODE)
    except (KafkaError, ClientFailure, ValueError) as error:
        fail(str(error))
    if sender.failures:
        sys.exit(1)
    if interrupt.arrived:
        sys.exit(EXIT_CODE)


def _check(context: click.Context) -> None:
    require(context, "topic")
    for old, new in RENAMED.items():
        if given(context, old) and given(context, new):
            misuse(context, f"Options --{new} and --{old} cannot be specified together.")
    for old, new in RENAMED.items():
        if given(context, old):
            click.echo(f"Warning: --{old} is deprecated and will be removed in a future version. Use --{new} instead.")
    if given(context, "max-partition-memory-bytes"):
        click.echo(
            "Warning: --max-partition-memory-bytes is deprecated and will be removed in Apache Kafka 5.0. "
            "Use --batch-size instead."
        )
    if context.params["line_reader"] != LINE_READER:
        misuse(context, f"The line reader {context.params['line_reader']} is not available; only {LINE_READER} is")
    for option in WITHOUT_EFFECT:
        if given(context, option):
            click.echo(f"--{option} has no effect here: sending is retried until delivery.timeout.ms", err=True)
    try:
        parse_bootstrap_servers(require_cluster(context.params["bootstrap_server"]))
    except ValueError:
        misuse(context, "Please provide valid host:port like host1:9091,host2:9092\n")


def producer_settings(context: click.Context) -> dict[str, str]:
    """From the file, then from key=value options. A flag wins if it is given, and is the default otherwise."""
    params = context.params
    path = params["command_config"] or params["producer_config"]
    settings = load_properties(path) if path else {}
    settings.update(pairs(params["command_property"] + params["producer_property"]))
    settings["compression.type"] = params["compression_codec"] or "none"
    for option, setting in (
        ("timeout", "linger.ms"),
        ("request-required-acks", "acks"),
        ("request-timeout-ms", "request.timeout.ms"),
        ("batch-size", "batch.size"),
        ("max-partition-memory-bytes", "batch.size"),
    ):
        value = params[option.replace("-", "_")]
        if value is not None and (given(context, option) or setting not in settings):
            settings[setting] = str(value)
    return settings


def _producer(client: Client, settings: dict[str, str]) -> Producer:
    acks = ACKS_ALL if settings["acks"] == "all" else number(settings, "acks", ACKS_ALL)
    codec = settings["compression.type"].upper()
    if codec not in Codec.__members__:
        raise ValueError(f"Unknown compression name: {settings['compression.type']}")
    idempotent = settings.get("enable.idempotence", str(acks == ACKS_ALL)).lower() == "true"
    return Producer(client, acks=acks, codec=Codec[codec], idempotent=idempotent, create_topics=True)


class LineSender:
    """Collects records for each partition, and sends a batch when it is full, or when the input pauses."""

    def __init__(self, client: Client, topic: str, settings: dict[str, str], *, sync: bool) -> None:
        self.failures = 0
        self._client = client
        self._topic = topic
        self._sync = sync
        self._producer = _producer(client, settings)
        self._batch_size = number(settings, "batch.size", 16384)
        self._waiting: dict[int, list[NewRecord]] = {}
        self._sizes: dict[int, int] = {}
        self._sticky: int | None = None

    def run(self, reader: LineReader, linger: float, end: int) -> None:
        """Runs until the input ends, or until the descriptor `end` is readable."""
        warn_if_missing(self._client, self._topic)
        prompting = sys.stdin.isatty() and sys.stdout.isatty()
        if prompting:
            click.echo(">", nl=False)
        for line in lines(sys.stdin.fileno(), linger, end):
            if line is None:
                self.flush()
                continue
            try:
                record = reader.parse(line)
            except ValueError:
                self.flush()  # the lines before it are valid
                raise
            self.add(record)
            if prompting:
                click.echo(">", nl=False)
        self.flush()

    def add(self, record: LineRecord) -> None:
        partition = self._partition(record.key)
        entry = (int(time.time() * 1000), record.key, record.value, record.headers)
        if self._sync:
            self._producer.send(TopicPartition(self._topic, partition), [entry])
            return
        self._waiting.setdefault(partition, []).append(entry)
        size = self._sizes.get(partition, 0) + RECORD_OVERHEAD + len(record.key or b"") + len(record.value or b"")
        self._sizes[partition] = size
        if size >= self._batch_size:
            self._send(partition)

    def flush(self) -> None:
        for partition in list(self._waiting):
            self._send(partition)

    def _send(self, partition: int) -> None:
        records = self._waiting.pop(partition)
        self._sizes.pop(partition, None)
        self._sticky = None
        try:
            self._producer.send(TopicPartition(self._topic, partition), records)
        except (KafkaError, ClientFailure) as error:
            self.failures += len(records)
            click.echo(f"Error when sending {len(records)} messages to topic {self._topic}: {error}", err=True)

    def _partition(self, key: bytes | None) -> int:
        """The partition of the key. Without a key, the same random partition until its batch is sent."""
        topic = self._client.retrying(lambda: self._client.topic(self._topic, create=True), await_topic=True)
        if key is not None:
            return partition_for_key(key, len(topic.partitions))
        if self._sticky is None or self._sync:
            self._sticky = random.choice(sorted(topic.partitions))
        return self._sticky
