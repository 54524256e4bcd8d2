"""What the nodes of a cluster answer to /status, all asked at once."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import click

from highwater.cli.status_topics import Address, Answer, Status

SECONDS = 3.0
"""How long a node may take to answer: a stopped one never does, and one on a busy machine may take a while."""


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


def addresses_of(data_dir: Path, http: Sequence[str]) -> list[Address]:
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
