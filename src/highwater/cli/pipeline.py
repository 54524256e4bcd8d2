"""`highwater pipeline`: topics into tables and topics, by Spark, as one file says."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from highwater.cli.command_group import CommandGroup
from highwater.cli.tool import fail
from highwater.client.client import Client
from highwater.client.failures import ClientFailure
from highwater.client.groups import Groups
from highwater.client.offsets import LATEST, FoundOffset, list_offsets
from highwater.errors import KafkaError
from highwater.model import TopicPartition

SECONDS = 10.0
"""How long `status` waits for the cluster."""

file_argument = click.argument("file", type=click.Path(path_type=Path), default="pipeline.yml")


@contextmanager
def _with_spark() -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        fail(f"{error.name} is missing: pipelines need the packages of `pip install 'highwater[spark]'`")


def _loaded(file: Path) -> Any:
    with _with_spark():
        from highwater.pipeline.yaml_file import BadDefinition, load
    if not file.exists():
        fail(f"{file}: there is no such file; `highwater pipeline init` writes one to begin with")
    try:
        return load(file)
    except BadDefinition as error:
        fail(str(error))


@click.group(name="pipeline", cls=CommandGroup)
def command() -> None:
    """Land topics in tables, exactly once, with Spark; against any Kafka.

    \b
    highwater pipeline init orders      write a small project that runs at once
    highwater pipeline land             run the pipeline of ./pipeline.yml
    highwater pipeline status           show how it stands, from another terminal
    highwater pipeline position         show or set how far the table has come
    """


@command.command("land")
@file_argument
@click.option("--master", help="Where Spark runs: local[*], local-cluster[…], spark://host:7077 or any other.")
@click.option("--once", is_flag=True, help="Take all that is there now, then end (trigger: available-now).")
@click.option("--check", is_flag=True, help="Only check the file; start nothing.")
@click.option("--metrics-port", type=click.IntRange(0, 65535), help="Serve Prometheus here (0: any free port).")
def land(file: Path, master: str | None, once: bool, check: bool, metrics_port: int | None) -> None:
    """Run the pipeline of FILE (pipeline.yml) until Ctrl-C.

    The file is checked first, as a whole, and a mistake is one line that names its line and key. After a failure the
    query is started again, as the key restart says.
    """
    definition = _loaded(file)
    if once:
        definition = replace(definition, trigger="available-now")
    from highwater.pipeline.query import transform_of

    try:
        transform_of(definition)
    except ValueError as error:
        fail(f"{file}: {error}")
    if check:
        click.echo(f"{file}: {_summary(definition)}")
        return
    # First of all: a second `land` must not report that its port is taken by the first one, and must not overwrite its
    # status.
    with _sole(definition) as lock:
        _run(file, definition, definition.metrics_port if metrics_port is None else metrics_port, master, once, lock)


@contextmanager
def _sole(definition: Any) -> Iterator[int | None]:
    """Holds the lock of the checkpoint as long as `land` runs; None if the checkpoint is not on this machine."""
    from highwater.pipeline.checkpoint import Checkpoint, InUse

    checkpoint = Checkpoint.at(definition.checkpoint)
    with ExitStack() as opened:
        try:
            lock = None if checkpoint is None else opened.enter_context(checkpoint.locked())
        except InUse as error:
            fail(str(error))
        except OSError as error:
            fail(f"the checkpoint {definition.checkpoint} cannot be used: {error.filename}: {error.strerror}")
        yield lock


def _run(file: Path, definition: Any, port: int | None, master: str | None, once: bool, lock: int | None) -> None:
    from highwater.pipeline.display import Display
    from highwater.pipeline.job import GaveUp, Job, stopped_by_signals
    from highwater.pipeline.metrics import Metrics

    try:
        metrics = None if port is None else Metrics(definition, port)
    except OSError as error:
        fail(f"metrics cannot be served on port {port}: {error.strerror}; --metrics-port takes another")
    click.echo(_summary(definition))
    if metrics is not None:
        click.echo(f"metrics http://127.0.0.1:{metrics.port}/metrics")
    try:
        with Display(Console()) as display:
            job = Job(file, definition, display, metrics, master=master, once=once, lock=lock)
            with stopped_by_signals(job):
                job.run()
            if once and job.is_stopped:
                fail("stopped before all records were landed")
    except GaveUp as failure:
        fail(str(failure))
    finally:
        if metrics is not None:
            metrics.close()


def _summary(definition: Any) -> str:
    source = definition.source.get("subscribe") or definition.source["subscribePattern"]
    sink = definition.sink
    target = (
        f"topic {sink['topic']}" if "topic" in sink else f"{sink['table']} table {sink.get('path', sink.get('name'))}"
    )
    return f"{definition.name}: {source} -> {target} ({definition.mode}, {definition.trigger})"


@command.command("status")
@file_argument
def status(file: Path) -> None:
    """Show the last progress of FILE's pipeline, and how far its group is behind."""
    definition = _loaded(file)
    from highwater.pipeline.job import status_file

    path = status_file(definition)
    if path is None:
        fail(f"the checkpoint {definition.checkpoint} is not on this machine: there is nothing to read")
    try:
        status = json.loads(path.read_text())
    except FileNotFoundError:
        fail(f"{definition.name} has not run yet: there is no {path}")
    except (OSError, ValueError) as error:
        fail(f"{path}: {error}")
    for line in _status_lines(status):
        click.echo(line)
    if definition.sink_format == "highwater-table":
        for line in _position(definition):
            click.echo(line)
    if definition.group is None:
        click.echo("the source has no group: its lag is that of the last batch")
        return
    try:
        for line in _group_lag(definition, definition.group):
            click.echo(line)
    except (KafkaError, ClientFailure, ValueError) as error:
        fail(f"group {definition.group}: {error}")


