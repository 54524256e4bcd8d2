"""`highwater consumer-perf`: kafka-consumer-perf-test.sh."""

from __future__ import annotations

import random
import time
from datetime import datetime
from typing import NamedTuple

import click

from highwater.cli.bootstrap import bootstrap_option, require_cluster
from highwater.cli.completion import topic_names
from highwater.cli.group_reading import GroupReading
from highwater.cli.java_dates import java_date
from highwater.cli.missing_topic import warn_if_missing
from highwater.cli.properties import load_properties, number, open_client, pairs
from highwater.cli.tool import exactly_one, fail, given, misuse, tool
from highwater.cli.topic_filter import TopicFilter
from highwater.client.admin import Admin
from highwater.client.client import Client
from highwater.client.consumer import Consumer, FetchLimits
from highwater.client.failures import ClientFailure
from highwater.client.offsets import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED
from highwater.errors import KafkaError

UNDERSTOOD = ("enable.auto.commit", "fetch.max.bytes", "fetch.min.bytes", "group.id", "isolation.level")
FETCH_COLUMNS = ", rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
COLUMNS = ", data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec" + FETCH_COLUMNS
_MEBIBYTE = 1024 * 1024


@tool("consumer-perf")
@bootstrap_option
@click.option("--topic", metavar="TOPIC", shell_complete=topic_names, help="The topic to read.")
@click.option("--include", metavar="REGEX", help="Read all topics that match.")
@click.option("--num-records", type=int, metavar="N", help="REQUIRED: the number of records to read.")
@click.option("--messages", type=int, hidden=True)
@click.option("--group", metavar="GROUP", help="Read as a member of this group; a new one if missing.")
@click.option("--from-latest", is_flag=True, help="A new group begins behind the last record.")
@click.option("--fetch-size", type=int, default=1 << 20, metavar="BYTES", help="Bytes of one partition per request.")
@click.option("--timeout", type=int, is_flag=False, flag_value=10_000, default=10_000, metavar="MS",
              help="End when no record has come for so long.")  # fmt: skip
@click.option("--show-detailed-stats", is_flag=True, help="Print figures for each interval instead of one line.")
@click.option("--reporting-interval", type=int, default=5000, metavar="MS", help="The interval of these figures.")
@click.option("--date-format", default="yyyy-MM-dd HH:mm:ss:SSS", metavar="PATTERN",
              help="How times are shown, as of java.text.SimpleDateFormat.")  # fmt: skip
@click.option("--hide-header", is_flag=True, help="Leave out the line with the names of the columns.")
@click.option("--command-property", multiple=True, metavar="K=V", help="A setting of the consumer.")
@click.option("--command-config", metavar="FILE", help="Property file with settings of the consumer.")
@click.option("--consumer.config", "consumer_config", hidden=True)
@click.option("--socket-buffer-size", type=int, hidden=True)
@click.option("--print-metrics", is_flag=True, hidden=True)
def command(context: click.Context, **options: object) -> None:
    """Measure how fast records are read from topics, as a member of a group."""
    _check(context)
    params = context.params
    if not params["hide_header"]:
        click.echo(("time, threadId" if params["show_detailed_stats"] else "start.time, end.time") + COLUMNS)
    try:
        settings = _settings(context)
        with open_client(
            params["bootstrap_server"], settings, client_id="perf-consumer-client", also_understood=UNDERSTOOD
        ) as client:
            _read(client, settings, params)
    except (KafkaError, ClientFailure, ValueError) as error:
        fail(str(error))


def _check(context: click.Context) -> None:
    params = context.params
    exactly_one(context, "messages", "num-records")
    exactly_one(context, "topic", "include")
    require_cluster(params["bootstrap_server"])
    if given(context, "command-config") and given(context, "consumer.config"):
        misuse(context, "Options --consumer.config and --command-config cannot be specified together.")
    for old, new in (("messages", "num-records"), ("consumer.config", "command-config")):
        if given(context, old):
            click.echo(f"Warning: --{old} is deprecated. Use --{new} instead.")
    if params["reporting_interval"] <= 0:
        fail("Reporting interval must be greater than 0.")
    try:
        java_date(params["date_format"], datetime.now())
    except ValueError as error:
        misuse(context, str(error))
    if given(context, "socket-buffer-size"):
        click.echo("--socket-buffer-size has no effect here: the system sizes the buffers of sockets", err=True)
    if given(context, "print-metrics"):
        fail("--print-metrics is not available: the metrics of Kafka's Java consumer do not exist here")


