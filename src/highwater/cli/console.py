"""`highwater console`: the cluster in a browser."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from highwater.cli.bootstrap import DATA_DIR, bootstrap_option, local_cluster, require_cluster
from highwater.cli.console_process import HELP_CHANGES, HELP_FAULTS, HELP_RECORDINGS, TOKEN_VARIABLE
from highwater.cli.control_socket import Refused, order
from highwater.cli.properties import load_properties
from highwater.cli.stop_signals import let_through, stop_signals
from highwater.client.security import Security
from highwater.cluster.directory import NODES
from highwater.cluster.lock import when_released
from highwater.console.discovery import local_nodes

if TYPE_CHECKING:
    from highwater.console.changes import Order


@click.command("console")
@bootstrap_option
@click.option("--command-config", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
              help="Properties of a client, for a cluster with TLS or passwords.")  # fmt: skip
@click.option("--port", type=click.IntRange(0, 65535),
              help="The port; 0 takes a free one. Without it: 8080, or the next free one.")  # fmt: skip
@click.option("--listen", default="127.0.0.1", show_default=True, metavar="ADDRESS",
              help="The address to listen on; 0.0.0.0 for all, as in a container.")  # fmt: skip
@click.option("--allow-host", multiple=True, metavar="NAME",
              help="A host name under which a proxy serves the console. Repeatable.")  # fmt: skip
@click.option("--base-path", default="", metavar="PATH", help="The path under which a proxy serves the console.")
@click.option("--data-dir", type=click.Path(path_type=Path, file_okay=False),
              help=f"The directory of the `highwater up` to show. Without servers: {DATA_DIR}.")  # fmt: skip
@click.option("--recordings", type=click.Path(path_type=Path, file_okay=False, exists=True), metavar="DIR",
              help=HELP_RECORDINGS)  # fmt: skip
@click.option("--pipeline", "pipelines", multiple=True, default=["checkpoints"], show_default=True, metavar="SOURCE",
              help="Spark pipelines: an address of metrics, or a folder of checkpoints. Repeatable.")  # fmt: skip
@click.option("--allow-changes", is_flag=True, help=HELP_CHANGES)
@click.option("--allow-faults", is_flag=True, help=HELP_FAULTS)
@click.option("--socket", "descriptor", type=int, hidden=True, help="A socket that listens, from `highwater up`.")
@click.option("--while-locked", "cluster_lock", type=click.Path(path_type=Path), hidden=True,
              help="End when no process holds this lock.")  # fmt: skip
@click.pass_context
def command(
    context: click.Context,
    bootstrap_server: str | None,
    command_config: Path | None,
    port: int | None,
    listen: str,
    allow_host: tuple[str, ...],
    base_path: str,
    data_dir: Path | None,
    recordings: Path | None,
    pipelines: tuple[str, ...],
    allow_changes: bool,
    allow_faults: bool,
    descriptor: int | None,
    cluster_lock: Path | None,
) -> None:
    """Serve the web console of a cluster until Ctrl-C: its health, replication as lanes, records, groups.

    The address that is printed holds a token; whoever has it may use the console. The pages change nothing unless
    --allow-changes or --allow-faults is given. HIGHWATER_CONSOLE_TOKEN, if set, is the token.
    """
    try:
        from highwater.console.access import Access, checked_base_path, new_token
        from highwater.console.application import Console
        from highwater.console.changes import Changes
        from highwater.console.clients import Clients
        from highwater.console.cluster_reader import ClusterReader
        from highwater.console.listening import PortTaken, address, listening
        from highwater.console.recordings import Recordings
        from highwater.console.serving import serve
    except ModuleNotFoundError as missing:
        raise click.ClickException(f"the console needs the package {missing.name}: pip install highwater") from missing
    source = context.get_parameter_source("bootstrap_server")
    is_given = source is ParameterSource.COMMANDLINE or (source is ParameterSource.ENVIRONMENT and data_dir is None)
    servers = bootstrap_server if data_dir is None or is_given else _servers(data_dir)
    nodes_file = _nodes_file(data_dir, servers)
    if allow_faults and nodes_file is None:
        raise click.ClickException("--allow-faults needs the cluster of a `highwater up`: name it with --data-dir")
    try:
        base = checked_base_path(base_path)
        security = Security.of(load_properties(str(command_config)) if command_config is not None else {})
        on = _inherited(descriptor) if descriptor is not None else listening(listen, port)
    except (ValueError, PortTaken) as wrong:
        raise click.ClickException(str(wrong)) from wrong
    except OSError as wrong:
        raise click.ClickException(f"--listen {listen}: {wrong.strerror or wrong}") from wrong
    bound = on.getsockname()[1]
    access = Access(os.environ.get(TOKEN_VARIABLE) or new_token(), bound, base, frozenset(map(str.lower, allow_host)))
    clients = Clients(require_cluster(servers), security)
    orders = _orders(nodes_file) if allow_faults and nodes_file is not None else None
    changes = Changes(clients, allow_changes, orders, None if nodes_file is None else nodes_file.parent)
    reader = ClusterReader(clients, nodes_file, pipelines, follows=not is_given)
    application = Console(access, reader, changes, Recordings(recordings)).application()
    if signal.SIGHUP in stop_signals():
        signal.signal(signal.SIGHUP, lambda *_: os._exit(0))  # it keeps nothing that would have to be written
    if descriptor is not None:
        let_through()
    else:
        click.echo(f"console {address(listen, bound, base, access.token)}")
        sys.stdout.flush()
    serve(application, on, _ending(cluster_lock))


def _servers(data_dir: Path) -> str:
    """Of the `highwater up` that runs there, or ran: the page waits for the next one."""
    listed = local_nodes(data_dir / NODES)
    servers = local_cluster(data_dir) or ("" if listed is None else listed.servers)
    if not servers:
        raise click.ClickException(f"{data_dir} has no cluster of `highwater up`: there is no {NODES} in it")
    return servers


def _nodes_file(data_dir: Path | None, servers: str | None) -> Path | None:
    """nodes.json of the cluster that is shown, if `up` runs it here."""
    if data_dir is not None:
        return (data_dir / NODES).absolute() if (data_dir / NODES).exists() else None
    local = local_cluster(DATA_DIR)
    return (DATA_DIR / NODES).absolute() if local is not None and servers == local else None


def _orders(nodes_file: Path) -> Order:
    from highwater.console.changes import OrderRefused

    def give(fields: Mapping[str, Any]) -> str:
        try:
            return order(nodes_file.parent, **fields)
        except Refused as refused:
            raise OrderRefused(str(refused)) from refused

    return give


def _inherited(descriptor: int) -> socket.socket:
    return socket.socket(fileno=descriptor)


def _ending(cluster_lock: Path | None) -> Callable[[], bool]:
    """The cluster may have ended before this process could look."""
    is_over = threading.Event()
    if cluster_lock is not None and not (cluster_lock.exists() and when_released(cluster_lock, is_over.set)):
        is_over.set()
    return is_over.is_set
