"""`highwater producer-perf`: kafka-producer-perf-test.sh."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Iterator
from pathlib import Path

import click

from highwater.cli.bootstrap import bootstrap_option, require_cluster
from highwater.cli.completion import topic_names
from highwater.cli.missing_topic import warn_if_missing
from highwater.cli.paced_sender import PacedSender
from highwater.cli.properties import load_properties, number, open_client
from highwater.cli.send_statistics import SendStatistics
from highwater.cli.tool import Tool, exactly_one, fail, given, misuse, require, tool
from highwater.client.batch_sender import BatchSender, OnStored
from highwater.client.client import Client
from highwater.client.failures import ClientFailure
from highwater.client.producer import ACKS_ALL
from highwater.errors import KafkaError
from highwater.wire.compression import Codec

UNDERSTOOD = (
    "acks",
    "batch.size",
    "buffer.memory",
    "compression.type",
    "delivery.timeout.ms",
    "enable.idempotence",
    "linger.ms",
    "max.request.size",
)
SEVERAL = ("--command-property", "--producer-props")
_OF_LETTERS = bytes(ord("A") + byte % 26 for byte in range(256))


class PropertiesTool(Tool):
    """`--command-property a=1 b=2` gives two of them, as with Apache's tool."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, spread(args, SEVERAL))


def spread(args: list[str], options: tuple[str, ...]) -> list[str]:
    """Repeats an option before each of its values."""
    repeated: list[str] = []
    current: str | None = None
    values = 0
    for word in args:
        if word.startswith("-"):
            current, values = (word if word in options else None), 0
        elif current is not None:
            if values:
                repeated.append(current)
            values += 1
        repeated.append(word)
    return repeated


@tool("producer-perf", PropertiesTool)
@bootstrap_option
@click.option("--topic", metavar="TOPIC", shell_complete=topic_names, help="REQUIRED: the topic to send to.")
@click.option("--num-records", type=int, metavar="N", help="REQUIRED: the number of records to send.")
@click.option("--record-size", type=int, metavar="BYTES", help="The size of each record: random letters.")
@click.option("--payload-file", metavar="FILE", help="UTF-8 text; each record is a random one of its parts.")
@click.option("--payload-delimiter", default="\\n", metavar="TEXT", help="What parts the file of --payload-file.")
@click.option("--payload-monotonic", is_flag=True, help="Each record is its number.")
@click.option("--throughput", type=float, metavar="N", help="REQUIRED: records per second, about; -1 for no limit.")
@click.option("--command-property", multiple=True, metavar="K=V …", help="Settings of the producer.")
@click.option("--command-config", metavar="FILE", help="Property file with settings of the producer.")
@click.option("--producer-props", multiple=True, hidden=True)
@click.option("--producer.config", "producer_config", hidden=True)
@click.option("--warmup-records", type=int, default=0, metavar="N", help="Records that steady figures leave out.")
@click.option("--reporting-interval", type=int, default=5000, metavar="MS", help="How often figures are printed.")
@click.option("--print-metrics", is_flag=True, hidden=True)
@click.option("--transactional-id", hidden=True)
@click.option("--transaction-duration-ms", type=int, hidden=True)
def command(context: click.Context, **options: object) -> None:
    """Measure how fast records are sent to a topic: throughput, and the latency until each is acknowledged."""
    _check(context)
    params = context.params
    try:
        settings = _settings(context)
        payloads = _payloads(params)
        own = settings.get("bootstrap.servers")
        servers = own if own is not None and not given(context, "bootstrap-server") else params["bootstrap_server"]
        client_settings = {**settings, "default.api.timeout.ms": settings.get("delivery.timeout.ms", "120000")}
        with open_client(
            require_cluster(servers),
            client_settings,
            client_id="perf-producer-client",
            also_understood=UNDERSTOOD,
            what=f"Still trying to send to topic {params['topic']}",
        ) as client:
            run = Run(client, context, settings)
            try:
                run.send(payloads)
            except (KafkaError, ClientFailure, KeyboardInterrupt):
                click.echo(run.unfinished(), err=True)
                raise
    except (KafkaError, ClientFailure, ValueError, OSError) as error:
        fail(str(error))


def _check(context: click.Context) -> None:
    params = context.params
    require(context, "topic", "num-records", "throughput")
    exactly_one(context, "record-size", "payload-file", "payload-monotonic")
    for option in ("num-records", "record-size", "reporting-interval"):
        value = params[option.replace("-", "_")]
        if value is not None and value <= 0:
            misuse(context, f"--{option} should be greater than zero.")
    if params["warmup_records"] >= params["num_records"]:
        misuse(
            context,
            "The value for --warmup-records must be strictly fewer than the number of records in the test, "
            "--num-records.",
        )
    for new, old in (("command-property", "producer-props"), ("command-config", "producer.config")):
        if given(context, old) and given(context, new):
            misuse(context, f"--{new} and --{old} cannot be specified together.")
        if given(context, old):
            click.echo(
                f"Option --{old} has been deprecated and will be removed in a future version. Use --{new} instead."
            )
    if given(context, "print-metrics"):
        fail("--print-metrics is not available: the metrics of Kafka's Java producer do not exist here")
    if given(context, "transactional-id") or given(context, "transaction-duration-ms"):
        fail("Transactions are not available: leave out --transactional-id and --transaction-duration-ms")


