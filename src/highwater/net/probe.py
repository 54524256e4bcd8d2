"""Finds out whether a process is dead. Two refused connections prove it.

A dying process may still accept a connection once, and the port of a stopped process accepts for ever. So a successful
connection proves nothing, and the probe tries again for a while.
"""

from __future__ import annotations

from collections.abc import Callable

from highwater.model import Endpoint
from highwater.net.client import ClientConnection, Gone
from highwater.net.deadlines import DeadlineQueue
from highwater.world import World

APART_SECONDS = 0.005
AGAIN_SECONDS = 0.02
TRIES = 25
PATIENCE_SECONDS = 1.0


class Probe:
    """Calls `verdict` once: with True if the address refused two connections in a row, at least 5 ms apart."""

    def __init__(self, world: World, at: Endpoint, deadlines: DeadlineQueue, verdict: Callable[[bool], None]) -> None:
        self._world = world
        self._at = at
        self._deadlines = deadlines
        self._verdict = verdict
        self._refused = 0
        self._tries = 0
        self._dial()

    def _dial(self) -> None:
        self._tries += 1
        connection = ClientConnection(self._world, self._at, "probe", self._deadlines, self._gone)
        connection.open(connection.close, PATIENCE_SECONDS, negotiate=False)

    def _gone(self, reason: Gone) -> None:
        if reason is Gone.REFUSED:
            self._refused += 1
            if self._refused == 2:
                self._verdict(True)
                return
            self._world.clock.call_later(APART_SECONDS, self._dial)
            return
        self._refused = 0
        if reason is Gone.TIMED_OUT or self._tries >= TRIES:
            self._verdict(False)
        else:
            self._world.clock.call_later(AGAIN_SECONDS, self._dial)
