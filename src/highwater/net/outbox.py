"""The responses of one connection: in the order of the requests, written together once per turn of the loop. Files are
read as the socket takes the bytes."""

from __future__ import annotations

import logging
from asyncio import Transport
from collections import deque
from collections.abc import Callable, Generator, Sequence
from functools import partial
from struct import Struct
from typing import Final, Protocol

from highwater.net.budget import Budget
from highwater.net.context import Part
from highwater.net.stats import CloseReason, NetStats
from highwater.world import EXHAUSTED_SECONDS, Buffer, Disk, Exhausted, File, FileSlice, Job, Step, World

WINDOW: Final = 256 * 1024
"""The most bytes that are written per turn."""
CROWDED_WINDOW: Final = 64 * 1024
"""The same, while unread responses take all memory that they may."""
PAUSED_AT: Final = 64 * 1024
"""The fill level at which the transport pauses writing. Its buffer holds at most this and one window."""
_JOINED: Final = 64 * 1024
"""Below this size one buffer is cheaper to write than many."""
_PREFIX: Final = Struct(">i")
_SKIPPED: Final[list[Part]] = []
_CLOSING: Final[list[Part]] = []
_SENT: Final[list[Part]] = []

log = logging.getLogger(__name__)


class Owner(Protocol):
    """The part of a connection that its outbox uses."""

    def drained(self) -> None:
        """Responses were written, so there may be room for further requests."""
        ...

    def stop_dispatching(self, reason: CloseReason) -> None: ...

    def close(self, reason: CloseReason) -> None:
        """All responses are written."""
        ...

    def abort(self, reason: CloseReason) -> None: ...


class AlreadyAnswered(RuntimeError):
    """A handler answered one request twice."""


class Slot:
    """The place of one response (net.context.ResponseSlot)."""

    __slots__ = ("_outbox", "memory", "muting", "parts", "request_bytes", "size")

    def __init__(self, outbox: Outbox, request_bytes: int) -> None:
        self._outbox = outbox
        self.request_bytes = request_bytes
        self.parts: Sequence[Part] | None = None
        self.size = 0
        self.memory = 0
        self.muting = False

    def fill(self, parts: Sequence[Part]) -> None:
        if self.parts is not None:
            raise AlreadyAnswered
        size = memory = 0
        for part in parts:
            length = len(part)
            size += length
            if type(part) is not FileSlice:
                memory += length
        self.parts = parts
        self.size = size
        self.memory = memory
        self._outbox.answered(self)

    def skip(self) -> None:
        if self.parts is not None:
            raise AlreadyAnswered
        self.parts = _SKIPPED
        self._outbox.answered(self)

    def close_connection(self) -> None:
        self.fail(CloseReason.ASKED)

    def fail(self, reason: CloseReason) -> None:
        """Closes the connection when all earlier requests are answered."""
        if self.parts is not None:
            raise AlreadyAnswered
        self.parts = _CLOSING
        self._outbox.refused(self, reason)

    def mute(self) -> None:
        """Takes no further request from this connection until this one is answered."""
        if self.parts is None and not self.muting:
            self.muting = True
            self._outbox.mutes += 1

    def unmute(self) -> None:
        if self.muting and self.parts is None:
            self.muting = False
            self._outbox.unmuted()

    def linger(self, give_way: Callable[[], None]) -> None:
        if self.parts is None:
            self._outbox.lingering[self] = give_way