def _settings(context: click.Context) -> dict[str, str]:
    params = context.params
    path = params["command_config"] or params["producer_config"]
    settings = load_properties(path) if path else {}
    for pair in params["command_property"] + params["producer_props"]:
        key, equals, value = pair.partition("=")
        if not equals or not value or "=" in value:
            raise ValueError(f"Invalid property: {pair}")
        settings[key] = value
    return settings


def _payloads(params: dict[str, object]) -> Iterator[bytes]:
    """Without an end."""
    drawn = random.Random(0)
    if params["payload_file"] is not None:
        return _drawn_of_file(Path(str(params["payload_file"])), str(params["payload_delimiter"]), drawn)
    if params["payload_monotonic"]:
        return _numbers()
    size = int(str(params["record_size"]))
    return iter(lambda: drawn.randbytes(size).translate(_OF_LETTERS), None)


def _numbers() -> Iterator[bytes]:
    number = 0
    while True:
        yield b"%d" % number
        number += 1


def _drawn_of_file(path: Path, delimiter: str, drawn: random.Random) -> Iterator[bytes]:
    click.echo(f"Reading payloads from: {path.absolute()}")
    if not path.exists() or not path.stat().st_size:
        raise ValueError("File does not exist or empty file provided.")
    payloads = [part.encode() for part in split_payloads(path.read_text(encoding="utf-8"), delimiter)]
    click.echo(f"Number of records read: {len(payloads)}")
    return iter(lambda: drawn.choice(payloads), None)


def split_payloads(text: str, delimiter: str) -> list[str]:
    """The parts between the places that the regular expression matches. Raises ValueError if it is none."""
    try:
        pattern = re.compile(delimiter)
    except re.error as wrong:
        raise ValueError(f"--payload-delimiter {delimiter} is not a regular expression: {wrong}") from wrong
    parts = pattern.split(text)[:: pattern.groups + 1]  # what the groups matched comes between the parts
    return parts if parts[-1] else parts[:-1]


class Run:
    def __init__(self, client: Client, context: click.Context, settings: dict[str, str]) -> None:
        params = context.params
        self._client = client
        self._settings = settings
        self._topic: str = params["topic"]
        self._records: int = params["num_records"]
        self._warmup = max(params["warmup_records"], 0)
        self._interval: int = params["reporting_interval"]
        self._throughput: float = params["throughput"]
        self._steady: SendStatistics | None = None
        self._stored = 0

    def unfinished(self) -> str:
        """Said if the run ends before its end."""
        return (
            f"Ended with {self._stored} of {self._records} records acknowledged; those that were on their way may be "
            "stored or not"
        )

    def send(self, payloads: Iterator[bytes]) -> None:
        batch_size, linger = number(self._settings, "batch.size", 16384), number(self._settings, "linger.ms", 5)
        # What cannot be sent is refused first: to look for partitions creates a topic that does not exist.
        with self._sender(lambda partition, count: paced.on_stored(partition, count)) as sender:
            warn_if_missing(self._client, self._topic)
            paced = PacedSender(self._client, self._topic, batch_size, linger / 1000, self._acknowledged)
            if self._warmup:
                click.echo(
                    f"Warmup first {self._warmup} records. Steady state results will print after the complete test "
                    "summary."
                )
            begun = time.monotonic()
            self._whole = SendStatistics(self._records, self._interval, _ms(begun))
            for index in range(self._records):
                if self._throughput > 0:
                    paced.wait(sender, begun + index / self._throughput)
                if self._warmup and index == self._warmup:
                    self._steady = SendStatistics(
                        self._records - self._warmup, self._interval, _ms(time.monotonic()), steady=True
                    )
                    self._whole.is_quiet = True
                paced.send(sender, next(payloads))
            paced.flush(sender)
        for statistics in (self._whole, self._steady):
            if statistics is not None:
                click.echo(statistics.total(_ms(time.monotonic())))

    def _acknowledged(self, index: int, size: int, sent: float) -> None:
        now = _ms(time.monotonic())
        self._stored += 1
        for statistics in (self._whole, self._steady if index >= self._warmup else None):
            for line in statistics.record(now - _ms(sent), size, now) if statistics is not None else ():
                click.echo(line)

    def _sender(self, on_stored: OnStored) -> BatchSender:
        settings = self._settings
        acks = ACKS_ALL if settings.get("acks", "all") == "all" else number(settings, "acks", ACKS_ALL)
        codec = settings.get("compression.type", "none").upper()
        if codec not in Codec.__members__:
            raise ValueError(f"Unknown compression name: {settings['compression.type']}")
        return BatchSender(
            self._client,
            acks=acks,
            codec=Codec[codec],
            idempotent=settings.get("enable.idempotence", str(acks == ACKS_ALL)).lower() == "true",
            delivery_timeout=number(settings, "delivery.timeout.ms", 120_000) / 1000,
            max_request_bytes=number(settings, "max.request.size", 1 << 20),
            max_pending_bytes=number(settings, "buffer.memory", 32 << 20),
            on_stored=on_stored,
        )


def _ms(seconds: float) -> int:
    return int(seconds * 1000)
