"""`highwater pipeline`: topics into tables and topics, by Spark, as one file says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from highwater.cli.command_group import CommandGroup
from highwater.cli.pipeline_audit import audit
from highwater.cli.pipeline_file import file_argument, loaded, with_spark
from highwater.cli.pipeline_position import offsets_of, position
from highwater.cli.pipeline_replay import replay
from highwater.cli.pipeline_status import status
from highwater.cli.tool import fail
from highwater.client.failures import ClientFailure
from highwater.errors import KafkaError


@click.group(name="pipeline", cls=CommandGroup)
def command() -> None:
    """Land topics in tables, exactly once, with Spark; against any Kafka.

    \b
    highwater pipeline init orders      write a small project that runs at once
    highwater pipeline land             run the pipeline of ./pipeline.yml
    highwater pipeline status           show how it stands, from another terminal
    highwater pipeline position         show or set how far the table has come
    highwater pipeline audit            compare the topics with the table
    highwater pipeline replay           send dead letters to the topics that they came from
    """


@command.command("land")
@file_argument
@click.option("--master", help="Where Spark runs: local[*], local-cluster[…], spark://host:7077 or any other.")
@click.option("--once", is_flag=True, help="Take all that is there now, then end (trigger: available-now).")
@click.option("--check", is_flag=True, help="Only check the file; start nothing.")
@click.option("--skip", "skips", multiple=True, metavar="TOPIC:PARTITION:OFFSET",
              help="Pass over a record; if its record batch cannot be read, the whole batch.")  # fmt: skip
@click.option("--reason", help="Why, with --skip: it is kept in the table.")
@click.option("--metrics-port", type=click.IntRange(0, 65535), help="Serve Prometheus here (0: any free port).")
def land(
    file: Path,
    master: str | None,
    once: bool,
    check: bool,
    skips: tuple[str, ...],
    reason: str | None,
    metrics_port: int | None,
) -> None:
    """Run the pipeline of FILE (pipeline.yml) until Ctrl-C.

    The file is checked first, as a whole, and a mistake is one line that names its line and key. After a failure the
    query is started again, as the key restart says. What --skip names is recorded in the table, with the reason, and
    counts for every later start: `status` and `audit` show it.
    """
    if reason is not None and not skips:
        fail("--reason is given without --skip")
    definition = loaded(file)
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
        if skips:
            _skip(definition, skips, reason)
        _run(file, definition, definition.metrics_port if metrics_port is None else metrics_port, master, once, lock)


def _skip(definition: Any, given: tuple[str, ...], reason: str | None) -> None:
    from highwater.kernel import BadRecords
    from highwater.pipeline.landing.rule import LandingError
    from highwater.pipeline.skipping import skip

    try:
        decided = skip(definition, offsets_of("--skip", given), reason)
    except (LandingError, BadRecords, ValueError, KafkaError, ClientFailure) as error:
        fail(str(error))
    for log, found in decided:
        click.echo(f"skipped: offsets {found.begin} to {found.end} of {log} ({found.reason})")


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
        where = f"port {port} of {definition.metrics_address}"
        fail(f"metrics cannot be served on {where}: {error.strerror}; --metrics-port takes another")
    click.echo(_summary(definition))
    if metrics is not None:
        click.echo(f"metrics http://{definition.metrics_address}:{metrics.port}/metrics")
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


@command.command("init")
@click.argument("folder", type=click.Path(path_type=Path), default=".")
@click.option("--bootstrap-server", metavar="HOST:PORT,…",
              help="The cluster to begin with; the three brokers of `highwater up` where it is not given.")  # fmt: skip
@click.option("--template", type=click.Choice(["pipeline", "declarative"]), default="pipeline",
              help="What runs it: `pipeline land`, or Spark's own command for Declarative Pipelines.")  # fmt: skip
def init(folder: Path, bootstrap_server: str | None, template: str) -> None:
    """Write a small project into FOLDER: a pipeline, a producer of orders, and how to run them."""
    with with_spark():
        from highwater.pipeline.project import USUAL_SERVERS, NotEmpty, up_command, write_project
    servers = bootstrap_server or USUAL_SERVERS
    try:
        paths = write_project(folder, servers, template)
    except (NotEmpty, OSError) as error:
        fail(str(error))
    for path in paths:
        click.echo(path)
    up = up_command(servers)
    click.echo(f"\nNext: {'' if up is None else f'{up}, then '}what {folder / 'README.md'} says.")


command.add_command(status)
command.add_command(position)
command.add_command(audit)
command.add_command(replay)
