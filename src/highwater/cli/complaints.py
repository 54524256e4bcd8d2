"""Reports what a tool waits for if the wait lasts, with the cause if one is known. Silence would look as if all were
well."""

from __future__ import annotations

import time

import click

from highwater.cli.diagnosis import troubles
from highwater.client.client import Client
from highwater.errors import Code, KafkaError

FIRST_SECONDS = 2.0
PAUSE_SECONDS = 10.0
NO_CONTROLLER = (
    "no controller takes it: the voters have no leader, or the leader cannot write; `highwater status` and the nodes' "
    "logs say which"
)
"""Errors of a controller that cannot write: it only says that it is not the controller."""


class Complaints:
    """The complaints of one client. Apache's tools log every retry."""

    def __init__(self, client: Client, what: str = "Still waiting") -> None:
        self.what = what
        self._servers = [str(endpoint) for endpoint in client.bootstrap]
        self._security = client.security
        self._next = 0.0
        client.on_delay = self.hear

    def hear(self, failure: Exception, seconds: float) -> None:
        if seconds < FIRST_SECONDS or time.monotonic() < self._next:
            return
        causes = list(troubles(self._servers, self._security))
        is_vague = isinstance(failure, KafkaError) and failure.code is Code.NOT_CONTROLLER
        reason = NO_CONTROLLER if is_vague else str(failure)
        click.echo(f"{self.what}: {'; '.join(causes if is_vague and causes else [reason, *causes])}", err=True)
        self._next = time.monotonic() + PAUSE_SECONDS