class Outbox:
    __slots__ = (
        "_budget",
        "_call_soon",
        "_job",
        "_owner",
        "_parts",
        "_reason",
        "_scheduled",
        "_sent",
        "_stats",
        "_transport",
        "_under_way",
        "_world",
        "lingering",
        "mutes",
        "owed",
        "paused",
        "slots",
        "unread_since",
        "unsent",
        "written",
    )

    def __init__(self, world: World, transport: Transport, budget: Budget, stats: NetStats, owner: Owner) -> None:
        self._world = world
        self._call_soon = world.clock.call_soon
        self._transport: Transport | None = transport
        self._budget = budget
        self._stats = stats
        self._owner = owner
        self.slots: deque[Slot] = deque()
        self.owed = 0
        """Bytes of requests that are not answered."""
        self.unsent = 0
        """Bytes of responses that wait in memory: for earlier responses, or for the peer to read."""
        self._under_way = 0
        """How many of them belong to the response that is being written."""
        self.written = 0
        """Bytes that the transport holds because the peer does not read."""
        self.unread_since: float | None = None
        """Since when the peer does not read."""
        self.mutes = 0
        self.lingering: dict[Slot, Callable[[], None]] = {}
        self._parts: deque[Part] = deque()
        self._sent = 0
        self._job: Job | None = None
        self.paused = False
        """The peer does not read."""
        self._scheduled = False
        self._reason = CloseReason.ASKED
        transport.set_write_buffer_limits(high=PAUSED_AT, low=PAUSED_AT // 4)

    @property
    def empty(self) -> bool:
        return not self.slots and not self._parts

    @property
    def _window(self) -> int:
        return CROWDED_WINDOW if self._budget.crowded else WINDOW

    def reserve(self, request_bytes: int) -> Slot:
        slot = Slot(self, request_bytes)
        self.slots.append(slot)
        self.owed += request_bytes
        self._budget.unanswered += request_bytes
        return slot

    def answered(self, slot: Slot) -> None:
        if self._transport is None:
            return
        budget, memory = self._budget, slot.memory
        budget.unanswered -= slot.request_bytes
        self.owed -= slot.request_bytes
        self.unsent += memory
        budget.answered(memory)
        if slot.muting:
            self.mutes -= 1
        if self.lingering and self.lingering.pop(slot, None) is None:
            self._hurry()
        if not self._scheduled and (self.slots[0] is slot or slot.muting):
            self._scheduled = True
            self._call_soon(self.flush)

    def _hurry(self) -> None:
        """Another response is ready, so the lingering ones are answered now."""
        while self.lingering:  # a request that gives way may begin to linger again
            lingering, self.lingering = self.lingering, {}
            for give_way in lingering.values():
                give_way()

    def refused(self, slot: Slot, reason: CloseReason) -> None:
        if self._transport is not None:
            self._reason = reason
            self._owner.stop_dispatching(reason)
            self.answered(slot)

    def unmuted(self) -> None:
        self.mutes -= 1
        if self._transport is not None:
            self._owner.drained()

    def cork(self) -> None:
        """Requests are being dispatched. Their responses are written together at `uncork`, in the same turn."""
        self._scheduled = True

    def uncork(self) -> None:
        self._scheduled = False
        if self.slots and self.slots[0].parts is not None:
            self.flush()

    def pause(self) -> None:
        assert self._transport is not None
        self.paused = True
        self.unread_since = self._world.clock.monotonic()
        self.written = self._transport.get_write_buffer_size()
        self._budget.unreading(self.written)

    def resume(self) -> None:
        self.paused = False
        self._read()
        self.flush()

    def _read(self) -> None:
        self.unread_since = None
        self._budget.written -= self.written
        self.written = 0

    def stop(self) -> None:
        """The connection is gone. Later responses are dropped."""
        self._transport = None
        if self._job is not None:
            self._job.cancel()
            self._job = None
        self._budget.unanswered -= sum(slot.request_bytes for slot in self.slots if slot.parts is None)
        self._release(self.unsent)
        self._read()
        self.slots.clear()
        self.lingering.clear()
        self._parts.clear()

    def _release(self, memory: int) -> None:
        self.unsent -= memory
        self._budget.unsent -= memory

    def flush(self) -> None:
        self._scheduled = False
        if self._transport is None or self.paused or self._job is not None:
            return
        out: list[Buffer] = []
        room = self._window
        closing = False
        while room > 0 and not closing:
            if self._parts:
                data = self._next_part(room)
                if data is None:
                    break
                out.append(data)
                room -= len(data)
                continue
            if self._under_way:
                self._release(self._under_way)
                self._under_way = 0
            if not self.slots or (parts := self.slots[0].parts) is None:
                break
            slot = self.slots.popleft()
            slot.parts = _SENT  # so that a reference to the request does not keep its response in memory
            if parts is _CLOSING:
                closing = True
            elif parts is not _SKIPPED:
                out.append(_PREFIX.pack(slot.size))
                if slot.memory == slot.size and slot.size <= room:
                    self._release(slot.memory)
                    out += parts  # type: ignore[arg-type]  # no file slice among them
                    room -= slot.size
                else:
                    self._under_way = slot.memory
                    self._parts.extend(parts)
        if self._transport is None:
            return
        if out:
            self._write(out)
        if closing:
            self._owner.close(self._reason)
            return
        if room <= 0 and not self.paused and not self._scheduled:
            self._scheduled = True
            self._call_soon(self.flush)
        self._owner.drained()

    def _write(self, out: list[Buffer]) -> None:
        assert self._transport is not None
        size = sum(map(len, out))
        self._stats.bytes_out += size
        if len(out) > 1 and size <= _JOINED:
            self._transport.write(b"".join(out))
        else:
            self._transport.writelines(out)

    def _next_part(self, room: int) -> Buffer | None:
        """The next piece of the response that is being written; None if it must be read in a job, or cannot be read."""
        part = self._parts[0]
        if not isinstance(part, FileSlice):
            return self._next_of(part, room)
        rest = part.size - self._sent
        if rest == 0:
            self._parts.popleft()
            return b""
        wanted = min(rest, room)
        position = part.pos + self._sent
        try:
            data = part.file.read_cached(position, wanted)
        except OSError as failed:
            self._unreadable(part, failed)
            return None
        if data is None:
            self._stats.file_reads_off_loop += 1
            wanted = min(rest, self._window)
            done = partial(self._was_read, wanted)
            self._job = self._world.run(_read, part.file, position, wanted, done=done, where="reading")
            return None
        return data if self._accept(part, data, wanted) else None

    def _next_of(self, part: Buffer, room: int) -> Buffer:
        """Cuts a large part to what the transport should hold at a time."""
        rest = memoryview(part)[self._sent :] if self._sent else part
        if len(rest) <= room:
            self._parts.popleft()
            self._sent = 0
            return rest
        self._sent += room
        return memoryview(rest)[:room]

    def _was_read(self, wanted: int, result: Buffer | Exception) -> None:
        self._job = None
        part = self._parts[0]
        assert isinstance(part, FileSlice)
        if isinstance(result, Exhausted):
            self._world.clock.call_later(EXHAUSTED_SECONDS, self.flush)
        elif isinstance(result, Exception):
            self._unreadable(part, result)
        elif self._accept(part, result, wanted):
            self._write([result])
            self.flush()

    def _accept(self, part: FileSlice, data: Buffer, wanted: int) -> bool:
        """Checks the bytes after they were read: they may have been cut off, replaced or damaged meanwhile."""
        if len(data) != wanted or not part.intact() or not (part.check is None or part.check.passes(data)):
            self._owner.abort(CloseReason.FILE)
            return False
        self._sent += wanted
        if self._sent == part.size:
            self._parts.popleft()
            self._sent = 0
        return True

    def _unreadable(self, part: FileSlice, failed: Exception) -> None:
        log.error("closing a connection: cannot read %s at %d: %s", part.file.path, part.pos + self._sent, failed)
        self._owner.abort(CloseReason.FILE)


def _read(disk: Disk, file: File, position: int, size: int) -> Generator[Step, None, Buffer]:
    """Uses the slice's own open file: it stays readable after the segment is deleted."""
    yield Step()
    return file.read(position, size)
