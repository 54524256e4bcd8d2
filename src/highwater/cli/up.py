"""`highwater up`: a cluster on this machine, one process per node, until Ctrl-C."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from shlex import quote

import click

from highwater.cli.bootstrap import DATA_DIR
from highwater.cli.console_process import HELP_CHANGES, HELP_FAULTS, HELP_RECORDINGS, ConsoleProcess, console_option
from highwater.cli.environment import Environment
from highwater.cli.local_cluster import LocalCluster
from highwater.cli.next_steps import next_steps
from highwater.cli.node_process import NodeProcess
from highwater.cli.stop_signals import StopSignals
from highwater.cluster.failed import ClusterFailed
from highwater.cluster.ports import free_ports
from highwater.config import ConfigError
from highwater.console.listening import PortTaken

LAST_PORT = 65535
LAST_LINES = 5
"""The number of log lines that are printed for a node that died."""


def parse_settings(settings: tuple[str, ...]) -> dict[str, str]:
    parsed = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or not key.strip():
            raise click.BadParameter(f"{setting!r} is not key=value", param_hint="--set")
        parsed[key.strip()] = value.strip()
    return parsed


def spread(racks: str | None, brokers: int, settings: dict[str, str]) -> list[str] | None:
    """The rack of each broker: they have the racks in turn, and begin again after the last one."""
    if racks is None:
        return None
    if "broker.rack" in settings:
        raise click.BadParameter("broker.rack is given by --set as well", param_hint="--racks")
    named = [rack.strip() for rack in racks.split(",")]
    if not all(named):
        raise click.BadParameter(f"{racks!r} has a rack without a name", param_hint="--racks")
    if len(named) > brokers:
        raise click.BadParameter(f"{len(named)} racks for {brokers} brokers", param_hint="--racks")
    return [named[number % len(named)] for number in range(brokers)]


@click.command("up")
@click.option("--brokers", default=3, show_default=True, type=click.IntRange(1), help="How many brokers.")
@click.option(
    "--controllers",
    default=0,
    show_default=True,
    type=click.IntRange(0),
    help="Processes for the quorum alone; 0 lets the first three brokers be the quorum too.",
)
@click.option(
    "--port",
    default=9092,
    show_default=True,
    type=click.IntRange(0, LAST_PORT),
    help="The first node's client port; the others follow it. 0 takes free ones.",
)
@click.option(
    "--data-dir",
    default="highwater-data",
    show_default=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="Where data, settings, logs and nodes.json are kept; they are there at the next start.",
)
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="A setting for every node. Repeatable.")
@click.option("--racks", metavar="A,B,C", help="The broker.rack of each broker in turn, for placement and near reads.")
@click.option(
    "--http-port",
    type=click.IntRange(1, LAST_PORT),
    help="The first node's port of /status and /metrics; the others follow it. Without it: free ones, in nodes.json.",
)
@click.option("--restart", is_flag=True, help="Start a node again that died.")
@console_option
@click.option("--allow-changes", is_flag=True, help=f"For the console. {HELP_CHANGES}")
@click.option("--allow-faults", is_flag=True, help=f"For the console. {HELP_FAULTS}")
@click.option(
    "--recordings",
    type=click.Path(path_type=Path, file_okay=False, exists=True, resolve_path=True),
    metavar="DIR",
    help=f"For the console. {HELP_RECORDINGS}",
)
def command(
    brokers: int,
    controllers: int,
    port: int,
    data_dir: Path,
    settings: tuple[str, ...],
    racks: str | None,
    http_port: int | None,
    restart: bool,
    console_port: int | str | None,
    allow_changes: bool,
    allow_faults: bool,
    recordings: Path | None,
) -> None:
    """Start a cluster on this machine, one process per node, and keep it up until Ctrl-C, SIGTERM or a closed terminal.

    When it can be used, a line begins with "ready" and holds bootstrap=HOST:PORT. DIR/nodes.json lists the processes.
    A line with the address of the web console follows; the console is a process of its own.
    On a terminal, commands to try follow.
    `highwater down` stops it; kill, pause, resume, cut, slow and heal do to its nodes what they say.
    """
    _check_ports("--port", port, brokers)
    if http_port is not None:
        _check_ports("--http-port", http_port, brokers + controllers)
    given = parse_settings(settings)
    with StopSignals() as signals:
        try:
            options = _of_console(allow_changes, allow_faults, recordings)
            console = ConsoleProcess(console_port, data_dir.absolute(), *options)
        except (PortTaken, OSError) as wrong:
            raise click.ClickException(str(wrong)) from wrong
        first = port or free_ports(brokers)
        cluster = _open(data_dir, brokers, first, given, controllers, http_port, spread(racks, brokers, given))
        _keep_up(cluster, console, signals, data_dir, restart)


def _check_ports(option: str, first: int, count: int) -> None:
    if first + count - 1 > LAST_PORT:
        raise click.BadParameter(f"{count} ports from {first} on go beyond {LAST_PORT}", param_hint=option)


def _open(
    data_dir: Path,
    brokers: int,
    port: int,
    given: dict[str, str],
    controllers: int,
    http_port: int | None,
    racks: list[str] | None,
) -> LocalCluster:
    """The cluster of the directory, not started yet. What is wrong with it is blamed on what the user gave."""
    environment = Environment(os.environ)
    environment.origins.note(given, "--set")
    for line in environment.misspelt:
        _say(line)
    try:
        return LocalCluster(data_dir, brokers, port, {**environment.settings, **given}, controllers, http_port, racks)
    except ConfigError as wrong:
        raise click.ClickException(environment.origins.blame(wrong)) from wrong
    except (ClusterFailed, ValueError) as wrong:
        raise click.ClickException(str(wrong)) from wrong
    except OSError as wrong:
        why = f"{wrong.filename or data_dir}: {wrong.strerror}"
        raise click.ClickException(f"--data-dir {data_dir} cannot be used: {why}") from wrong


def _keep_up(
    cluster: LocalCluster, console: ConsoleProcess, signals: StopSignals, data_dir: Path, restart: bool
) -> None:
    """Until a signal, or `highwater down`."""

    def shall_end(seconds: float) -> bool:
        if (news := console.news()) is not None:
            _say(news)
        return signals.arrived(seconds) or cluster.serve_orders()

    try:
        if cluster.start(shall_end, _say):
            _print(f"ready bootstrap={cluster.bootstrap} data={data_dir}")
            console.announce(cluster.bootstrap, cluster.lock_path, _print, _say)
            if sys.stdout.isatty():
                _print(next_steps(cluster.bootstrap, data_dir))
            for member, event in cluster.watch(shall_end, _say):
                _report(member, event, data_dir, restart)
                if event == "died" and restart:
                    cluster.restart(member)
        _say("stopping")
    except (ClusterFailed, PortTaken) as failed:
        raise click.ClickException(str(failed)) from failed
    finally:
        console.stop()
        cluster.stop()


def _report(member: NodeProcess, event: str, data_dir: Path, restart: bool) -> None:
    if event != "died":
        _say(f"node {member.id} {event}")
        return
    _say(f"node {member.id} {member.fate}{member.last_words(LAST_LINES)}")
    if not restart:
        place = "" if data_dir == DATA_DIR else f" --data-dir {quote(str(data_dir))}"
        again = f"`highwater start {member.id}{place}` starts it again"
        _say(f"node {member.id} stays down: {again}; `up --restart` does so by itself")


def _of_console(changes: bool, faults: bool, recordings: Path | None) -> list[str]:
    allowed = ["--allow-changes"] * changes + ["--allow-faults"] * faults
    return allowed if recordings is None else [*allowed, "--recordings", str(recordings)]


def _print(line: str) -> None:
    """A terminal that was closed is no reason to fail: its signal ends the cluster in order."""
    try:
        click.echo(line)
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())  # or Python would try again at its end
        os.close(nowhere)


def _say(line: str) -> None:
    """A terminal that was closed, or a log on a full disk, is no reason to end the cluster."""
    with contextlib.suppress(OSError):
        click.echo(line, err=True)