def _status_lines(status: dict[str, Any]) -> Iterator[str]:
    alive = _is_alive(status["pid"])
    state = (
        status["state"]
        if alive or status["state"] in ("stopped", "finished", "failed")
        else "gone (it did not stop in order)"
    )
    counts = ("records", "rows", "batches", "restarts")
    yield f"{status['name']}  {state}  {_counted(status, counts)}"
    if (last := status["last"]) is not None:
        ago = max(0.0, time.time() - status["last_at"])
        yield (
            f"last batch {last['batch_id']}, {ago:.0f} s ago: "
            f"{_counted(last, ('records', 'rows'))} seconds={last['seconds']:.3f} lag={last['lag']}"
        )
    if status["trouble"]:
        yield f"last trouble: {status['trouble']}"


def _counted(status: dict[str, Any], names: tuple[str, ...]) -> str:
    """An earlier version wrote only rows."""
    return " ".join(f"{name}={status[name]}" for name in names if name in status)


def _position(definition: Any) -> Iterator[str]:
    """The position of the table, as the table records it."""
    from highwater.pipeline.positioning import position_of

    position = position_of(definition)
    if position is None:
        yield "the table has no position of this pipeline"
        return
    rows: list[tuple[str, ...]] = [("LANDED", "PARTITION", "OFFSETS", "EPOCH")]
    for log, intervals in sorted(position.at.items()):
        offsets = ",".join(f"{interval.begin}-{interval.end}" for interval in intervals)
        rows.append((log.topic, str(log.partition), offsets, str(intervals[-1].epoch)))
    yield from _aligned(rows)


def _aligned(rows: list[tuple[str, ...]]) -> Iterator[str]:
    """A table with columns as wide as their content: names are not cut."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _group_lag(definition: Any, group: str) -> Iterator[str]:
    rows: list[tuple[str, ...]] = [("GROUP", "TOPIC", "PARTITION", "COMMITTED", "END", "LAG")]
    servers, security = definition.bootstrap_servers, definition.security
    with Client(servers, timeout=SECONDS, request_timeout=SECONDS, security=security) as client:
        committed = Groups(client).committed(group)
        ends = list_offsets(client, dict.fromkeys(committed, LATEST))
        for partition in sorted(committed):
            at = committed[partition].offset
            rows.append((group, partition.topic, str(partition.partition), str(at), *_end_and_lag(at, ends[partition])))
    yield from _aligned(rows)


def _end_and_lag(committed: int, end: FoundOffset | KafkaError | None) -> tuple[str, str]:
    if isinstance(end, FoundOffset):
        return str(end.offset), str(end.offset - committed)
    return "-", "-" if end is None else str(end)


@command.command("position")
@file_argument
@click.option("--show", is_flag=True, help="Print which offsets the table has (the default).")
@click.option("--set", "ends", multiple=True, metavar="TOPIC:PARTITION:OFFSET", help="The table has all before OFFSET.")
@click.option("--export", is_flag=True, help="Print the ends as JSON, in the form of Spark's startingOffsets.")
@click.option("--import", "source", type=click.File(), help="Set the ends that a file of this form names (-: stdin).")
def position(file: Path, show: bool, ends: tuple[str, ...], export: bool, source: Any) -> None:
    """Show or set how far the table of FILE's pipeline has come.

    Set it after the table was restored, or for a cluster to which the topics were moved with their offsets. The
    pipeline must not run, and begins without its checkpoint afterwards: move that away.
    """
    if sum((show, bool(ends), export, source is not None)) > 1:
        fail("--show, --set, --export and --import exclude each other")
    definition = _loaded(file)
    from highwater.pipeline.landing.rule import LandingError
    from highwater.pipeline.positioning import exported, imported, place, position_of

    try:
        if export:
            found = position_of(definition)
            click.echo("{}" if found is None else exported(found))
            return
        if ends or source is not None:
            place(definition, _ends(ends) if ends else imported(source.read()))
            click.echo(f"set; move the checkpoint {definition.checkpoint} away, if it is there, and start the pipeline")
        for line in _position(definition):
            click.echo(line)
    except (LandingError, ValueError, KafkaError, ClientFailure) as error:
        fail(str(error))


def _ends(given: tuple[str, ...]) -> dict[TopicPartition, int]:
    ends = {}
    for text in given:
        topic, partition, offset = ["", "", *text.rsplit(":", 2)][-3:]
        if not topic or not partition.isdecimal() or not offset.isdecimal():
            raise ValueError(f"--set {text}: expected TOPIC:PARTITION:OFFSET, such as orders:0:1200")
        ends[TopicPartition(topic, int(partition))] = int(offset)
    return ends


@command.command("init")
@click.argument("folder", type=click.Path(path_type=Path), default=".")
@click.option("--bootstrap-server", metavar="HOST:PORT,…",
              help="The cluster to begin with; the three brokers of `highwater up` where it is not given.")  # fmt: skip
def init(folder: Path, bootstrap_server: str | None) -> None:
    """Write a small project into FOLDER: a pipeline, a producer of orders, and how to run them."""
    with _with_spark():
        from highwater.pipeline.project import USUAL_SERVERS, NotEmpty, up_command, write_project
    servers = bootstrap_server or USUAL_SERVERS
    try:
        paths = write_project(folder, servers)
    except (NotEmpty, OSError) as error:
        fail(str(error))
    for path in paths:
        click.echo(path)
    up = up_command(servers)
    click.echo(f"\nNext: {'' if up is None else f'{up}, then '}what {folder / 'README.md'} says.")
