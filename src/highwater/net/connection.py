"""One connection of a client or of another node: requests in, dispatched as they arrive; answers in their order."""

from __future__ import annotations

import logging
from asyncio import BaseTransport, BufferedProtocol, Transport
from collections.abc import Callable
from struct import Struct
from typing import TYPE_CHECKING, Final, cast

from highwater.model import Endpoint
from highwater.net.api_versions import API_VERSIONS, unsupported_version
from highwater.net.context import ANONYMOUS, RequestContext
from highwater.net.header import HeaderReader, after_tags
from highwater.net.line import Line
from highwater.net.outbox import Outbox, Slot
from highwater.net.registry import ELEMENTS_AT_ONCE, MOST_BYTES, Registered, decode_at_length
from highwater.net.room import Place, Room
from highwater.net.stats import CloseReason
from highwater.net.turns import Errand, Share, Work, elsewhere
from highwater.wire.codec import Malformed, TooMany
from highwater.wire.framing import CHUNK, FrameFault, FrameReader

if TYPE_CHECKING:
    from highwater.net.server import Listening, Server

_ANSWERED_WHILE_HELD: Final = API_VERSIONS.key.to_bytes(2, "big")
_KEY_AND_VERSION: Final = Struct(">hh")
_TAKEN_PER_TURN: Final = 1 << 20
"""After so many bytes a connection lets the others have their turn; the loop alone would read on while more comes."""
_SECONDS_PER_BYTE: Final = 1e-7
"""What a request takes of the loop, before more is known of it than its size."""

log = logging.getLogger(__name__)


