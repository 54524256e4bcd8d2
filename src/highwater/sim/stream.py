"""One direction of a connection: bytes in order, in random pieces, under the conditions of its link."""

from __future__ import annotations

from asyncio import TimerHandle
from collections import deque
from collections.abc import Callable
from enum import Enum
from random import Random
from typing import Protocol

from highwater.sim.knobs import Knobs, Range
from highwater.sim.loop import SimLoop

SEGMENT = 64 * 1024
PACKET = 1460
TINY = 16


class StreamEnd(Enum):
    """What ends a stream: everything was sent, or the connection is broken."""

    FIN = "fin"
    RST = "rst"


class Link:
    """The one-way path between two machines."""

    __slots__ = ("_random", "cut", "delay", "stalled_until")

    def __init__(self, random: Random, delay: Range) -> None:
        self._random = random
        self.delay = delay
        self.cut = False
        self.stalled_until = 0.0

    def arrival(self, now: float) -> float:
        return max(now, self.stalled_until) + self._random.uniform(*self.delay)


class Receiver(Protocol):
    """The kernel's end of a connection, as its streams see it."""

    def is_powered(self) -> bool: ...

    def is_open(self) -> bool: ...

    def receive(self, piece: bytes | StreamEnd) -> None: ...

    def drained(self) -> None: ...

    def fail(self, error: OSError) -> None: ...


class Stream:
    """Bytes from `source` to `sink`. Only a cut or a dead machine holds them. The credit is what the receiver's window
    still allows. It comes back over the opposite link when bytes are read."""

    def __init__(
        self, loop: SimLoop, random: Random, knobs: Knobs, link: Link, back: Link, on_end: Callable[[], None]
    ) -> None:
        self._loop = loop
        self._random = random
        self._knobs = knobs
        self._on_end = on_end
        self.link = link
        self.back = back
        self.source: Receiver
        self.sink: Receiver
        self.unsent: deque[bytes] = deque()
        self.unsent_size = 0
        self._flight: deque[tuple[float, bytes | StreamEnd]] = deque()
        self._credit = knobs.window
        self._owed = 0
        self._timer: TimerHandle | None = None
        self._grant_timer: TimerHandle | None = None
        self._held_since: float | None = None
        self._ending = False

    # The sender's side

    def send(self, data: bytes) -> None:
        self.unsent.append(data)
        self.unsent_size += len(data)
        self._push()

    def finish(self) -> None:
        """Closes the stream after the bytes that are still unsent."""
        self._ending = True
        self._push()

    def void(self) -> None:
        """Sends a reset. A cut link loses it for ever: resets are not repeated."""
        self.forget_unsent()
        if not self.link.cut:
            self._depart(StreamEnd.RST)

    def forget_unsent(self) -> None:
        self.unsent.clear()
        self.unsent_size = 0

    def lose_power(self) -> None:
        """Bytes that had not left the machine are lost, and the stream is not closed."""
        self.forget_unsent()
        for _ in range(self._random.randint(0, len(self._flight))):
            self._flight.pop()

    def drop(self) -> None:
        self.forget_unsent()
        self._flight.clear()
        self._owed = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._on_end()

    def _push(self) -> None:
        while self.unsent and self._credit > 0:
            piece = self._cut_piece()
            self._credit -= len(piece)
            self.unsent_size -= len(piece)
            self._depart(piece)
        if not self.unsent and self._ending:
            self._ending = False
            self._depart(StreamEnd.FIN)

    def _cut_piece(self) -> bytes:
        """The next segment: a part of a write, or several writes."""
        chance = self._random.random()
        if chance < self._knobs.tiny_segments:
            limit = self._random.randint(1, TINY)
        elif chance < 0.5:
            limit = self._random.randint(1, min(PACKET, self.unsent_size))
        else:
            limit = SEGMENT
        limit = min(limit, self._credit)
        taken: list[bytes] = []
        while self.unsent and limit > 0:
            head = self.unsent.popleft()
            if len(head) > limit:
                self.unsent.appendleft(head[limit:])
                head = head[:limit]
            taken.append(head)
            limit -= len(head)
        return taken[0] if len(taken) == 1 else b"".join(taken)

    def _depart(self, piece: bytes | StreamEnd) -> None:
        # No segment overtakes the one before it, whatever its own delay is: only the head of the queue arrives.
        self._flight.append((self.link.arrival(self._loop.time()), piece))
        self._arm()

    # The way

    def stir(self) -> None:
        """The conditions of the link changed: tries again what was held."""
        if self._flight and self._timer is None:
            due = self.link.arrival(self._loop.time())
            self._flight[0] = (max(due, self._flight[0][0]), self._flight[0][1])
            self._arm()
        if self._owed:
            self._grant_soon()

    def _arm(self) -> None:
        if self._timer is None and self._flight:
            self._timer = self._loop.call_at(self._flight[0][0], self._arrive, context=self._loop.root.context())

    def _arrive(self) -> None:
        self._timer = None
        now = self._loop.time()
        if not self._flight:
            return
        if self._is_held():
            self._start_giving_up(now)
            return
        self._held_since = None
        if self.link.stalled_until > now:
            self._flight[0] = (self.link.arrival(now), self._flight[0][1])
        while self._flight and self._flight[0][0] <= now:
            piece = self._flight.popleft()[1]
            if self.sink.is_open():
                self.sink.receive(piece)
            elif isinstance(piece, bytes):
                self._bounce()
                return
            if isinstance(piece, StreamEnd):
                self._on_end()
                return
        self._arm()

    def _is_held(self) -> bool:
        return self.link.cut or not self.sink.is_powered() or (self.back.cut and not self.sink.is_open())

    def _bounce(self) -> None:
        """Bytes for a connection that the machine no longer knows: it answers with a reset."""
        self.drop()
        error = ConnectionResetError(104, "Connection reset by peer")
        at = self.back.arrival(self._loop.time())
        self._loop.call_at(at, self.source.fail, error, context=self._loop.root.context())

    def _start_giving_up(self, now: float) -> None:
        if self._held_since is None:
            self._held_since = now
            self._loop.call_later(self._knobs.retransmit_timeout, self._give_up, now, context=self._loop.root.context())

    def _give_up(self, held_since: float) -> None:
        if self._held_since == held_since and self._flight:
            self.source.fail(TimeoutError(110, "Connection timed out"))

    # The receiver's side

    def consumed(self, size: int) -> None:
        """The receiver read `size` bytes: the window grows as soon as the sender knows of it."""
        self._owed += size
        if not self.back.cut:
            if self.unsent:
                self._grant_soon()
            else:
                self._credit += self._owed
                self._owed = 0

    def _grant_soon(self) -> None:
        if self._grant_timer is None:
            at = self.back.arrival(self._loop.time())
            self._grant_timer = self._loop.call_at(at, self._grant, context=self._loop.root.context())

    def _grant(self) -> None:
        self._grant_timer = None
        if self.back.cut:
            return
        self._credit += self._owed
        self._owed = 0
        if self.unsent:
            self._push()
            self.source.drained()
