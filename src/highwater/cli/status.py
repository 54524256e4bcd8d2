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
from highwater.cluster.lost_voters import lost_voters_line
from highwater.cluster.room import shortage

SECONDS = 3.0
"""How long a node may take to answer: a stopped one never does, and one on a busy machine may take a while."""
PIPED_WIDTH = 240
REFRESH_SECONDS = 0.5


def ask(http: str) -> Status | None:
    """The /status of a node; None if it does not answer."""
    try:
        with contextlib.closing(HTTPConnection(http, timeout=SECONDS)) as connection:
            connection.request("GET", "/status")
            status: Status = json.loads(connection.getresponse().read())
            return status
    except (OSError, HTTPException, ValueError):
        return None


def ask_all(addresses: Sequence[Address]) -> list[Answer]:
    """Asks all nodes at once: a silent node does not delay the others."""
    with ThreadPoolExecutor(max_workers=max(len(addresses), 1)) as pool:
        return list(zip(addresses, pool.map(ask, (each.http for each in addresses)), strict=True))


def show(answers: list[Answer], topic: str | None, changes: int) -> Group:
    """All topics, or one. Each internal topic has one line, and partitions with trouble are shown."""
    shown = without_internal(answers) if topic is None else of_topic(answers, topic)
    cleaned = without_internal(answers, unless=_is_not_cleaned) if topic is None else shown
    led = sorted(_led(shown), key=lambda part: (part["topic"], part["partition"]))
    lost = lost_voters(answers)
    troubles = [quorum_trouble(answers), lost_voters_line(lost, _voters(answers)) if lost else None]
    troubles += [None if topic is None else unknown(answers, topic)]
    troubles += full_disks(answers)
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
    """Why there is no quorum, from the voters that were asked and did not answer."""
    known = [status["quorum"] for _, status in answers if status is not None]
    voters = _voters(answers)
    silent = [voter for voter in voters if (str(voter), None) in ((at.node, status) for at, status in answers)]
    lost = lost_voters(answers)
    needed = len(voters) // 2 + 1
    if voters and len(voters) - len(silent) - len(lost) < needed:
        why = [f"no answer comes from {_ids(silent)}"] if silent else []
        why += [f"{_ids(lost)} lost {'its vote' if len(lost) == 1 else 'their votes'}"] if lost else []
        remedy = ": start them again" if silent else ""
        return (
            f"The quorum is lost: of the voters {_ids(voters)} {', and '.join(why)}, and {needed} are needed. Until "
            f"then no topic is created, no leader elected and no ISR changed{remedy}."
        )
    if known and all(quorum["leader"] is None for quorum in known):
        return "The quorum has no leader: its voters have not agreed on one."
    return None


def lost_voters(answers: list[Answer]) -> list[int]:
    """Nodes that answer with a voter's id, but from another directory than the one with which the quorum knows it."""
    known = {status["node"] for _, status in answers if status is not None and _is_observer(status)}
    return [voter for voter in _voters(answers) if voter in known]


def _voters(answers: list[Answer]) -> list[int]:
    """The voters, from the node with the newest knowledge."""
    known = [status["quorum"] for _, status in answers if status is not None]
    newest = max(known, key=lambda quorum: int(quorum["epoch"]), default=None)
    return [] if newest is None else list(newest["voters"])


def _is_observer(status: Status) -> bool:
    return not status["quorum"].get("is_voter", True)  # a node of an older version does not report it


def full_disks(answers: list[Answer]) -> list[str]:
    """One line for each full disk of this machine, with the nodes that it stops."""
    found: dict[int, tuple[str, list[str]]] = {}
    for address, _ in answers:
        directory = None if address.log_dir is None else Path(address.log_dir)
        with contextlib.suppress(OSError):
            short = None if directory is None else shortage(directory)
            if directory is not None and short is not None:
                found.setdefault(directory.stat().st_dev, (short, []))[1].append(address.node)
    return [
        f"The disk of {'node' if len(nodes) == 1 else 'nodes'} {','.join(nodes)} is full ({short}): nothing is written "
        "there until there is room."
        for short, nodes in found.values()
    ]


def _nodes(answers: list[Answer]) -> Table:
    table = _table("Nodes", "node", "standing", "quorum", "leader", "epoch", "metadata offset")
    for address, status in answers:
        if status is None:
            table.add_row(address.node, f"[red]no answer[/red] at {address.http}", "", "", "", "")
            continue
        quorum = status["quorum"]
        offset = status.get("metadata_offset", quorum["high_watermark"])
        standing = status.get("standing", "controller")
        role = "Observer" if _is_observer(status) else quorum["role"]
        _add(table, address.node, standing, role, quorum["leader"], quorum["epoch"], offset)
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
    """Damage stays if no other replica can take over: the rest of such a log is served."""
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
    """Every replica, because each one is compacted by itself."""
    table = _table("Compacted logs", "partition", "node", "clean up to", "dirty", "limit", "cleaning", "last cleaned")
    for address, part in partitions(answers):
        compaction = part["compaction"]
        if compaction is not None:
            dirty = f"{compaction['dirty_bytes']} bytes, {compaction['dirty_ratio']:.0%}"
            limit = f"{compaction['min_cleanable_dirty_ratio']:.0%}"
            name = f"{part['topic']}-{part['partition']}"
            _add(
                table,
                name,
                address.node,
                compaction["clean_end"],
                dirty,
                limit,
                _cleaning(compaction),
                _cleaned(compaction),
            )
    return table


def _is_not_cleaned(part: Part) -> bool:
    return part["compaction"] is not None and part["compaction"]["failed"] is not None


def _cleaning(compaction: dict[str, Any]) -> str:
    if compaction["under_way"] is not None:
        return f"{compaction['under_way']['share']:.0%} done"
    if compaction["failed"] is not None:
        then = "is tried again" if compaction["failed"]["tried_again"] else "not before a restart"
        return f"[red]failed[/red], {then}: {escape(compaction['failed']['reason'])}"
    return "due" if compaction["due"] else ""


def _cleaned(compaction: dict[str, Any]) -> str:
    last = compaction["last"]
    if last is None:
        return ""
    return f"{last['seconds_ago']:.0f} s ago in {last['seconds']:.1f} s, {last['bytes_written']} bytes stayed"


def _changes(answers: list[Answer], count: int) -> Table:
    """The changes of all nodes together: what was decided, and what each replica did."""
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
        given = (each.removeprefix("http://").partition("/")[0] for each in http)  # as a node prints it, or a browser
        return [Address(each, each) for each in given]
    path = data_dir / "nodes.json"
    try:
        nodes = json.loads(path.read_text())["nodes"]
        return [Address(str(node["id"]), node["http"], node.get("log_dir")) for node in nodes]
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
                # A cluster that was started again has other ports. In between, the old ones do not answer.
                with contextlib.suppress(click.ClickException):
                    addresses = _addresses(data_dir, http)
                live.update(show(ask_all(addresses), topic, changes))
    except KeyboardInterrupt:
        return