def _settings(context: click.Context) -> dict[str, str]:
    params = context.params
    path = params["command_config"] or params["consumer_config"]
    settings = load_properties(path) if path else {}
    settings.update(pairs(params["command_property"]))
    settings["group.id"] = params["group"] or f"perf-consumer-{random.randrange(100_000)}"
    return settings


def _read(client: Client, settings: dict[str, str], params: dict[str, object]) -> None:
    if params["topic"] is not None:
        warn_if_missing(client, str(params["topic"]))
    committed = settings.get("isolation.level", "read_uncommitted") == "read_committed"
    usual = FetchLimits()
    limits = FetchLimits(
        number(settings, "fetch.min.bytes", usual.min_bytes),
        number(settings, "fetch.max.bytes", usual.max_bytes),
        int(str(params["fetch_size"])),
    )
    reset = LATEST if params["from_latest"] else EARLIEST
    consumer = Consumer(
        client,
        isolation=READ_COMMITTED if committed else READ_UNCOMMITTED,
        limits=limits,
        check_crcs=False,
        reset=reset,
    )
    commits = settings.get("enable.auto.commit", "true").lower() == "true"
    reading = GroupReading(client, consumer, settings["group.id"], lambda: _topics(client, params), reset, commits)
    try:
        with reading.stopped_by_interrupt():
            _measure(reading, params)
    finally:
        reading.close()


def _topics(client: Client, params: dict[str, object]) -> list[str]:
    if params["topic"] is not None:
        return [str(params["topic"])]
    wanted = TopicFilter(str(params["include"]))
    return sorted(name for name in Admin(client).list_topics() if wanted.allows(name))


class Read(NamedTuple):
    """How much was read by a time (ms), and the time that joining the group took."""

    at: int
    records: int
    size: int
    joining: int


def _measure(reading: GroupReading, params: dict[str, object]) -> None:
    wanted = int(str(params["num_records"] if params["num_records"] is not None else params["messages"]))
    interval, timeout = int(str(params["reporting_interval"])), int(str(params["timeout"]))
    pattern, is_detailed = str(params["date_format"]), bool(params["show_detailed_stats"])
    records = size = 0
    begun = last = Read(_now(), 0, 0, 0)
    for partition, _, record in reading.records(timeout, lambda: None) if wanted > 0 else ():
        records += 1
        size += len(record.key or b"") + len(record.value or b"")
        if is_detailed and (now := _now()) - last.at >= interval:
            reached = Read(now, records, size, int(reading.joining_seconds * 1000))
            click.echo(interval_line(last, reached, pattern))
            last = reached
        if records == wanted:
            reading.took(partition, record.offset)
            break
    if records < wanted:
        click.echo(
            f"WARNING: Exiting before consuming the expected number of records: timeout ({timeout} ms) exceeded. You "
            "can use the --timeout option to increase the timeout."
        )
    if not is_detailed:
        click.echo(total_line(begun, Read(_now(), records, size, int(reading.joining_seconds * 1000)), pattern))


def interval_line(since: Read, now: Read, pattern: str) -> str:
    seconds = max(now.at - since.at, 1) / 1000
    joining = now.joining - since.joining
    fetching = now.at - since.at - joining
    megabytes, records = (now.size - since.size) / _MEBIBYTE, now.records - since.records
    fetched = (megabytes * 1000 / fetching, records * 1000 / fetching) if fetching > 0 else (0.0, 0.0)
    return (
        f"{_date(pattern, now.at)}, 0, {now.size / _MEBIBYTE:.4f}, {megabytes / seconds:.4f}, {now.records}, "
        f"{records / seconds:.4f}, {joining}, {fetching}, {fetched[0]:.4f}, {fetched[1]:.4f}"
    )


def total_line(begun: Read, end: Read, pattern: str) -> str:
    seconds = max(end.at - begun.at, 1) / 1000
    fetching = end.at - begun.at - end.joining
    per_second = 1000 / max(fetching, 1)
    megabytes = end.size / _MEBIBYTE
    return (
        f"{_date(pattern, begun.at)}, {_date(pattern, end.at)}, {megabytes:.4f}, {megabytes / seconds:.4f}, "
        f"{end.records}, {end.records / seconds:.4f}, {end.joining}, {fetching}, {megabytes * per_second:.4f}, "
        f"{end.records * per_second:.4f}"
    )


def _now() -> int:
    return int(time.time() * 1000)


def _date(pattern: str, at: int) -> str:
    return java_date(pattern, datetime.fromtimestamp(at / 1000))
