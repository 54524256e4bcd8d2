"""One connection of a client or of another node: dispatches requests as they arrive, and sends responses in order."""

from __future__ import annotations

import logging
from asyncio import BaseTransport, BufferedProtocol, Transport
from collections.abc import Callable
from functools import partial
from struct import Struct
from typing import TYPE_CHECKING, Final, cast

from highwater.model import Endpoint
from highwater.net.api_versions import API_VERSIONS, unsupported_version
from highwater.net.arrival import BEGIN, Arrival
from highwater.net.context import ANONYMOUS, RequestContext
from highwater.net.header import HeaderReader, after_tags
from highwater.net.line import Line
from highwater.net.outbox import Outbox, Slot
from highwater.net.registry import ELEMENTS_AT_ONCE, MOST_BYTES, Registered, at_length
from highwater.net.room import Room, RoomPlace
from highwater.net.stats import CloseReason
from highwater.net.turns import Errand, Share, Work
from highwater.wire.codec import Malformed, TooMany
from highwater.wire.framing import CHUNK, FrameFault, FrameReader

if TYPE_CHECKING:
    from highwater.net.server import Listening, Server

_ANSWERED_WHILE_HELD: Final = API_VERSIONS.key.to_bytes(2, "big")
_KEY_AND_VERSION: Final = Struct(">hh")
_TAKEN_PER_TURN: Final = 1 << 20
"""After this many bytes a connection pauses for others. The event loop itself would read on while more comes."""
_SECONDS_PER_BYTE: Final = 1e-7
"""The estimated time to handle one byte of a request, if only its size is known."""

log = logging.getLogger(__name__)


