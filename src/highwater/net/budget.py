"""The memory that all connections together may use: for requests that arrive or are not answered yet, and for responses
that the peers have not read yet."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Final, Protocol

_ANSWERS: Final = 1 << 20
"""The bytes of responses that one connection may keep in memory before no more of its requests are read."""


class Receiver(Protocol):
    """A connection with a large frame under way."""

    def go_on(self) -> None:
        """There is room again: read on, and ask again."""
        ...


class FrameKind(IntEnum):
    """The kinds of frames that wait for memory, each in a queue of its own. None waits behind another kind."""

    SMALL = 0
    """They may take as much again as the limit, so that they never wait for large ones."""
    NODE = 1
    """Of the APIs that nodes use among each other. One of them is favoured even if unanswered requests take all memory:
    it may be the fetch of a follower, or a forwarded request, which these requests wait for. The memory for them is a
    quarter more, since clients may send fetches, too."""
    CLIENT = 2
    """Of all other APIs. None is favoured while unanswered requests take all memory: it would only be the next of
    them."""


class Budget:
    """Counters with limits, and a queue of the receivers that wait for room.

    Beyond the limit every connection has a tight bound, which lets one request through at a time. So a follower's fetch
    never waits behind the writes that fill the budget, and it is the fetch that completes them. Large frames stop
    growing, except for one favoured receiver: otherwise many half-received frames could wait for each other.

    Unread responses count, too. They may take half of the limit, or an eighth of it if requests take the rest. Beyond
    that a connection may have one unread response, and `on_crowded` is called: the connection with the most unread
    bytes is closed.
    """

    __slots__ = (
        "_ample",
        "_favoured",
        "_favoured_at",
        "_monotonic",
        "_queues",
        "_scarce",
        "_sure",
        "_tight",
        "_waiting",
        "crowded",
        "limit",
        "on_crowded",
        "receiving",
        "unanswered",
        "unsent",
        "written",
    )

    def __init__(self, limit: int, ample: int, tight: int, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self.limit = limit
        self._sure = limit // 8
        self._scarce = limit // 4
        self._ample = ample
        self._tight = tight
        self.unanswered = 0
        """Bytes of requests that handlers are working on."""
        self.receiving = 0
        """Memory of large frames that are not whole yet."""
        self.unsent = 0
        """Bytes of responses that wait in memory."""
        self.written = 0
        """Bytes of responses in the transports of connections whose peers do not read."""
        self.crowded = False
        self.on_crowded: Callable[[], None] = lambda: None
        self._queues: tuple[dict[Receiver, int], ...] = tuple({} for _ in FrameKind)
        self._waiting = 0
        self._favoured: Receiver | None = None
        self._favoured_at = 0.0

    @property
    def bound(self) -> int:
        """The bytes of unanswered requests that one connection may have before no more is read from it."""
        return self._ample if self.unanswered <= self.limit else self._tight

    @property
    def scarce(self) -> bool:
        """Whether arriving frames take so much memory that only the beginning of a new one is read until there is room
        for it."""
        return self.receiving > self._scarce

    @property
    def unread(self) -> int:
        return self.unsent + self.written

    @property
    def answers(self) -> int:
        """The bytes of responses that all connections may keep together. It depends on what requests take."""
        return max(self._sure, min(self.limit // 2, self.limit - self.receiving - self.unanswered))

    @property
    def answer_bound(self) -> int:
        """The bytes of responses that one connection may keep before no more is read from it."""
        unread = self.unsent + self.written
        return _ANSWERS if unread <= self._sure or unread <= self.answers else self._tight

    def answered(self, memory: int) -> None:
        """There are `memory` more bytes of responses."""
        self.unsent += memory
        if self.unsent > self._sure:
            self._crowd()

    def unreading(self, memory: int) -> None:
        """A peer does not read, and its transport holds `memory` bytes."""
        self.written += memory
        self._crowd()

    def _crowd(self) -> None:
        if not self.crowded and self.unread > self.answers:
            self.crowded = True
            self.on_crowded()

    @property
    def has_waiting(self) -> bool:
        return self._waiting > 0

    def admit(self, receiver: Receiver, more: int, kind: FrameKind = FrameKind.NODE) -> bool:
        """Whether the receiver's frame may take `more` memory, which then counts. If not, it waits for `go_on`."""
        beyond = more - self.limit if kind is FrameKind.SMALL else more
        fits = self._fits(beyond)
        if not fits and not self._may_favour(receiver, kind):
            self._queues[kind][receiver] = beyond
            self._waiting += 1
            return False
        if fits and self._favoured is receiver:
            self._favoured = None
        elif not fits and self._favoured is None:
            self._favoured, self._favoured_at = receiver, self._monotonic()
        self.receiving += more
        return True

    def _may_favour(self, receiver: Receiver | None, kind: FrameKind) -> bool:
        most = self.limit if kind is FrameKind.CLIENT else self.limit + self._scarce
        if kind is not FrameKind.SMALL and self.unanswered > most:
            return False
        return self._favoured is None or self._favoured is receiver

    def leave(self, receiver: Receiver) -> None:
        """The receiver's large frame is whole, or its connection is gone."""
        for queue in self._queues:
            if queue.pop(receiver, None) is not None:
                self._waiting -= 1
        if self._favoured is receiver:
            self._favoured = None
        self.wake()

    def let_another_go_on(self, since: float) -> None:
        """Ends the favour of a receiver that has had it since then: its peer may be slow on purpose."""
        if self._favoured is not None and self._favoured_at <= since:
            self._favoured = None
            self.wake()

    def wake(self) -> None:
        """Lets receivers go on for which there is room now, the longest waiting one first. If there is no favoured
        receiver, the first one becomes it."""
        for kind in FrameKind:
            queue = self._queues[kind]
            while queue:
                receiver, more = next(iter(queue.items()))
                if not self._fits(more) and not self._may_favour(None, kind):
                    break
                del queue[receiver]
                self._waiting -= 1
                receiver.go_on()

    def _fits(self, more: int) -> bool:
        return self.receiving + self.unanswered + self.unsent + self.written + more <= self.limit
