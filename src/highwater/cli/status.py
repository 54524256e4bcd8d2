"""`highwater status`: how replication stands on a cluster that `highwater up` started, with reasons."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

import click
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from highwater.cli.status_topics import (
    Address,
    Answer,
    Part,
    Status,
    internal_lines,
    leaderless,
    of_topic,
    partitions,
    unknown,
    without_internal,
)

SECONDS = 3.0
"""How long a node may take to answer: one that is stopped never does, one on a busy machine may take a while."""
PIPED_WIDTH = 240
REFRESH_SECONDS = 0.5


def ask(http: str) -> Status | None:
    """A node's /status; None where it does not answer."""
    try:
        with contextlib.closing(HTTPConnection(http, timeout=SECONDS)) as connection:
            connection.request("GET", "/status")
            status: Status = json.loads(connection.getresponse().read())
            return status
    except (OSError, HTTPException, ValueError):
        return None


def ask_all(addresses: Sequence[Address]) -> list[Answer]:
    """All at once: a node that is silent keeps nobody waiting for the others."""
    with ThreadPoolExecutor(max_workers=max(len(addresses), 1)) as pool:
        return list(zip(addresses, pool.map(ask, (each.http for each in addresses)), strict=True))


def show(answers: list[Answer], topic: str | None, changes: int) -> Group:
    """All topics, or one; of internal topics a line each, and what has trouble."""
    shown = without_internal(answers) if topic is None else of_topic(answers, topic)
    cleaned = without_internal(answers, unless=_is_not_cleaned) if topic is None else shown
    led = sorted(_led(shown), key=lambda part: (part["topic"], part["partition"]))
    troubles = [quorum_trouble(answers), None if topic is None else unknown(answers, topic)]
    parts: list[RenderableType] = [f"[red]{escape(trouble)}[/red]" for trouble in troubles if trouble is not None]
    parts += [_nodes(answers), _partitions(led)]
    parts += [] if topic is not None else internal_lines(answers)
    troubled = _troubled(answers if topic is None else shown)
    tables = (_leaderless(leaderless(answers, topic)), _followers(led), troubled, _compacted(cleaned))
    parts += [table for table in tables if table.row_count]
    if changes:
        parts.append(_changes(shown, changes))
    return Group(*parts)


def quorum_trouble(answers: list[Answer]) -> str | None:
    """Why there is no quorum, by the voters that were asked and are silent."""
    told = [status["quorum"] for _, status in answers if status is not None]
    newest = max(told, key=lambda quorum: int(quorum["epoch"]), default=None)
    voters: list[int] = [] if newest is None else newest["voters"]
    silent = [voter for voter in voters if (str(voter), None) in ((at.node, status) for at, status in answers)]
    needed = len(voters) // 2 + 1
    if voters and len(voters) - len(silent) < needed:
        return (
            f"The quorum is lost: of the voters {_ids(voters)} no answer comes from {_ids(silent)}, and {needed} are "
            "needed. Until then no topic is created, no leader elected and no ISR changed: start them again."
        )
    if told and all(quorum["leader"] is None for quorum in told):
        return "The quorum has no leader: its voters have not agreed on one."
    return None


def _nodes(answers: list[Answer]) -> Table:
    table = _table("Nodes", "node", "standing", "quorum", "leader", "epoch", "metadata offset")
    for address, status in answers:
        if status is None:
            table.add_row(address.node, f"[red]no answer[/red] at {address.http}", "", "", "", "")
            continue
        quorum = status["quorum"]
        offset = status.get("metadata_offset", quorum["high_watermark"])
        standing = status.get("standing", "controller")
        _add(table, address.node, standing, quorum["role"], quorum["leader"], quorum["epoch"], offset)
    return table


def _led(answers: list[Answer]) -> Iterator[Part]:
    return (part for _, part in partitions(answers) if part["role"] == "leader")


def _partitions(led: list[dict[str, Any]]) -> Table:
    columns = ("partition", "leader", "epoch", "log start", "high watermark", "log end", "replicas", "ISR", "min ISR")
    table = _table("Partitions, as their leaders see them", *columns)
    for part in led:
        in_sync = _ids(part["isr"])
        whole = len(part["isr"]) == len(part["replicas"])
        _add(
            table,
            f"{part['topic']}-{part['partition']}",
            part["leader"],
            part["leader_epoch"],
            part["log_start"],
            part["high_watermark"],
            part["log_end"],
            _ids(part["replicas"]),
            in_sync if whole else f"[red]{in_sync}[/red]",
            part["min_isr"],
        )
    return table


def _leaderless(parts: list[Part]) -> Table:
    table = _table("Partitions without a leader", "partition", "replicas", "ISR", "may lead cleanly")
    for part in parts:
        may_lead = _ids(sorted({*part["isr"], *part["eligible"]})) or "[red]none[/red]"
        name = f"[red]{part['topic']}-{part['partition']}[/red]"
        _add(table, name, _ids(part["replicas"]), _ids(part["isr"]), may_lead)
    return table


def _followers(led: list[dict[str, Any]]) -> Table:
    table = _table("Followers", "partition", "replica", "state", "lag, records", "lag, ms", "why it is out of sync")
    for part in led:
        for follower in part["followers"]:
            _add(
                table,
                f"{part['topic']}-{part['partition']}",
                follower["id"],
                "in sync" if follower["in_isr"] else "[red]out of sync[/red]",
                "unknown" if follower["lag"] is None else follower["lag"],
                follower["lag_ms"],
                follower["why"] or "",
            )
    return table


