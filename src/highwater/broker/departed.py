"""Brokers fenced a moment ago, and how a client that had to do with them is told: leaders first, then the loss.

librdkafka lets go of a broker that Metadata does not list, and where the same answer moves a partition away from it,
the partition may be left without a leader, to be asked about again half a second later. Who loses a broker mostly asks
twice at once, for the broker and for the partition: the first answer then still lists it, the second does not. No
last answer lists it: who keeps a broker keeps its reconnect backoff, which grows with each connection to it, and would
come back to a restarted one seconds late.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from highwater.model import NodeId
from highwater.net.context import Connected
from highwater.world import Clock

RECENT_SECONDS = 0.1
"""Who asks later than this after a fencing is simply told how things are."""
SECOND_ANSWER_SECONDS = 0.005
"""What lies between both answers: a client moves its partitions in far less."""


class Departed:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._recent: dict[NodeId, float] = {}
        self._asked: dict[Connected, int] = {}
        """Questions that are not answered yet."""
        self._told: dict[Connected, float] = {}
        """When those who asked twice since the last fencing had their first answer."""

    def note(self, broker: NodeId) -> None:
        """It is fenced now, and neither was it before nor had it said that it would stop."""
        fenced_at = self._recent[broker] = self._clock.monotonic()
        self._told.clear()
        self._clock.call_later(RECENT_SECONDS, self._forget, broker, fenced_at)

    def asked(self, connection: Connected) -> None:
        """Each question is told once, later."""
        self._asked[connection] = self._asked.get(connection, 0) + 1

    def hurried(self, connection: Connected) -> None:
        """A question is answered at once, as things are: something else would wait for it."""
        self._answered(connection)

    def tell(self, connection: Connected, answer: Callable[[Collection[NodeId]], None]) -> None:
        """`answer` gets the fenced brokers that it is to list nonetheless."""
        more = self._answered(connection)
        if not self._recent:
            answer(())
            return
        now, told_at = self._clock.monotonic(), self._told.get(connection)
        if told_at is None and more:
            self._told[connection] = now
            answer(list(self._recent))
        elif told_at is not None and now < told_at + SECOND_ANSWER_SECONDS:
            self._clock.call_later(told_at + SECOND_ANSWER_SECONDS - now, answer, ())
        else:
            answer(())

    def _answered(self, connection: Connected) -> bool:
        """Whether a further question of this connection waits."""
        left = self._asked.pop(connection) - 1
        if left:
            self._asked[connection] = left
        return left > 0

    def _forget(self, broker: NodeId, fenced_at: float) -> None:
        if self._recent.get(broker) == fenced_at:
            del self._recent[broker]
        if not self._recent:
            self._told.clear()