class Connection(BufferedProtocol):
    """Dispatches requests until it is blocked: by unanswered requests, by responses that the peer does not read, by a
    mute, by a hold, or by the budget for large frames.

    A blocked connection is not read, so a peer that does not read its responses can send no more requests. If the peer
    breaks the protocol, the connection is closed after the requests before are answered.
    """

    def __init__(self, server: Server, listening: Listening) -> None:
        self._server = server
        self._turns = server.turns
        self._share = Share()
        self._listening = listening
        self._clock = server.world.clock
        self._stats = server.stats
        self._budget = server.budget
        self._max_slots = server.limits.slots
        self.find = listening.registry.find
        self._frames = FrameReader(server.chunks, server.limits.max_frame)
        self._headers = HeaderReader()
        self.principal = ANONYMOUS
        self.peer = Endpoint("", 0)
        self.since = self.last_active = 0.0
        self._arrived = 0.0
        """When bytes were last read. While whole frames wait, no more is read: it holds for each of them."""
        self._transport: Transport | None = None
        self._outbox: Outbox
        self._reason: CloseReason | None = None
        self._deaf = False
        self._ending = False
        self._paused = False
        self._taken = 0
        self._resting = False
        self._parked: memoryview | None = None
        self._tired = False
        """The connection has had its turn. Further requests wait for the next one."""
        self._arrival = Arrival(self._budget, self)
        self._watchers: list[Callable[[], None]] = []
        self._places: dict[RoomPlace, None] = {}
        self.line = Line(self._clock)

    # --- the transport's side

    def connection_made(self, transport: BaseTransport) -> None:
        self._transport = cast(Transport, transport)
        self.peer = Endpoint(*(transport.get_extra_info("peername") or ("", 0))[:2])
        self.since = self.last_active = self._clock.monotonic()
        self._outbox = Outbox(self._server.world, self._transport, self._budget, self._stats, self)
        if not self._server.admit(self, self._listening):
            self.abort(CloseReason.LIMIT)

    def get_buffer(self, sizehint: int) -> memoryview:
        space = self._frames.space()
        return space[:BEGIN] if self._budget.scarce and not self._arrival.memory else space

    def buffer_updated(self, nbytes: int) -> None:
        self._arrived = self.last_active = self._clock.monotonic()
        self._stats.bytes_in += nbytes
        self._frames.received(nbytes)
        self._taken += nbytes
        if self._taken >= _TAKEN_PER_TURN and not self._resting:
            self._resting = True
            self._clock.call_soon(self._rested)
        self.take()

    def eof_received(self) -> bool:
        """A half-closed peer still gets the responses that it waits for."""
        self._notify()
        self._ending = True
        self.line.end()
        return (not self._outbox.empty or self._tired) and self._listening.tls is None

    def pause_writing(self) -> None:
        self._outbox.pause()

    def resume_writing(self) -> None:
        self.last_active = self._clock.monotonic()
        self._outbox.resume()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._deaf = True
        self._parked = None
        self._stop_answering()
        self._frames.clear()
        self._account()
        for place in [each for each in self._places if not each.is_had]:
            place.leave()  # the waiting request no longer counts
        self._server.forget(self, self._listening, self._reason or CloseReason.PEER)
        self._notify()

    # --- the server's side

    def on_close(self, fn: Callable[[], None]) -> None:
        if self._transport is None:
            self._clock.call_soon(fn)
        else:
            self._watchers.append(fn)

    @property
    def ending(self) -> bool:
        return self._ending or self._transport is None

    @property
    def owes(self) -> bool:
        """Whether the peer waits for a response and reads: then the connection is not idle, however long it takes."""
        waits = self._parked is not None or self._arrival.starved or self._tired or not self._outbox.empty
        return waits and not self._outbox.paused and not self._ending

    @property
    def unread_since(self) -> float | None:
        return self._outbox.unread_since

    @property
    def unread(self) -> int:
        """The bytes of responses that it keeps in memory."""
        return self._outbox.unsent + self._outbox.written

    def stalls(self, since: float) -> bool:
        """Whether it keeps memory for a frame that has not grown since then, though it is being read."""
        return self._arrival.memory > 0 and not self._paused and self._arrival.progressed_at <= since

    @property
    def starved(self) -> int:
        """The memory that it keeps for a frame while it waits for more memory; 0 if it does not wait."""
        return self._arrival.memory if self._arrival.starved else 0

    def go_on(self) -> None:
        self._account()
        self._steer()

    def finish(self, reason: CloseReason) -> None:
        """Takes no more requests, and closes when all are answered."""
        self.stop_dispatching(reason)
        self._ending = True
        if self._outbox.empty:
            self.close(reason)

    def stop_dispatching(self, reason: CloseReason) -> None:
        self._deaf = True
        self._parked = None
        self._reason = self._reason or reason
        self._frames.clear()
        self._account()
        self._steer()

    def drained(self) -> None:
        outbox = self._outbox
        if self._paused and not outbox.mutes and 2 * len(outbox.slots) <= self._max_slots:
            self.take()
        if self._budget.has_waiting:
            self._budget.wake()
        if outbox.empty:
            self.last_active = self._clock.monotonic()
            if self._ending and self._parked is None and not self._tired:
                self.close(CloseReason.PEER)

    def close(self, reason: CloseReason) -> None:
        """Closes the connection. Written bytes are still sent."""
        self._reason = self._reason or reason
        self._deaf = True
        self._stop_answering()
        if self._transport is not None:
            self._transport.close()

    def abort(self, reason: CloseReason) -> None:
        self._reason = self._reason or reason
        self._deaf = True
        self._stop_answering()
        if self._transport is not None:
            self._transport.abort()

    def _stop_answering(self) -> None:
        self._outbox.stop()
        self.line.hang_up()

    # --- requests

    def take(self) -> None:
        """Takes the received requests now, or in this connection's next turn."""
        turns = self._turns
        if turns.served is not None:
            self._pump()
        elif turns.must_wait and (self._frames.has_one or self._parked is not None):
            self._frames.settle()
            self._await_turn()
            if self._arrival.is_counted(self._frames):
                self._account()
            self._steer()
        else:
            turns.begin(self._share, turns.monotonic())
            try:
                self._pump_corked()
            finally:
                turns.end()

    def _await_turn(self) -> None:
        if not self._tired:
            self._tired = True
            cost = min(self._frames.held, CHUNK) * _SECONDS_PER_BYTE
            self._turns.add(self._share, self._go_on_pumping, cost)

    def _go_on_pumping(self) -> None:
        self._tired = False
        if self._transport is None:
            return
        self._pump_corked()
        if self._ending and self._outbox.empty and not self._tired and self._parked is None:
            self.close(CloseReason.PEER)

    def _pump_corked(self) -> None:
        self._outbox.cork()
        self._pump()
        self._outbox.uncork()

    def _pump(self) -> None:
        """Dispatches the received frames until the connection is blocked."""
        frames = self._frames
        listening = self._listening
        turns = self._turns
        is_over = False
        try:
            if self._parked is not None and not listening.held:
                frame, self._parked = self._parked, None
                self._dispatch(frame)
            while not is_over and not self._blocked() and (cut := frames.next()) is not None:
                if listening.held and cut[:2] != _ANSWERED_WHILE_HELD:
                    self._parked = memoryview(bytearray(cut)) if len(cut) < CHUNK else cut
                    listening.waiting[self] = None
                    break
                self._dispatch(cut)
                turns.has_worked = True
                is_over = turns.monotonic() >= turns.until
        except FrameFault:
            self.finish(CloseReason.FRAME)
        frames.settle()
        if is_over and frames.has_one:
            self._await_turn()
        if self._parked is not None or self._arrival.is_counted(frames):
            if frames.announced > MOST_BYTES:
                self._look_ahead()
            self._account()
        self._steer()

    def _blocked(self) -> bool:
        outbox = self._outbox
        return (
            self._deaf
            or self._tired
            or len(outbox.slots) >= self._max_slots
            or outbox.paused
            # Both are mostly 0: then the bounds need not be computed.
            or (outbox.owed > 0 and outbox.owed >= self._budget.bound)
            or (outbox.unsent > 0 and outbox.unsent >= self._budget.answer_bound)
            or outbox.mutes > 0
            or self._parked is not None
        )

    def _steer(self) -> None:
        """Reads if and only if another request could be taken."""
        pause = self._arrival.starved or self._resting or self._blocked()
        if pause is not self._paused and self._transport is not None and not self._transport.is_closing():
            self._paused = pause
            if pause:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    def _rested(self) -> None:
        self._taken = 0
        self._resting = False
        self._steer()

    def _account(self) -> None:
        parked = 0 if self._parked is None or len(self._parked) <= BEGIN else len(self._parked)
        self._arrival.count(self._frames, parked, self._clock.monotonic())

    def _look_ahead(self) -> None:
        """Refuses a frame before it is whole if it is too large for its API."""
        begun = self._frames.begun
        if len(begun) < _KEY_AND_VERSION.size:
            return
        key, version = _KEY_AND_VERSION.unpack_from(begun)
        entry = self.find(key)
        if entry is not None and self._frames.announced > entry.most_bytes:
            self._refuse_size(entry, version, self._frames.announced)

    def _dispatch(self, frame: memoryview) -> None:
        try:
            key, version, correlation, at = self._headers.read(frame)
            entry = self.find(key)
            if entry is None or not entry.lowest <= version <= entry.highest:
                self._refuse(key, correlation, entry)
                return
            if len(frame) > entry.most_bytes:
                self._refuse_size(entry, version, len(frame))
                return
            flexible = version >= entry.flexible
            if flexible:
                at = after_tags(frame, at)
        except Malformed:
            self.finish(CloseReason.HEADER)
            return
        slot = self._outbox.reserve(len(frame))
        requests = self._stats.requests
        requests[key] = requests.get(key, 0) + 1
        ctx = RequestContext(
            key,
            version,
            correlation,
            self._headers.client_id,
            self._listening.name,
            self.principal,
            self.peer,
            self._arrived,
            slot,
            self._server.authorizer,
            flexible and key != API_VERSIONS.key,  # its response header is always version 0
            self,
        )
        try:
            work = entry.handle(ctx, entry.decode(frame[at:], version, ELEMENTS_AT_ONCE))
        except TooMany:
            body = frame[at:]
            kept = memoryview(bytearray(body)) if len(body) < CHUNK else body
            work = at_length(self._server.world, entry, ctx, kept, partial(self.place, self._turns.large, 1))
        except Exception as failed:  # noqa: BLE001 the boundary between one request and the node
            self.failed(ctx, failed)
            return
        if work is not None:
            self.carry_out(ctx, work)

    # --- requests that take long

    @property
    def until(self) -> float:
        return self._turns.until

    def carry_out(self, ctx: RequestContext, work: Work) -> None:
        slot = cast(Slot, ctx.slot)
        errand = Errand(
            self._turns,
            self._share,
            work,
            lambda: self._transport is not None,
            slot.unmute,
            lambda failed: self.failed(ctx, failed),
        )
        if not errand.begin():
            slot.mute()

    def place(self, room: Room, size: int, begin: Callable[[], None]) -> RoomPlace:
        place = RoomPlace(room, size, begin, lambda left: self._places.pop(left, None))
        self._places[place] = None
        return place

    def pass_on(self, size: int, begin: Callable[[], None]) -> RoomPlace:
        return self.place(self._turns.passed_on, size, begin)

    def open(self, size: int, begin: Callable[[], None]) -> RoomPlace:
        return self.place(self._turns.opened, size, begin)

    def failed(self, ctx: RequestContext, failed: Exception) -> None:
        entry, slot = self.find(ctx.api_key), cast(Slot, ctx.slot)
        assert entry is not None
        if isinstance(failed, Malformed):
            log.debug("%s sent a malformed %s v%d: %s", self.peer, entry.api.request.__name__, ctx.version, failed)
        else:
            self._server.world.failures.note("connection", f"{entry.api.request.__name__} v{ctx.version}", failed)
        if slot.parts is None:
            slot.fail(CloseReason.BODY if isinstance(failed, Malformed) else CloseReason.HANDLER)

    def _refuse(self, key: int, correlation: int, entry: Registered | None) -> None:
        """As in Kafka: closes without a response. But a newer client gets the supported versions of ApiVersions."""
        if entry is None or key != API_VERSIONS.key:
            self.finish(CloseReason.UNKNOWN_API)
        else:
            header = correlation.to_bytes(4, "big", signed=True)
            self._outbox.reserve(0).fill([header, unsupported_version()])

    def _refuse_size(self, entry: Registered, version: int, size: int) -> None:
        """Closes the connection, as for a too large frame: a response would need fields of the decoded request."""
        name = f"{entry.api.request.__name__} v{version}"
        if self._server.world.failures.is_news(f"a {name} is too large"):
            line = "closed the connection of %s: a %s of %d bytes, and %d is the most that it may have"
            log.warning(line, self.peer, name, size, entry.most_bytes)
        self.finish(CloseReason.FRAME)

    def _notify(self) -> None:
        watchers, self._watchers = self._watchers, []
        for fn in watchers:
            with self._server.world.failures.boundary("connection", "a callback that waited for its end"):
                fn()
