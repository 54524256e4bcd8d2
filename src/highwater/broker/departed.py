"""Brokers that were fenced a moment ago, and how their clients learn it: first the new leaders, then the loss.

librdkafka drops a broker that is not in the Metadata response. If the same response moves a partition away from that
broker, librdkafka may leave the partition without a leader and ask again half a second later. A client that loses a
broker usually sends two Metadata requests at once: one for the broker and one for the partition. So the first response
still lists the broker, and the second one does not. The last response never lists it: a client that keeps a broker also
keeps its reconnect backoff, which grows with each attempt. It would come back to a restarted broker seconds late.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from highwater.model import NodeId
from highwater.net.context import Connected
from highwater.world import Clock

RECENT_SECONDS = 0.1
"""A request that comes later than this after a fencing gets the plain metadata."""
SECOND_ANSWER_SECONDS = 0.005
"""The time between both responses: a client moves its partitions in far less."""


class Departed:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._recent: dict[NodeId, float] = {}
        self._asked: dict[Connected, int] = {}
        """The number of Metadata requests that are not answered yet."""
        self._first_answers: dict[Connected, float] = {}
        """When a client that asked twice since the last fencing got its first response."""

    def note(self, broker: NodeId) -> None:
        """The broker has just been fenced: it was active before and had not asked to shut down."""
        fenced_at = self._recent[broker] = self._clock.monotonic()
        self._first_answers.clear()
        self._clock.call_later(RECENT_SECONDS, self._forget, broker, fenced_at)

    def asked(self, connection: Connected) -> None:
        """A Metadata request came. `answer` or `hurried` follows once for it."""
        self._asked[connection] = self._asked.get(connection, 0) + 1

    def hurried(self, connection: Connected) -> None:
        """A request is answered at once with the plain metadata, because another response would wait for it."""
        self._answered(connection)

    def answer(self, connection: Connected, respond: Callable[[Collection[NodeId]], None]) -> None:
        """Calls `respond` with the fenced brokers that the response must list nevertheless."""
        more = self._answered(connection)
        if not self._recent:
            respond(())
            return
        now, first_at = self._clock.monotonic(), self._first_answers.get(connection)
        if first_at is None and more:
            self._first_answers[connection] = now
            respond(list(self._recent))
        elif first_at is not None and now < first_at + SECOND_ANSWER_SECONDS:
            self._clock.call_later(first_at + SECOND_ANSWER_SECONDS - now, respond, ())
        else:
            respond(())

    def _answered(self, connection: Connected) -> bool:
        """Whether a further request of this connection waits."""
        left = self._asked.pop(connection) - 1
        if left:
            self._asked[connection] = left
        return left > 0

    def _forget(self, broker: NodeId, fenced_at: float) -> None:
        if self._recent.get(broker) == fenced_at:
            del self._recent[broker]
        if not self._recent:
            self._first_answers.clear()
