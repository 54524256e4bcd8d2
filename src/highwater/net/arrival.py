"""The memory of what a connection has received and not dispatched, as the budget counts it: whole frames that wait, and
the frame that is arriving."""

from __future__ import annotations

from typing import Final

from highwater.net.budget import Budget, FrameKind, Receiver
from highwater.wire.framing import CHUNK, FrameReader

BEGIN: Final = 4096
"""The bytes of a new frame that are read while memory is scarce. Most requests are smaller, and the size of the others
is known then."""
PROGRESS: Final = 64 << 10
"""A frame that has not grown by this many bytes for a while is stalled. Single bytes must not keep its memory."""
_OF_NODES: Final = frozenset(key.to_bytes(2, "big") for key in (1, 23, 52, 53, 54, 56, 58, 59, 62, 63, 67, 70, 73))
"""The API keys, as they begin a frame, of what nodes ask each other: Fetch and OffsetForLeaderEpoch of followers,
Envelope of brokers that forward requests, and those of the quorum and of brokers to the controller."""


class Arrival:
    """Counts frames in the budget while they are arriving or wait. Most frames arrive whole and are dispatched at once:
    they are never counted here."""

    __slots__ = ("_arrived", "_budget", "_receiver", "memory", "progressed_at", "starved")

    def __init__(self, budget: Budget, receiver: Receiver) -> None:
        self._budget = budget
        self._receiver = receiver
        self.memory = 0
        """The memory that the budget counts."""
        self.starved = False
        """Whether the frame waits for more memory."""
        self.progressed_at = 0.0
        self._arrived = 0

    def is_counted(self, frames: FrameReader) -> bool:
        """Whether so much is received and not dispatched that `count` must be called."""
        return frames.held > BEGIN or self.memory > 0 or (frames.announced > CHUNK and self._budget.scarce)

    def count(self, frames: FrameReader, parked: int, now: float) -> None:
        """Updates the budget. `parked` is the size of a frame that waits for the end of a hold."""
        held, announced = frames.held, frames.announced
        begun = frames.begun
        is_small = held <= CHUNK and announced <= CHUNK
        memory = held if not is_small or held > BEGIN else 0
        more = max(0, 4 + announced - held if is_small else frames.claim - held) if memory else 0
        memory += parked
        self._note_progress(len(begun) if memory else 0, now)
        self._budget.receiving += memory - self.memory
        self.memory = memory
        self.starved = False
        if not memory:
            self._budget.leave(self._receiver)
        elif (is_small and not more) or self._budget.admit(self._receiver, more, _kind(is_small, begun)):
            self.memory += more
        else:
            self.starved = True

    def _note_progress(self, arrived: int, now: float) -> None:
        if not self.memory or not self._arrived <= arrived < self._arrived + PROGRESS or self.starved:
            self._arrived, self.progressed_at = arrived, now


def _kind(is_small: bool, begun: memoryview) -> FrameKind:
    if is_small:
        return FrameKind.SMALL
    return FrameKind.NODE if bytes(begun[:2]) in _OF_NODES else FrameKind.CLIENT
