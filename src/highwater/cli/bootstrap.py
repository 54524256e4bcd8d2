"""The cluster that a tool connects to: --bootstrap-server, else HIGHWATER_BOOTSTRAP, else the cluster of `highwater up`
in the default data directory."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from highwater.cli.tool import fail
from highwater.cluster.directory import NODES
from highwater.cluster.holder import has_open
from highwater.log.names import LOCK

VARIABLE = "HIGHWATER_BOOTSTRAP"
DATA_DIR = Path("highwater-data")
"""The default of `highwater up --data-dir`."""
HELP = f"The servers to connect to. Without it: {VARIABLE}, or else the cluster of `highwater up` in {DATA_DIR}."
NONE_FOUND = (
    f"No cluster to connect to: give --bootstrap-server HOST:PORT, or set {VARIABLE}. A cluster that `highwater up` "
    f"started in ./{DATA_DIR} is found by itself, but none runs there."
)

Decorated = Callable[..., Any]


def bootstrap_option(function: Decorated) -> Decorated:
    """--bootstrap-server, whose value is found by itself if it is not given. It is None if there is no cluster."""
    option = click.option("--bootstrap-server", metavar="SERVERS", envvar=VARIABLE, callback=_given_or_local, help=HELP)
    return option(function)


def require_cluster(servers: str | None) -> str:
    """The servers. Ends the tool if there are none."""
    if servers is None:
        fail(NONE_FOUND)
    return servers


def _given_or_local(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    return value if value is not None or context.resilient_parsing else local_cluster(DATA_DIR)


def local_cluster(data_dir: Path) -> str | None:
    """The live brokers of this data directory. A node is alive if its process holds the lock of its log directory: its
    pid alone may be another process by now."""
    try:
        nodes = json.loads((data_dir / NODES).read_text())["nodes"]
        brokers = [
            f"{node['host']}:{node['port']}"
            for node in nodes
            if "broker" in node["roles"] and has_open(node["pid"], Path(node["log_dir"]) / LOCK)
        ]
    except (OSError, ValueError, KeyError, TypeError):
        return None  # `up` never ran here, or the file is not one of its lists
    return ",".join(brokers) or None