def _troubled(answers: list[Answer]) -> Table:
    """Damage stays where no other replica can take over: the rest of such a log is served."""
    table = _table("Logs with trouble", "partition", "node", "state", "what was found")
    for address, part in partitions(answers):
        name = f"{part['topic']}-{part['partition']}"
        if part["offline"] is not None:
            _add(table, name, address.node, "[red]offline[/red]", escape(part["offline"]))
        elif part["unwritten"] is not None:
            _add(table, name, address.node, "[red]cannot be written[/red]", escape(part["unwritten"]))
        for found in part["damage"]:
            _add(table, name, address.node, "[red]damaged[/red]", escape(found))
    return table


def _compacted(answers: list[Answer]) -> Table:
    """Every replica: each is compacted by itself."""
    table = _table("Compacted logs", "partition", "node", "clean up to", "dirty", "limit", "cleaning", "last cleaned")
    for address, part in partitions(answers):
        told = part["compaction"]
        if told is not None:
            dirty = f"{told['dirty_bytes']} bytes, {told['dirty_ratio']:.0%}"
            limit = f"{told['min_cleanable_dirty_ratio']:.0%}"
            name = f"{part['topic']}-{part['partition']}"
            _add(table, name, address.node, told["clean_end"], dirty, limit, _cleaning(told), _cleaned(told))
    return table


def _is_not_cleaned(part: Part) -> bool:
    return part["compaction"] is not None and part["compaction"]["failed"] is not None


def _cleaning(told: dict[str, Any]) -> str:
    if told["under_way"] is not None:
        return f"{told['under_way']['share']:.0%} done"
    if told["failed"] is not None:
        then = "is tried again" if told["failed"]["tried_again"] else "not before a restart"
        return f"[red]failed[/red], {then}: {escape(told['failed']['reason'])}"
    return "due" if told["due"] else ""


def _cleaned(told: dict[str, Any]) -> str:
    last = told["last"]
    if last is None:
        return ""
    return f"{last['seconds_ago']:.0f} s ago in {last['seconds']:.1f} s, {last['bytes_written']} bytes stayed"


def _changes(answers: list[Answer], count: int) -> Table:
    """Of all nodes together: what was decided, and what each replica made of it."""
    found: list[tuple[float, str, str]] = []
    for address, status in answers:
        decisions = () if status is None else status.get("decisions", ())
        found += [(each["seconds_ago"], address.node, each["what"]) for each in decisions]
    for address, part in partitions(answers):
        name = f"{part['topic']}-{part['partition']}"
        found += [(each["seconds_ago"], address.node, f"{name} {each['what']}") for each in part["changes"]]
    table = _table("Last changes", "seconds ago", "node", "change")
    for seconds, node, what in sorted(found)[:count]:
        _add(table, f"{seconds:.1f}", node, what)
    return table


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column)
    return table


def _add(table: Table, *cells: object) -> None:
    table.add_row(*map(str, cells))


def _ids(nodes: list[int]) -> str:
    return ",".join(map(str, nodes))


def _addresses(data_dir: Path, http: Sequence[str]) -> list[Address]:
    if http:
        given = (each.removeprefix("http://").partition("/")[0] for each in http)  # as a node tells it, or a browser
        return [Address(each, each) for each in given]
    path = data_dir / "nodes.json"
    try:
        nodes = json.loads(path.read_text())["nodes"]
        return [Address(str(node["id"]), node["http"]) for node in nodes]
    except FileNotFoundError as missing:
        raise click.ClickException(
            f"{path} is not there: is `highwater up` running, with this --data-dir?"
        ) from missing
    except (ValueError, KeyError, TypeError) as wrong:
        raise click.ClickException(f"{path} is no list of nodes as `highwater up` writes it") from wrong


@click.command("status")
@click.option("--data-dir", default="highwater-data", show_default=True, type=click.Path(path_type=Path),
              help="The data directory of `highwater up`.")  # fmt: skip
@click.option("--http", "http", multiple=True, metavar="HOST:PORT",
              help="A node to ask, by its highwater.http.listener, instead of nodes.json. Repeatable.")  # fmt: skip
@click.option("--topic", help="Only this topic, which may be an internal one.")
@click.option("--changes", default=10, show_default=True, type=click.IntRange(0), metavar="N",
              help="How many of the last changes of leaders, ISRs and brokers to show.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="What the nodes answered, by node, as JSON.")
@click.option("--watch", is_flag=True, help="Go on showing it until Ctrl-C.")
def command(data_dir: Path, http: tuple[str, ...], topic: str | None, changes: int, as_json: bool, watch: bool) -> None:
    """Show how replication stands: each partition's leader, epoch, offsets and ISR, each follower's lag in records and
    milliseconds, why a follower is out of the ISR, and what changed last and why. Internal topics have a line each."""
    addresses = _addresses(data_dir, http)
    answers = ask_all(addresses)
    if all(status is None for _, status in answers):
        asked = ", ".join(each.http for each in addresses)
        raise click.ClickException(f"no node answers at {asked}: is the cluster running?")
    missing = None if topic is None or watch else unknown(answers, topic)
    if missing is not None:
        raise click.ClickException(missing)
    if as_json:
        answers = answers if topic is None else of_topic(answers, topic)
        click.echo(json.dumps({address.node: status for address, status in answers}, indent=1))
        return
    console = Console(width=None if sys.stdout.isatty() else PIPED_WIDTH)
    if not watch:
        console.print(show(answers, topic, changes))
        return
    try:
        with Live(show(answers, topic, changes), console=console) as live:
            while True:
                time.sleep(REFRESH_SECONDS)
                # A cluster that was started again has other ports; between two of them the last ones are silent.
                with contextlib.suppress(click.ClickException):
                    addresses = _addresses(data_dir, http)
                live.update(show(ask_all(addresses), topic, changes))
    except KeyboardInterrupt:
        return
