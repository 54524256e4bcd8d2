"""A broker's connection to the active controller. It follows the controller when it moves, and repeats lost
requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from highwater.config import (
    CONTROLLER_SOCKET_TIMEOUT_MS,
    SOCKET_CONNECTION_SETUP_TIMEOUT_MAX_MS,
    SOCKET_CONNECTION_SETUP_TIMEOUT_MS,
    NodeConfig,
)
from highwater.errors import Code
from highwater.model import Endpoint
from highwater.net.client import CallFailed, ClientConnection, Gone
from highwater.net.deadlines import Deadline, DeadlineQueue
from highwater.wire.codec import Message
from highwater.world import World

RETRY_SECONDS = 0.05
M = TypeVar("M", bound=Message)


class _Call:
    __slots__ = ("_done", "deadline", "expires", "request", "response", "tried_until")

    def __init__(
        self,
        request: Message,
        response: type[Message],
        done: Callable[[Any], None],
        expires: float,
        tried_until: float,
    ) -> None:
        self.request = request
        self.response = response
        self._done = done
        self.expires = expires
        self.tried_until = tried_until
        self.deadline: Deadline | None = None

    def done(self, answer: Any) -> None:
        """Also cancels the deadline: otherwise the request, which may be large, would be kept until then."""
        if self.deadline is not None:
            self.deadline.cancel()
        self._done(answer)


class ControllerChannel:
    """Requests are sent in order over one connection. Each `done` is called once: with a response or with None.

    If the connection breaks, a request is sent again while its time lasts: all requests of brokers to the controller
    may be repeated. The response NOT_CONTROLLER counts as no response.
    """

    def __init__(
        self,
        world: World,
        config: NodeConfig,
        client_id: str,
        deadlines: DeadlineQueue,
        controller: Callable[[], Endpoint | None],
    ) -> None:
        self._world = world
        self._answer_seconds = config.get(CONTROLLER_SOCKET_TIMEOUT_MS) / 1000
        self._dial_seconds = config.get(SOCKET_CONNECTION_SETUP_TIMEOUT_MS) / 1000
        self._longest_dial = config.get(SOCKET_CONNECTION_SETUP_TIMEOUT_MAX_MS) / 1000
        self._failed_dials = 0
        self._client_id = client_id
        self._deadlines = deadlines
        self._controller = controller
        self._connection: ClientConnection | None = None
        self._open = False
        self._waiting: list[_Call] = []
        self._closed = False
        self._retrying = False
        self.on_unreached: Callable[[], None] = lambda: None
        """Called each time the controller could not be reached."""

    def ask(
        self,
        request: Message,
        response: type[M],
        done: Callable[[M | None], None],
        seconds: float,
        patience: float | None = None,
    ) -> None:
        """After `seconds` the request has failed. After `patience`, if given, it is sent to no other controller; it
        only waits for one that has the request already."""
        if self._closed:
            self._world.clock.call_soon(done, None)
            return
        tried = seconds if patience is None else min(patience, seconds)
        now = self._world.clock.monotonic()
        call = _Call(request, response, done, now + seconds, now + tried)
        call.deadline = self._deadlines.add(tried, self._expire, call)
        self._waiting.append(call)
        self._pump()

    @property
    def reaches_controller(self) -> bool:
        """Whether a response may come soon: a controller is known, and the last connection attempt did not fail."""
        return self._controller() is not None and not self._failed_dials

    @property
    def why_silent(self) -> str:
        """Why no response may have come."""
        endpoint = self._controller()
        if endpoint is None:
            return "no controller is known: the voters have not elected one, or none of them is reached"
        if self._failed_dials:
            return f"the controller at {endpoint} cannot be reached"
        return f"the controller at {endpoint} does not answer"

    def controller_moved(self) -> None:
        """Another controller is known. Open requests are sent to it: the old one may be stopped or cut off."""
        self._failed_dials = 0
        if self._connection is not None and self._connection.peer != self._controller():
            self._connection.close()

    def close(self) -> None:
        self._closed = True
        if self._connection is not None:
            self._connection.close()
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            call.done(None)

    def _expire(self, call: _Call) -> None:
        if call in self._waiting:
            self._waiting.remove(call)
            call.done(None)

    def _pump(self) -> None:
        if self._closed or not self._waiting:
            return
        if self._connection is None:
            self._dial()
        elif self._open:
            waiting, self._waiting = self._waiting, []
            for call in waiting:
                self._send_safely(self._connection, call)

    def _dial(self) -> None:
        endpoint = self._controller()
        if endpoint is None:
            self._retry_later()
            return
        self._connection = ClientConnection(self._world, endpoint, self._client_id, self._deadlines, self._lost)
        self._connection.open(self._opened, self._dial_timeout())

    def _dial_timeout(self) -> float:
        """Twice as long after each failure, as Kafka's clients do (KIP-601)."""
        grown = self._dial_seconds * (1 << min(self._failed_dials, 30))
        return max(min(grown, self._longest_dial), self._dial_seconds)

    def _opened(self) -> None:
        self._open = True
        self._failed_dials = 0
        self._pump()

    def _lost(self, reason: Gone) -> None:
        self._connection = None
        unreached, self._open = not self._open, False
        if unreached:
            self._failed_dials += 1
            self.on_unreached()
        self._retry_later()

    def _retry_later(self) -> None:
        if not self._closed and not self._retrying and self._waiting:
            self._retrying = True
            self._world.clock.call_later(RETRY_SECONDS, self._retry)

    def _retry(self) -> None:
        self._retrying = False
        self._pump()

    def _send_safely(self, connection: ClientConnection, call: _Call) -> None:
        """If one request cannot be sent, the others still are."""
        name = type(call.request).__name__
        with self._world.failures.boundary("callback", name, lambda _: call.done(None)):
            self._send(connection, call)

    def _send(self, connection: ClientConnection, call: _Call) -> None:
        left = call.expires - self._world.clock.monotonic()
        version = connection.pick(call.request.API_KEY, call.request.VERSIONS)
        if left <= 0 or version is None:
            call.done(None)
            return

        def answered(answer: Any) -> None:
            if isinstance(answer, CallFailed) or getattr(answer, "error_code", 0) == Code.NOT_CONTROLLER:
                self._again(connection, call)
            else:
                call.done(answer)

        connection.send(call.request, version, call.response, answered, min(left, self._answer_seconds))

    def _again(self, connection: ClientConnection, call: _Call) -> None:
        if self._closed or self._world.clock.monotonic() >= call.tried_until:
            call.done(None)
            return
        self._waiting.append(call)
        if connection is self._connection:
            connection.close()
        else:
            self._retry_later()
