"""`highwater console-consumer`: kafka-console-consumer.sh; it reads by assignment unless a group is named."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator

import click

from highwater.cli.bootstrap import bootstrap_option, require_cluster
from highwater.cli.completion import topic_names
from highwater.cli.group_reading import GroupReading
from highwater.cli.missing_topic import warn_if_missing
from highwater.cli.output import LIKELY, suggest_setting
from highwater.cli.properties import load_properties, open_client, pairs
from highwater.cli.record_formatter import DEFAULT, PROPERTIES, SILENT, RecordFormatter
from highwater.cli.tool import exactly_one, fail, given, misuse, tool
from highwater.cli.topic_filter import TopicFilter
from highwater.client.admin import Admin
from highwater.client.client import Client
from highwater.client.consumer import Consumer, FetchLimits
from highwater.client.failures import ClientFailure
from highwater.client.offsets import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED
from highwater.errors import KafkaError
from highwater.kernel import BadRecords, Record
from highwater.model import TopicPartition

UNDERSTOOD = (
    "auto.offset.reset",
    "check.crcs",
    "enable.auto.commit",
    "fetch.max.bytes",
    "fetch.min.bytes",
    "group.id",
    "isolation.level",
    "max.partition.fetch.bytes",
)
NEW_PARTITIONS_SECONDS = 30.0
POLL_SECONDS = 0.5


@tool("console-consumer")
@bootstrap_option
@click.option("--topic", metavar="TOPIC", shell_complete=topic_names, help="The topic to read.")
@click.option("--include", metavar="REGEX", help="Read all topics that match.")
@click.option("--partition", type=int, help="The one partition to read; all if missing.")
@click.option("--offset", metavar="OFFSET", help="Where to begin: earliest, latest or a number. Needs --partition.")
@click.option("--from-beginning", is_flag=True, help="Begin with the oldest record instead of the next one.")
@click.option("--max-messages", type=int, help="End after so many records.")
@click.option("--timeout-ms", type=int, help="End when no record has come for so long.")
@click.option("--skip-message-on-error", is_flag=True, help="Go on after a record that cannot be printed.")
@click.option("--isolation-level", metavar="LEVEL", help="read_uncommitted (default) or read_committed.")
@click.option("--formatter", default=DEFAULT, metavar="CLASS", help=f"{DEFAULT} or {SILENT}.")
@click.option("--formatter-property", multiple=True, metavar="K=V", help="print.key, print.timestamp, key.separator, …")
@click.option("--formatter-config", metavar="FILE", help="Property file for the formatter.")
@click.option("--property", multiple=True, hidden=True)
@click.option("--key-deserializer", metavar="CLASS", help="How keys are shown.")
@click.option("--value-deserializer", metavar="CLASS", help="How values are shown.")
@click.option("--command-property", multiple=True, metavar="K=V", help="A setting of the consumer.")
@click.option("--command-config", metavar="FILE", help="Property file with settings of the consumer.")
@click.option("--consumer-property", multiple=True, hidden=True)
@click.option("--consumer.config", "consumer_config", hidden=True)
@click.option("--enable-systest-events", is_flag=True, hidden=True)
@click.option("--group", metavar="GROUP", help="Read as a member of this group, from where the group is.")
def command(context: click.Context, **options: object) -> None:
    """Print the records of topics."""
    _check(context)
    settings = _settings(context)
    try:
        begin = _begin(context)
        printer = Printer(_formatter(context), skip_errors=context.params["skip_message_on_error"])
        isolation = _isolation(settings)
        with open_client(
            context.params["bootstrap_server"], settings, client_id="console-consumer", also_understood=UNDERSTOOD
        ) as client:
            reset = EARLIEST if settings["auto.offset.reset"] == "earliest" else LATEST
            consumer = Consumer(
                client,
                isolation=isolation,
                limits=_limits(settings),
                check_crcs=settings.get("check.crcs", "true").lower() == "true",
                reset=reset,
            )
            if "group.id" in settings:
                _read_as_member(context, client, consumer, printer, settings)
            else:
                _read(context, client, consumer, printer, begin)
    except (KafkaError, ClientFailure, BadRecords, ValueError) as error:
        fail(str(error))
    finally:
        if context.params["enable_systest_events"]:
            click.echo("shutdown_complete")


def _check(context: click.Context) -> None:
    exactly_one(context, "topic", "include")
    if given(context, "partition"):
        if not given(context, "topic"):
            misuse(context, "The topic is required when partition is specified.")
        if given(context, "from-beginning") and given(context, "offset"):
            misuse(context, "Options from-beginning and offset cannot be specified together.")
    elif given(context, "offset"):
        misuse(context, "The partition is required when offset is specified.")
    require_cluster(context.params["bootstrap_server"])
    for old, new in (("consumer-property", "command-property"), ("consumer.config", "command-config")):
        if given(context, old) and given(context, new):
            misuse(context, f"Options --{old} and --{new} cannot be specified together.")
        if given(context, old):
            click.echo(f"Option --{old} is deprecated and will be removed in a future version. Use --{new} instead.")
    if given(context, "property") and given(context, "formatter-property"):
        misuse(context, "Options --property and --formatter-property cannot be specified together.")
    if given(context, "property"):
        click.echo(
            "Option --property is deprecated and will be removed in a future version. Use --formatter-property instead."
        )


def _settings(context: click.Context) -> dict[str, str]:
    params = context.params
    path = params["command_config"] or params["consumer_config"]
    settings = load_properties(path) if path else {}
    settings.update(pairs(params["command_property"] + params["consumer_property"]))
    if params["group"] is not None:
        settings["group.id"] = params["group"]
    if "group.id" in settings and given(context, "partition"):
        misuse(context, "Options group and partition cannot be specified together.")
    reset = settings.get("auto.offset.reset")
    if params["from_beginning"] and reset not in (None, "earliest"):
        fail(f"Can't simultaneously specify --from-beginning and 'auto.offset.reset={reset}', please remove one option")
    settings.setdefault("auto.offset.reset", "earliest" if params["from_beginning"] else "latest")
    if params["isolation_level"] is not None:
        settings["isolation.level"] = params["isolation_level"]
    if params["timeout_ms"] is not None:
        # The wait for a missing topic is no longer than the wait for records.
        settings.setdefault("default.api.timeout.ms", str(max(min(params["timeout_ms"], 60_000), 1000)))
    return settings


def _isolation(settings: dict[str, str]) -> int:
    level = settings.get("isolation.level", "read_uncommitted")
    if level not in ("read_uncommitted", "read_committed"):
        raise ValueError(
            f"Invalid value {level} for configuration isolation.level: "
            "String must be one of: read_committed, read_uncommitted"
        )
    return READ_COMMITTED if level == "read_committed" else READ_UNCOMMITTED


def _limits(settings: dict[str, str]) -> FetchLimits:
    usual = FetchLimits()
    return FetchLimits(
        int(settings.get("fetch.min.bytes", usual.min_bytes)),
        int(settings.get("fetch.max.bytes", usual.max_bytes)),
        int(settings.get("max.partition.fetch.bytes", usual.partition_max_bytes)),
    )


def _begin(context: click.Context) -> int:
    """An offset, or EARLIEST or LATEST."""
    text = context.params["offset"]
    if text is None:
        return EARLIEST if context.params["from_beginning"] else LATEST
    words = {"earliest": EARLIEST, "latest": LATEST}
    if text.lower() in words:
        return words[text.lower()]
    if not text.isascii() or not text.isdigit():
        misuse(
            context,
            f"The provided offset value '{text}' is incorrect. Valid values are 'earliest', 'latest', or a "
            "non-negative long.",
        )
    return int(text)


def _formatter(context: click.Context) -> RecordFormatter | None:
    params = context.params
    if params["formatter"] == SILENT:
        return None
    if params["formatter"] != DEFAULT:
        misuse(context, f"The formatter {params['formatter']} is not available; there are {DEFAULT} and {SILENT}")
    path = params["formatter_config"]
    properties = load_properties(path) if path else {}
    for option in ("key_deserializer", "value_deserializer"):
        if params[option]:
            properties[option.replace("_", ".")] = params[option]
    named = pairs(params["formatter_property"] + params["property"])
    suggest_setting(named, PROPERTIES, LIKELY)
    properties.update(named)
    return RecordFormatter(properties)


def _read(context: click.Context, client: Client, consumer: Consumer, printer: Printer, begin: int) -> None:
    params = context.params
    source = Source(client, params["topic"], params["include"], params["partition"])
    timeout = params["timeout_ms"]
    if timeout is not None and timeout < 0:
        timeout = None
    try:
        source.warn_if_missing()
        positions = dict.fromkeys(source.partitions(), begin)
        if begin >= 0:
            consumer.assign(positions)
        elif positions:
            consumer.seek(positions)
        # From here on the tool waits for a broker that is away. Kafka's consumer does not give up either.
        client.timeout = math.inf
        if params["max_messages"] == 0:
            return
        for topic_partition, timestamp_type, record in _records(consumer, source, timeout, printer.flush):
            printer.show(topic_partition.partition, timestamp_type, record)
            if printer.count == params["max_messages"]:
                return
    except KeyboardInterrupt:
        return
    finally:
        printer.flush()
        click.echo(f"Processed a total of {printer.count} messages", err=True)


def _read_as_member(
    context: click.Context, client: Client, consumer: Consumer, printer: Printer, settings: dict[str, str]
) -> None:
    params = context.params
    source = Source(client, params["topic"], params["include"], None)
    timeout = params["timeout_ms"]
    if timeout is not None and timeout < 0:
        timeout = None
    commits = settings.get("enable.auto.commit", "true").lower() == "true"
    reset = EARLIEST if settings["auto.offset.reset"] == "earliest" else LATEST
    reading = GroupReading(client, consumer, settings["group.id"], source.topics, reset, commits)
    try:
        source.warn_if_missing()
        if params["max_messages"] == 0:
            return
        with reading.stopped_by_interrupt():
            for topic_partition, timestamp_type, record in reading.records(timeout, printer.flush):
                printer.show(topic_partition.partition, timestamp_type, record)
                if printer.count == params["max_messages"]:
                    reading.took(topic_partition, record.offset)
                    return
    except KeyboardInterrupt:
        return
    finally:
        printer.flush()
        reading.close()
        click.echo(f"Processed a total of {printer.count} messages", err=True)


def _records(
    consumer: Consumer, source: Source, timeout_ms: int | None, before_wait: Callable[[], None]
) -> Iterator[tuple[TopicPartition, str, Record]]:
    """Yields records as they come, until none has come for `timeout_ms`."""
    last = looked = time.monotonic()
    while True:
        before_wait()
        wait = POLL_SECONDS if timeout_ms is None else min(POLL_SECONDS, timeout_ms / 1000)
        for fetched in consumer.poll(wait):
            for header, records in fetched.batches():
                timestamp_type = "LogAppendTime" if header.is_log_append_time else "CreateTime"
                for record in records:
                    yield fetched.partition, timestamp_type, record
                    last = time.monotonic()
        now = time.monotonic()
        if timeout_ms is not None and now - last > timeout_ms / 1000:
            return
        if now - looked > NEW_PARTITIONS_SECONDS:
            looked = now
            new = [partition for partition in source.partitions() if partition not in consumer.positions]
            consumer.add(dict.fromkeys(new, EARLIEST))


class Source:
    """The partitions that the options mean, at present."""

    def __init__(self, client: Client, topic: str | None, include: str | None, partition: int | None) -> None:
        self._client = client
        self._topic = topic
        self._include = TopicFilter(include) if include is not None else None
        self._partition = partition

    def warn_if_missing(self) -> None:
        if self._topic is not None:
            warn_if_missing(self._client, self._topic, self._partition)
        elif not self.topics():
            click.echo("No topic matches --include so far: those that come are read", err=True)

    def partitions(self) -> list[TopicPartition]:
        if self._topic is not None and self._partition is not None:
            return [TopicPartition(self._topic, self._partition)]
        return [
            TopicPartition(name, partition) for name in self.topics() for partition in sorted(self._partitions_of(name))
        ]

    def topics(self) -> list[str]:
        if self._include is not None:
            return sorted(name for name in Admin(self._client).list_topics() if self._include.allows(name))
        return [self._topic or ""]

    def _partitions_of(self, name: str) -> list[int]:
        self._client.forget(name)
        create = self._include is None
        topic = self._client.retrying(lambda: self._client.topic(name, create=create), await_topic=True)
        return list(topic.partitions)


class Printer:
    """Writes records to standard output and counts them."""

    def __init__(self, formatter: RecordFormatter | None, *, skip_errors: bool) -> None:
        self.count = 0
        self._formatter = formatter
        self._skip_errors = skip_errors
        self._out = sys.stdout.buffer

    def show(self, partition: int, timestamp_type: str, record: Record) -> None:
        self.count += 1
        if self._formatter is None:
            return
        try:
            text = self._formatter.format(partition, timestamp_type, record)
        except ValueError as error:
            if not self._skip_errors:
                raise
            click.echo(f"Error processing message, skipping this message: {error}", err=True)
            return
        self._out.write(text)

    def flush(self) -> None:
        self._out.flush()
