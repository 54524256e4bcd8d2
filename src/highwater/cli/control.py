"""`highwater down | kill | start | pause | resume | cut | slow | heal`: orders to the `highwater up` of a directory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from highwater.cli.control_socket import ANSWER_SECONDS, Refused, order

_F = TypeVar("_F", bound=Callable[..., Any])


def _in_directory(function: _F) -> _F:
    return click.option(
        "--data-dir",
        default="highwater-data",
        show_default=True,
        type=click.Path(path_type=Path, file_okay=False),
        help="The data directory of the `highwater up` whose nodes are meant.",
    )(function)


def _send_order(data_dir: Path, seconds: float | None = ANSWER_SECONDS, **fields: Any) -> None:
    try:
        click.echo(order(data_dir, seconds, **fields))
    except Refused as refused:
        raise click.ClickException(str(refused)) from refused


@click.command("down")
@_in_directory
def down(data_dir: Path) -> None:
    """Stop the cluster that `highwater up` runs, in order, and wait for its end.

    Paused nodes go on and cut links are healed first, so that every node can leave in order. The data stays.
    """
    _send_order(data_dir, None, verb="down")


@click.command("kill")
@click.argument("nodes", metavar="NODE...", nargs=-1, required=True, type=int)
@_in_directory
def kill(nodes: tuple[int, ...], data_dir: Path) -> None:
    """Kill nodes with SIGKILL, all at once.

    A killed node stays down unless `up` was given --restart; `highwater start` starts it again.
    """
    _send_order(data_dir, verb="kill", nodes=nodes)


@click.command("start")
@click.argument("nodes", metavar="NODE...", nargs=-1, required=True, type=int)
@_in_directory
def start(nodes: tuple[int, ...], data_dir: Path) -> None:
    """Start nodes again that were killed or that died. It does not wait until they are ready."""
    _send_order(data_dir, verb="start", nodes=nodes)


@click.command("pause")
@click.argument("nodes", metavar="NODE...", nargs=-1, required=True, type=int)
@_in_directory
def pause(nodes: tuple[int, ...], data_dir: Path) -> None:
    """Pause nodes with SIGSTOP: they do nothing, and their connections stay open."""
    _send_order(data_dir, verb="pause", nodes=nodes)


@click.command("resume")
@click.argument("nodes", metavar="NODE...", nargs=-1, required=True, type=int)
@_in_directory
def resume(nodes: tuple[int, ...], data_dir: Path) -> None:
    """Let paused nodes go on."""
    _send_order(data_dir, verb="resume", nodes=nodes)


@click.command("cut")
@click.argument("one", type=int)
@click.argument("other", type=int)
@click.option("--one-way", is_flag=True, help="Only bytes from the first node to the second are held.")
@_in_directory
def cut(one: int, other: int, one_way: bool, data_dir: Path) -> None:
    """Cut the link between two nodes: bytes are held until `highwater heal`, and clients are not affected."""
    _send_order(data_dir, verb="cut", nodes=(one, other), one_way=one_way)


@click.command("slow")
@click.argument("one", type=int)
@click.argument("other", type=int)
@click.option("--ms", required=True, type=click.FloatRange(0), help="The additional delay of bytes, each way.")
@_in_directory
def slow(one: int, other: int, ms: float, data_dir: Path) -> None:
    """Delay the bytes between two nodes, until `highwater heal`. Clients are not affected."""
    _send_order(data_dir, verb="slow", nodes=(one, other), ms=ms)


@click.command("heal")
@_in_directory
def heal(data_dir: Path) -> None:
    """Heal all links that were cut or slowed. Bytes that a cut held arrive now."""
    _send_order(data_dir, verb="heal")
