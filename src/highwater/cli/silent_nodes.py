"""Why a node of `highwater up` does not answer, and the command that helps. From what this machine shows."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from shlex import quote
from typing import NamedTuple

from highwater.cli.bootstrap import DATA_DIR
from highwater.cli.control_socket import NAME
from highwater.cli.status_topics import Address, Answer
from highwater.cli.steering import has_ended, is_stopped
from highwater.cluster.directory import PID


class Remedy(NamedTuple):
    standing: str
    """dead or paused"""
    command: str
    effect: str

    def told(self, node: str) -> str:
        return f"Node {node} is {self.standing}: `{self.command}` {self.effect}."


def remedies(answers: Sequence[Answer]) -> dict[str, Remedy]:
    """By node: for those that do not answer, where an `up` runs that takes the command."""
    found = {address.node: _remedy(address) for address, status in answers if status is None}
    return {node: remedy for node, remedy in found.items() if remedy is not None}


def _remedy(address: Address) -> Remedy | None:
    if address.log_dir is None:
        return None
    home = Path(address.log_dir).parent
    directory = home.parent
    if not (directory / NAME).exists():
        return None
    where = "" if directory == DATA_DIR.absolute() else f" --data-dir {quote(_as_typed(directory))}"
    with contextlib.suppress(OSError, ValueError):
        pid = int((home / PID).read_text())
        if is_stopped(pid):
            return Remedy("paused", f"highwater resume {address.node}{where}", "lets it go on")
        if has_ended(pid):
            return Remedy("dead", f"highwater start {address.node}{where}", "starts it again")
    return None


def _as_typed(directory: Path) -> str:
    """Below the working directory: without that."""
    with contextlib.suppress(ValueError, OSError):
        return str(directory.relative_to(Path.cwd()))
    return str(directory)
