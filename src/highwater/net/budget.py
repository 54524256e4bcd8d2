"""How much memory all connections together may keep: for requests that arrive or are not yet answered, and for answers
that are not yet read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

_ANSWERS: Final = 1 << 20
"""What one connection may keep of answers in memory before it is asked for more."""


class Receiver(Protocol):
    """A connection with a large frame under way."""

    def go_on(self) -> None:
        """There is room again: read on and ask anew."""
        ...


class Budget:
    """Counters against limits, and a queue of the receivers that wait for room.

    Beyond the limit every connection falls under a tight bound of its own, which lets one request at a time through:
    a follower's fetch, which answers the writes that fill the budget, is never kept waiting behind them. Large frames
    stop growing but for one favoured receiver, since many half-received frames could otherwise wait for each other.

    Answers that are not read count too. They may take half of the limit, and an eighth of it while requests take the
    rest. Beyond that a connection has one that is not read, and `on_crowded` is told: the connection that has the most
    unread bytes is given up.
    """

    __slots__ = (
        "_ample",
        "_favoured",
        "_sure",
        "_tight",
        "crowded",
        "limit",
        "on_crowded",
        "receiving",
        "unanswered",
        "unsent",
        "waiting",
        "written",
    )

    def __init__(self, limit: int, ample: int, tight: int) -> None:
        self.limit = limit
        self._sure = limit // 8
        self._ample = ample
        self._tight = tight
        self.unanswered = 0
        """Bytes of requests handed to handlers."""
        self.receiving = 0
        """Memory of large frames that are not yet whole."""
        self.unsent = 0
        """Bytes of answers that wait in memory."""
        self.written = 0
        """And those that transports hold of connections whose peers do not read."""
        self.crowded = False
        self.on_crowded: Callable[[], None] = lambda: None
        self.waiting: dict[Receiver, int] = {}
        self._favoured: Receiver | None = None

    @property
    def bound(self) -> int:
        """What one connection may owe before it is read no further."""
        return self._ample if self.unanswered <= self.limit else self._tight

    @property
    def unread(self) -> int:
        return self.unsent + self.written

    @property
    def answers(self) -> int:
        """What all connections together may keep of answers, by what requests leave of the limit."""
        return max(self._sure, min(self.limit // 2, self.limit - self.receiving - self.unanswered))

    @property
    def answer_bound(self) -> int:
        """What one connection may keep of answers before it is read no further."""
        unread = self.unsent + self.written
        return _ANSWERS if unread <= self._sure or unread <= self.answers else self._tight

    def answered(self, memory: int) -> None:
        """There are so many more bytes of answers."""
        self.unsent += memory
        if self.unsent > self._sure:
            self._crowd()

    def unreading(self, memory: int) -> None:
        """A peer does not read, and its transport holds so much of what was written."""
        self.written += memory
        self._crowd()

    def _crowd(self) -> None:
        if not self.crowded and self.unread > self.answers:
            self.crowded = True
            self.on_crowded()

    def admit(self, receiver: Receiver, more: int) -> bool:
        """Whether its large frame may take `more` memory, which then counts; else it waits for `go_on`."""
        if self._fits(more) or self._favoured is None or self._favoured is receiver:
            if not self._fits(more):
                self._favoured = receiver
            self.receiving += more
            return True
        self.waiting[receiver] = more
        return False

    def leave(self, receiver: Receiver) -> None:
        """Its large frame is whole, or the connection is gone."""
        self.waiting.pop(receiver, None)
        if self._favoured is receiver:
            self._favoured = None
        self.wake()

    def wake(self) -> None:
        """Let on whoever now fits, the longest waiting first; he is favoured where nobody is."""
        while self.waiting:
            receiver, more = next(iter(self.waiting.items()))
            if self._favoured is not None and not self._fits(more):
                break
            del self.waiting[receiver]
            receiver.go_on()

    def _fits(self, more: int) -> bool:
        return self.receiving + self.unanswered + self.unsent + self.written + more <= self.limit