class Connection(BufferedProtocol):
    """Dispatches requests until it is blocked: by unanswered requests, answers that the peer does not read, a mute, a
    hold, or the budget for large frames.

    What is blocked is not read, so a peer that does not take its answers stops being heard. A broken protocol closes
    the connection once the requests before it are answered.
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
        """It has had its turn; what else it has sent waits for the next one."""
        self._starved = False
        self._receiving = 0
        self._watchers: list[Callable[[], None]] = []
        self._places: dict[Place, None] = {}
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
        return self._frames.space()

    def buffer_updated(self, nbytes: int) -> None:
        self.last_active = self._clock.monotonic()
        self._stats.bytes_in += nbytes
        self._frames.received(nbytes)
        self._taken += nbytes
        if self._taken >= _TAKEN_PER_TURN and not self._resting:
            self._resting = True
            self._clock.call_soon(self._rested)
        self.take()

    def eof_received(self) -> bool:
        """A half-closed peer still gets the answers it waits for."""
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
            place.leave()  # what waits in it is counted no longer
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
        """The peer waits for us, and takes what we send: not idle, however long it takes."""
        waits = self._parked is not None or self._starved or self._tired or not self._outbox.empty
        return waits and not self._outbox.paused and not self._ending

    @property
    def unread_since(self) -> float | None:
        return self._outbox.unread_since

    @property
    def unread(self) -> int:
        """Bytes of answers that it keeps in memory."""
        return self._outbox.unsent + self._outbox.written

    @property
    def stalls(self) -> bool:
        """It keeps memory for a large frame, and we are reading."""
        return self._receiving > 0 and not self._paused

    def go_on(self) -> None:
        self._account()
        self._steer()

    def finish(self, reason: CloseReason) -> None:
        """Take no more requests; close when all are answered."""
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
        if self._budget.waiting:
            self._budget.wake()
        if outbox.empty:
            self.last_active = self._clock.monotonic()
            if self._ending and self._parked is None and not self._tired:
                self.close(CloseReason.PEER)

    def close(self, reason: CloseReason) -> None:
        """What is written still goes out."""
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
        """Take the requests at hand: now, or when it is our turn."""
        turns = self._turns
        if turns.served is not None:
            self._pump()
        elif turns.must_wait and (self._frames.has_one or self._parked is not None):
            self._frames.settle()
            self._await_turn()
            self._steer()
        else:
            turns.begin(self._share)
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
        """Dispatch the frames at hand for as long as nothing blocks."""
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
                is_over = turns.monotonic() >= turns.until
        except FrameFault:
            self.finish(CloseReason.FRAME)
        frames.settle()
        if is_over and frames.has_one:
            self._await_turn()
        if self._receiving or self._parked is not None or frames.held > CHUNK:
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
            or outbox.owed >= self._budget.bound
            or outbox.unsent >= self._budget.answer_bound
            or outbox.mutes > 0
            or self._parked is not None
        )

    def _steer(self) -> None:
        """Read if and only if another request could be taken."""
        pause = self._starved or self._resting or self._blocked()
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
        """Tell the budget what a large frame takes: one that is arriving, or one that waits for a hold to end."""
        frames = self._frames
        large = frames.held if frames.held > CHUNK else 0
        more = frames.claim - large if large else 0
        if self._parked is not None and len(self._parked) > CHUNK:
            large += len(self._parked)
        self._budget.receiving += large - self._receiving
        self._receiving = large
        self._starved = False
        if not large:
            self._budget.leave(self)
        elif self._budget.admit(self, more):
            self._receiving += more
        else:
            self._starved = True

    def _look_ahead(self) -> None:
        """Take no more of a frame that would be refused for its size."""
        key, version = _KEY_AND_VERSION.unpack_from(self._frames.begun)
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
            self.last_active,
            slot,
            self._server.authorizer,
            flexible and key != API_VERSIONS.key,  # its response header is always version 0
            self,
        )
        try:
            work = entry.handle(ctx, entry.decode(frame[at:], version, ELEMENTS_AT_ONCE))
        except TooMany:
            body = frame[at:]
            work = self._at_length(entry, ctx, memoryview(bytearray(body)) if len(body) < CHUNK else body)
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

    def _at_length(self, entry: Registered, ctx: RequestContext, body: memoryview) -> Work:
        """Of many elements: decoded off the loop, and few of them at a time, for the memory that they take."""
        place: Place | None = None

        def wait(resume: Callable[[], None]) -> None:
            nonlocal place
            place = self.place(self._turns.large, 1, resume)
            place.enter()

        try:
            yield wait
            request = yield from elsewhere(self._server.world, decode_at_length, entry, body, ctx.version)
            if isinstance(request, Exception):
                raise request
            work = entry.handle(ctx, request)
            if work is not None:
                yield from work
        finally:
            if place is not None:
                place.leave()

    def place(self, room: Room, size: int, begin: Callable[[], None]) -> Place:
        place = Place(room, size, begin, lambda left: self._places.pop(left, None))
        self._places[place] = None
        return place

    def pass_on(self, size: int, begin: Callable[[], None]) -> Place:
        return self.place(self._turns.passed_on, size, begin)

    def open(self, size: int, begin: Callable[[], None]) -> Place:
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
        """As Kafka does: close without an answer, but tell a client of the future which ApiVersions we know."""
        if entry is None or key != API_VERSIONS.key:
            self.finish(CloseReason.UNKNOWN_API)
        else:
            header = correlation.to_bytes(4, "big", signed=True)
            self._outbox.reserve(0).fill([header, unsupported_version()])

    def _refuse_size(self, entry: Registered, version: int, size: int) -> None:
        """As a frame that is too large: an answer would have to name what only the decoded request tells."""
        log.warning(
            "closed the connection of %s: a %s v%d of %d bytes, and %d is the most that it may have",
            *(self.peer, entry.api.request.__name__, version, size, entry.most_bytes),
        )
        self.finish(CloseReason.FRAME)

    def _notify(self) -> None:
        watchers, self._watchers = self._watchers, []
        for fn in watchers:
            with self._server.world.failures.boundary("connection", "who waited for its end"):
                fn()
