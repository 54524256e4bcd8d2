"""`highwater status`: how replication stands on a cluster that `highwater up` started, with reasons."""

from __future__ import annotations

import json
import time
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

import click
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table

SECONDS = 2.0


def ask(http: str) -> dict[str, Any] | None:
    """A node's /status; None where it does not answer."""
    connection = HTTPConnection(http, timeout=SECONDS)
    try:
        connection.request("GET", "/status")
        status: dict[str, Any] = json.loads(connection.getresponse().read())
        return status
    except (OSError, HTTPException, ValueError):
        return None
    finally:
        connection.close()


def show(addresses: list[tuple[str, str]], topic: str | None) -> Group:
    answers = [(name, ask(http)) for name, http in addresses]
    return Group(_nodes(answers), _partitions([each for _, each in answers if each is not None], topic))


def _nodes(answers: list[tuple[str, dict[str, Any] | None]]) -> Table:
    table = Table(title="Nodes")
    for column in ("node", "standing", "quorum", "leader", "epoch", "metadata offset"):
        table.add_column(column)
    for name, status in answers:
        if status is None:
            table.add_row(name, "[red]no answer[/red]", "", "", "", "")
            continue
        quorum = status["quorum"]
        table.add_row(
            name,
            str(status.get("standing", "controller")),
            quorum["role"],
            str(quorum["leader"]),
            str(quorum["epoch"]),
            str(status.get("metadata_offset", quorum["high_watermark"])),
        )
    return table


def _partitions(statuses: list[dict[str, Any]], topic: str | None) -> Table:
    table = Table(title="Partitions, as their leaders see them")
    for column in ("partition", "leader", "epoch", "start", "high watermark", "end", "ISR", "followers"):
        table.add_column(column)
    rows = [
        (part["topic"], part["partition"], part)
        for status in statuses
        for part in status.get("partitions", ())
        if part["role"] == "leader" and topic in (None, part["topic"])
    ]
    for name, index, part in sorted(rows, key=lambda row: row[:2]):
        table.add_row(
            f"{name}-{index}",
            str(part["leader"]),
            str(part["leader_epoch"]),
            str(part["log_start"]),
            str(part["high_watermark"]),
            str(part["log_end"]),
            ",".join(map(str, part["isr"])),
            "\n".join(_follower(each) for each in part["followers"]),
        )
    return table


def _follower(follower: dict[str, Any]) -> str:
    lag = "unknown" if follower["lag"] is None else f"{follower['lag']} records, {follower['lag_ms']} ms"
    if follower["in_isr"]:
        return f"{follower['id']}: in sync, behind by {lag}"
    return f"[red]{follower['id']}: out of sync[/red], behind by {lag}: {follower['why']}"


@click.command("status")
@click.option("--data-dir", default="highwater-data", show_default=True, type=click.Path(path_type=Path),
              help="The data directory of `highwater up`.")  # fmt: skip
@click.option("--http", "http", multiple=True, metavar="HOST:PORT", help="Nodes to ask, instead of nodes.json.")
@click.option("--topic", help="Only this topic.")
@click.option("--watch", is_flag=True, help="Go on showing it until Ctrl-C.")
def command(data_dir: Path, http: tuple[str, ...], topic: str | None, watch: bool) -> None:
    """Show each partition's leader, epoch, offsets, ISR and followers, and why a follower is out of sync."""
    addresses = [(address, address) for address in http]
    if not addresses:
        try:
            nodes = json.loads((data_dir / "nodes.json").read_text())["nodes"]
        except FileNotFoundError as missing:
            raise click.ClickException(f"{missing.filename} is not there: is `highwater up` running?") from missing
        addresses = [(str(node["id"]), node["http"]) for node in nodes]
    console = Console()
    if not watch:
        console.print(show(addresses, topic))
        return
    try:
        with Live(show(addresses, topic), console=console) as live:
            while True:
                time.sleep(0.5)
                live.update(show(addresses, topic))
    except KeyboardInterrupt:
        return
