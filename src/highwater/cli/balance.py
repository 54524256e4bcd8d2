"""`highwater balance`: show how a cluster is spread over its brokers, and spread it evenly."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from highwater.cli.balance_view import amount, table
from highwater.cli.bootstrap import bootstrap_option, require_cluster
from highwater.cli.properties import load_properties, open_client
from highwater.cli.reassignment_json import plan_text
from highwater.cli.tool import EXIT_CODE, fail, tool
from highwater.client.balance_plan import Balance, CannotDrain, plan
from highwater.client.balance_run import MoveFailed, Progress, carry_out
from highwater.client.balance_sight import Sight, look
from highwater.client.balance_watch import LEAST_THRESHOLD, reason_to_act, reason_to_wait
from highwater.client.client import Client
from highwater.client.failures import ClientFailure
from highwater.errors import KafkaError
from highwater.model import NodeId

AT_A_TIME = 4
THRESHOLD = 25
EVERY_SECONDS = 60.0
PIPED_WIDTH = 200


@tool("balance")
@bootstrap_option
@click.option("--execute", is_flag=True, help="Carry the plan out. Without it, it is only shown.")
@click.option("--drain", multiple=True, type=int, metavar="ID", help="Leave nothing on this broker. Repeatable.")
@click.option("--at-a-time", default=AT_A_TIME, show_default=True, type=click.IntRange(1),
              help="How many partitions move at the same time.")  # fmt: skip
@click.option("--throttle", type=click.IntRange(min=1), metavar="BYTES",
              help="Bytes per second that the moves may take at each broker.")  # fmt: skip
@click.option("--auto", is_flag=True,
              help="Keep watching until Ctrl-C, and carry a plan out whenever the brokers are uneven.")  # fmt: skip
@click.option("--threshold", default=THRESHOLD, show_default=True, type=click.IntRange(LEAST_THRESHOLD),
              metavar="PERCENT", help="With --auto: how far from the mean a broker may be.")  # fmt: skip
@click.option("--every", default=EVERY_SECONDS, show_default=True, type=click.FloatRange(0.1), metavar="SECONDS",
              help="With --auto: how often to look.")  # fmt: skip
@click.option("--plan", "plan_file", metavar="FILE", help="Write the plan to this file, for `highwater reassign`.")
@click.option("--command-config", metavar="FILE", help="Property file with settings of the client.")
def command(context: click.Context, **options: object) -> None:
    """Show how leaders, replicas and bytes are spread over brokers, and plan moves that even them out.

    Few bytes are moved, and no partition gets fewer racks than it has. With --execute the moves are carried out. Ctrl-C
    ends that; the moves under way go on, and the next run takes up the rest.

    --auto waits while a broker is down, while replicas are not in sync and while other moves are under way.
    """
    params = context.params
    if params["auto"] and (params["execute"] or params["drain"] or params["plan_file"] is not None):
        fail("--auto cannot be combined with --execute, --drain or --plan")
    servers = require_cluster(params["bootstrap_server"])
    path = params["command_config"]
    try:
        with open_client(servers, load_properties(path) if path else {}, client_id="balance-tool") as client:
            if params["auto"]:
                _watch(client, context)
            else:
                _balance(client, [NodeId(each) for each in params["drain"]], context)
    except (KafkaError, ClientFailure, MoveFailed, CannotDrain, OSError) as error:
        fail(str(error))


def _balance(client: Client, drained: list[NodeId], context: click.Context) -> None:
    console = Console(width=None if sys.stdout.isatty() else PIPED_WIDTH)
    sight = look(client)
    known = {place.id for place in sight.places}
    for broker in drained:
        if broker not in known:
            fail(f"there is no broker {broker}, or it is down; there are {', '.join(map(str, sorted(known)))}")
    console.print(table(sight))
    if sight.moving:
        console.print(f"{len(sight.moving)} partitions are moving already, and are left alone")
    balance = plan(sight.settled, sight.places, drained)
    _show(console, sight, balance)
    if context.params["plan_file"] is not None:
        Path(context.params["plan_file"]).write_text(plan_text(balance.targets) + "\n")
    if not balance.targets and not sight.astray:
        return
    if not context.params["execute"]:
        console.print("Nothing was moved: --execute carries the plan out.")
        return
    _execute(console, client, sight, balance, context.params["at_a_time"], context.params["throttle"])


def _watch(client: Client, context: click.Context) -> None:
    """Looks again and again. A state is told once, when it begins. A failure ends one turn, not the watch."""
    console = Console(width=None if sys.stdout.isatty() else PIPED_WIDTH)
    params, told = context.params, None
    console.print(f"Watching every {params['every']:g} s for brokers more than {params['threshold']} % from the mean.")
    try:
        while True:
            try:
                state = _turn(console, client, params)
            except (KafkaError, ClientFailure, MoveFailed) as error:
                state = f"It looks again later: {error}"
            if state != told:
                told = state
                console.print(state, highlight=False)
            time.sleep(params["every"])
    except KeyboardInterrupt:
        sys.exit(EXIT_CODE)


def _turn(console: Console, client: Client, params: dict[str, Any]) -> str:
    """Evens the brokers out if that is due and possible. Returns the state that is left."""
    sight = look(client)
    waits = reason_to_wait(sight)
    if waits is not None:
        return f"It waits: {waits}."
    acts = reason_to_act(sight, params["threshold"])
    if acts is None:
        return "Even."
    balance = plan(sight.partitions, sight.places)
    if not balance.targets:
        return f"Uneven: {acts}. No move would even that out."
    console.print(f"Uneven: {acts}.", highlight=False)
    _show(console, sight, balance)
    _execute(console, client, sight, balance, params["at_a_time"], params["throttle"])
    return "It looks again."


def _show(console: Console, sight: Sight, balance: Balance) -> None:
    if sight.astray:
        console.print(f"{sight.astray} partitions are not led by their preferred replica")
    if not balance.targets:
        console.print("Replicas are balanced: there is nothing to move.")
        return
    copies = sum(len(set(now) - set(sight.partitions[tp].replicas)) for tp, now in balance.targets.items())
    console.print(
        f"Plan: {len(balance.targets)} partitions change, {copies} replicas move, {amount(balance.moved_bytes)} are "
        f"copied; exactly even brokers would need at least {amount(balance.exact_bytes)}"
    )
    for tp, now in sorted(balance.targets.items()):
        before = ",".join(map(str, sight.partitions[tp].replicas))
        size = amount(sight.partitions[tp].size)
        console.print(f"  {tp}: {before} -> {','.join(map(str, now))} ({size})", highlight=False)


def _execute(
    console: Console, client: Client, sight: Sight, balance: Balance, at_a_time: int, throttle: int | None
) -> None:
    left = len(balance.targets)

    def note(progress: Progress) -> None:
        nonlocal left
        left = progress.waiting

    try:
        with _reporting(console, balance) as shown:

            def report(progress: Progress) -> None:
                note(progress)
                shown(progress)

            carry_out(client, sight.partitions, balance.targets, at_a_time, report, rate=throttle)
    except KeyboardInterrupt:
        console.print(f"Stopped: {left} of {len(balance.targets)} moves are left. Those under way go on by themselves.")
        if throttle is not None:
            console.print("Their throttle stays. The next `highwater balance --execute` removes it at its end.")
        sys.exit(EXIT_CODE)
    console.print("Done.")
    console.print(table(look(client)))


@contextlib.contextmanager
def _reporting(console: Console, balance: Balance) -> Iterator[Callable[[Progress], None]]:
    """A bar with bytes and the time left on a terminal; elsewhere a line for each partition."""
    if not console.is_terminal:
        yield lambda progress: _lines(console, balance, progress)
        return
    columns = (TextColumn("moving"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Bar(*columns, console=console) as bar:
        task = bar.add_task("moving", total=balance.moved_bytes or None)
        yield lambda progress: bar.update(task, completed=min(progress.copied, balance.moved_bytes))
        bar.update(task, completed=balance.moved_bytes)


def _lines(console: Console, balance: Balance, progress: Progress) -> None:
    for tp in progress.finished:
        done = len(balance.targets) - progress.waiting
        console.print(
            f"{tp} is on {','.join(map(str, balance.targets[tp]))}: {done} of {len(balance.targets)}, "
            f"{amount(progress.copied)} copied",
            highlight=False,
        )
