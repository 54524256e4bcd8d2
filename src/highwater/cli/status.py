"""`highwater status`: how replication stands on a cluster that `highwater up` started, with reasons."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import click
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape

from highwater.cli.silent_nodes import remedies
from highwater.cli.status_answers import addresses_of, ask_all
from highwater.cli.status_partitions import PartitionList
from highwater.cli.status_quorum import full_disks, lost_voters, quorum_trouble, voters_of
from highwater.cli.status_tables import changes, compacted, is_not_cleaned, nodes, troubled
from highwater.cli.status_topics import Address, Answer, internal_lines, leaderless, of_topic, unknown, without_internal
from highwater.cli.status_verdict import led, unled, verdict_of
from highwater.cluster.lost_voters import lost_voters_line

PIPED_WIDTH = 240
REFRESH_SECONDS = 0.5


def show(answers: list[Answer], topic: str | None, last: int, internal: bool = False) -> Group:
    """The verdict, then all topics or one. Internal topics are left out unless they are asked for or have trouble."""
    if topic is not None:
        shown = cleaned = of_topic(answers, topic)
    elif internal:
        shown = cleaned = answers
    else:
        shown = without_internal(answers)
        cleaned = without_internal(answers, unless=is_not_cleaned)
    disks = full_disks(answers)
    verdict = verdict_of(answers, len(disks))
    parts: list[RenderableType] = [f"[bold {'green' if verdict.is_well else 'red'}]{escape(verdict.text)}[/]"]
    silent = [remedy.told(node) for node, remedy in remedies(answers).items()]
    parts += [f"[red]{escape(trouble)}[/red]" for trouble in (*troubles(answers, topic), *silent, *disks)]
    rows = PartitionList(led(shown), unled(shown), leaderless(answers, topic, internal))
    parts += [nodes(answers), *([rows] if rows.rows else [])]
    parts += [] if topic is not None or internal else internal_lines(answers)
    tables = (troubled(answers if topic is None else shown), compacted(cleaned))
    parts += [table for table in tables if table.row_count]
    if last:
        parts.append(changes(shown, last))
    return Group(*parts)


def troubles(answers: Sequence[Answer], topic: str | None) -> list[str]:
    """What the verdict means, and what to do."""
    lost = lost_voters(answers)
    found = [quorum_trouble(answers), lost_voters_line(lost, voters_of(answers)) if lost else None]
    found += [None if topic is None else unknown(answers, topic)]
    return [each for each in found if each is not None]


@click.command("status")
@click.option("--data-dir", default="highwater-data", show_default=True, type=click.Path(path_type=Path),
              help="The data directory of `highwater up`.")  # fmt: skip
@click.option("--http", "http", multiple=True, metavar="HOST:PORT",
              help="A node to ask, by its highwater.http.listener, instead of nodes.json. Repeatable.")  # fmt: skip
@click.option("--topic", help="Only this topic, which may be an internal one.")
@click.option("--changes", default=10, show_default=True, type=click.IntRange(0), metavar="N",
              help="How many of the last changes of leaders, ISRs and brokers to show.")  # fmt: skip
@click.option("--internal", is_flag=True, help="Internal topics, too.")
@click.option("--json", "as_json", is_flag=True, help="What the nodes answered, by node, as JSON.")
@click.option(
    "--watch", is_flag=True, help="Go on showing it until Ctrl-C; `highwater top` is a view of the whole screen."
)
def command(
    data_dir: Path,
    http: tuple[str, ...],
    topic: str | None,
    changes: int,
    internal: bool,
    as_json: bool,
    watch: bool,
) -> None:
    """Show how a cluster stands: a verdict, then trouble first.

    Each partition has its leader, epoch, offsets and replicas (★ leads, ! is out of sync), and the followers that are
    behind, by how much, and why one is out of the ISR. Then what changed last, and why. Internal topics are shown if
    they have trouble, or with --internal.
    """
    addresses = addresses_of(data_dir, http)
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
    if watch:
        again = partial(addresses_of, data_dir, http)
        _watch(console, addresses, answers, again, lambda found: show(found, topic, changes, internal))
    else:
        console.print(show(answers, topic, changes, internal))


def _watch(
    console: Console,
    addresses: list[Address],
    answers: list[Answer],
    again: Callable[[], list[Address]],
    picture: Callable[[list[Answer]], Group],
) -> None:
    try:
        with Live(picture(answers), console=console) as live:
            while True:
                time.sleep(REFRESH_SECONDS)
                # A cluster that was started again has other ports. In between, the old ones do not answer.
                with contextlib.suppress(click.ClickException):
                    addresses = again()
                live.update(picture(ask_all(addresses)))
    except KeyboardInterrupt:
        return
