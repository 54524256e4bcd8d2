"""`highwater pipeline status`: how a pipeline stands, once or again and again."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from highwater.cli.pipeline_file import file_argument, loaded
from highwater.cli.pipeline_position import aligned, position_lines
from highwater.cli.tool import fail
from highwater.client.client import Client
from highwater.client.failures import ClientFailure
from highwater.client.groups import Groups
from highwater.client.offsets import LATEST, FoundOffset, list_offsets
from highwater.errors import KafkaError

SECONDS = 10.0
"""How long `status` waits for the cluster."""


class _Unknown(Exception):
    """Why nothing can be shown, in one line."""


@click.command("status")
@file_argument
@click.option("--watch", is_flag=True, help="Show it again and again, until Ctrl-C.")
@click.option("--interval", type=click.FloatRange(0.1, 3600), default=2.0, show_default=True, metavar="SECONDS",
              help="With --watch: the pause between two looks.")  # fmt: skip
def status(file: Path, watch: bool, interval: float) -> None:
    """Show the last progress of FILE's pipeline, and how far its group is behind."""
    definition = loaded(file)
    if not watch:
        try:
            for line in _lines(definition):
                click.echo(line)
        except _Unknown as error:
            fail(str(error))
        return
    while True:
        # All of it is gathered first: a screen that fills line by line flickers.
        shown = list(_watched(definition))
        click.clear()
        click.echo("\n".join([*shown, "", f"every {interval:g} s; Ctrl-C ends it"]))
        time.sleep(interval)


def _watched(definition: Any) -> Iterator[str]:
    """What is not there yet may come: one who watches waits for it."""
    try:
        yield from _lines(definition)
    except _Unknown as error:
        yield str(error)


def _lines(definition: Any) -> Iterator[str]:
    from highwater.pipeline.job import status_file

    path = status_file(definition)
    if path is None:
        raise _Unknown(f"the checkpoint {definition.checkpoint} is not on this machine: there is nothing to read")
    try:
        found = json.loads(path.read_text())
    except FileNotFoundError:
        raise _Unknown(f"{definition.name} has not run yet: there is no {path}") from None
    except (OSError, ValueError) as error:
        raise _Unknown(f"{path}: {error}") from error
    yield from _status_lines(found)
    if definition.sink_format == "highwater-table":
        yield from position_lines(definition)
    if definition.group is None:
        yield "the source has no group: its lag is that of the last batch"
        return
    try:
        yield from _group_lag(definition, definition.group)
    except (KafkaError, ClientFailure, ValueError) as error:
        raise _Unknown(f"group {definition.group}: {error}") from error


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
            f"{_counted(last, ('records', 'rows', 'bad', 'files'))} seconds={last['seconds']:.3f} lag={last['lag']}"
        )
    if status["trouble"]:
        yield f"last trouble: {status['trouble']}"


def _counted(status: dict[str, Any], names: tuple[str, ...]) -> str:
    """An earlier version wrote only rows."""
    return " ".join(f"{name}={status[name]}" for name in names if name in status)


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
    yield from aligned(rows)


def _end_and_lag(committed: int, end: FoundOffset | KafkaError | None) -> tuple[str, str]:
    if isinstance(end, FoundOffset):
        return str(end.offset), str(end.offset - committed)
    return "-", "-" if end is None else str(end)
