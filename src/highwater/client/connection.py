"""One blocking connection to one server: framing, version negotiation, correlation and deadlines."""

from __future__ import annotations

import math
import random
import socket
import ssl
import struct
import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from highwater.client.authentication import authenticate, wanted_mechanisms
from highwater.client.failures import (
    AuthenticationFailed,
    BadAnswer,
    ClientFailure,
    Disconnected,
    RequestTimeout,
    UnsupportedApi,
)
from highwater.client.security import Access
from highwater.client.tls import explained, not_tls
from highwater.errors import Code, KafkaError, code_of
from highwater.model import SOFTWARE_VERSION, Endpoint
from highwater.wire.codec import Malformed, Message
from highwater.wire.messages.api_versions_request import ApiVersionsRequest
from highwater.wire.messages.api_versions_response import ApiVersionsResponse
from highwater.wire.messages.sasl_handshake_request import SaslHandshakeRequest

MAX_RESPONSE_BYTES = 256 << 20
DIAL_TIMEOUT = 10.0
"""As socket.connection.setup.timeout.ms: a missing host must not take the whole time of a request."""
SOFTWARE_NAME = "highwater"

DELAY_SECONDS = 4.0
"""A response that takes longer is reported, each time this much has passed. The first member of a group waits 3 s for
others."""

RENEWAL = (0.85, 0.95)
"""The shares of a session's life between which it is renewed, as in Kafka's clients. The moment is random, so that not
all clients come at once."""

_TLS_ALERT = b"\x15\x03"
"""The first bytes that a TLS listener sends to a client that does not use TLS."""

_FIRST_READ = 64 << 10
_SIZE = struct.Struct(">i")
_SHORT = struct.Struct(">h")
_REQUEST_HEADER = struct.Struct(">hhih")

M = TypeVar("M", bound=Message)
OnDelay = Callable[[Exception, float], None]
"""Called with what a call still waits for, and for how many seconds it has waited."""


class Ticket(NamedTuple):
    """A request in flight: what its response must contain, and how to decode it."""

    correlation_id: int
    api_key: int
    version: int


class Connection:
    """Requests may be pipelined. Responses are taken in the order in which the requests were sent. Any failure closes
    the connection: after a timeout or a broken frame, it is unknown where the next response begins."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        client_id: str = SOFTWARE_NAME,
        timeout: float = 30.0,
        dial_timeout: float = DIAL_TIMEOUT,
        max_response_bytes: int = MAX_RESPONSE_BYTES,
        on_delay: OnDelay = lambda failure, seconds: None,
        access: Access = Access(),
    ) -> None:
        """`dial_timeout` limits the connection attempt together with the first response: a stopped server accepts a
        connection and sends nothing."""
        self.endpoint = endpoint
        self.client_id = client_id
        self.timeout = timeout
        self.max_response_bytes = max_response_bytes
        self._on_delay = on_delay
        self._client_id = client_id.encode()
        self._next_correlation_id = 0
        self._in_flight: deque[Ticket] = deque()
        self._early: deque[memoryview] = deque()
        """Answers to the oldest requests in flight that were read before anybody asked for them."""
        self._ranges: dict[int, tuple[int, int]] = {}
        self._access = access
        self._renew_at = math.inf
        self.sessions = 0
        """How often this client has authenticated."""
        self._was_answered = False
        patience = min(timeout, dial_timeout)
        self._socket: socket.socket | None = self._secured(_dial(endpoint, patience))
        try:
            self._ranges = self._negotiate(patience)
            self._log_in()
        except BaseException:
            self.close()
            raise

    @property
    def is_open(self) -> bool:
        return self._socket is not None

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        self._in_flight.clear()
        self._early.clear()

    def offers(self, api: type[Message]) -> bool:
        """Whether the server speaks a version of `api` that we speak too."""
        offered = self._ranges.get(api.API_KEY)
        return offered is not None and offered[0] <= api.VERSIONS[1] and api.VERSIONS[0] <= offered[1]

    def version(self, api: type[Message], cap: int | None = None) -> int:
        """The newest version both sides know, at most `cap`. Raises UnsupportedApi."""
        low, high = api.VERSIONS
        offered = self._ranges.get(api.API_KEY)
        if offered is None:
            raise UnsupportedApi(f"{self.endpoint} does not support {api.__name__}")
        newest = min(high if cap is None else min(high, cap), offered[1])
        if newest < max(low, offered[0]):
            raise UnsupportedApi(
                f"{self.endpoint} supports {api.__name__} {offered[0]} to {offered[1]}, not {low} to {high}"
            )
        return newest

    def request(self, request: Message, answer: type[M], *, cap: int | None = None, timeout: float | None = None) -> M:
        """Send and wait. `timeout` (seconds) covers both; the connection's own is the default."""
        return self.receive(self.send(request, self.version(type(request), cap), timeout=timeout), answer, timeout)

    def send(self, request: Message, version: int, *, answered: bool = True, timeout: float | None = None) -> Ticket:
        """Put one request on the wire. A produce request with acks=0 is the only one never `answered`."""
        if time.monotonic() >= self._renew_at:
            self._renew()
        ticket = Ticket(self._next_correlation_id, request.API_KEY, version)
        self._next_correlation_id = (self._next_correlation_id + 1) & 0x7FFFFFFF
        header = (
            _REQUEST_HEADER.pack(ticket.api_key, version, ticket.correlation_id, len(self._client_id))
            + self._client_id
            + (b"\0" if version >= request.FLEXIBLE else b"")
        )
        body = request.encode(version)
        sock = self._live_socket()
        try:
            sock.settimeout(self.timeout if timeout is None else timeout)
            sock.sendall(b"".join((_SIZE.pack(len(header) + len(body)), header, body)))
        except TimeoutError as error:
            self.close()
            raise RequestTimeout(f"{self.endpoint} took no {type(request).__name__} in time") from error
        except OSError as error:
            self.close()
            raise self._explained(error) from error
        if answered:
            self._in_flight.append(ticket)
        return ticket

    def fileno(self) -> int:
        """For `poll`: this socket is readable when a response arrives."""
        return self._live_socket().fileno()

    @property
    def has_buffered(self) -> bool:
        """Whether bytes of a response were read already; a poll would not show them."""
        return bool(self._early) or (isinstance(self._socket, ssl.SSLSocket) and self._socket.pending() > 0)

    def receive(self, ticket: Ticket, answer: type[M], timeout: float | None = None) -> M:
        """The response to `ticket`, which must be the oldest request that has none."""
        frame = self._receive_frame(ticket, timeout)
        self._was_answered = True
        # An ApiVersions answer has the old header in every version: its reader cannot know yet what we speak.
        tagged = ticket.version >= answer.FLEXIBLE and answer is not ApiVersionsResponse
        return self._decode(frame, answer, ticket.version, tagged)

    def _receive_frame(self, ticket: Ticket, timeout: float | None) -> memoryview:
        if not self._in_flight or self._in_flight[0] != ticket:
            raise ValueError(f"not the oldest request in flight: {ticket}")
        frame = self._early.popleft() if self._early else self._next_frame(self.timeout if timeout is None else timeout)
        self._in_flight.popleft()
        (correlation_id,) = _SIZE.unpack_from(frame)
        if correlation_id != ticket.correlation_id:
            self.close()
            raise BadAnswer(f"{self.endpoint} answered request {correlation_id}, not {ticket.correlation_id}")
        return frame[4:]

    def _next_frame(self, seconds: float) -> memoryview:
        try:
            return self._read_frame(time.monotonic() + seconds)
        except TimeoutError as error:
            self.close()
            raise RequestTimeout(f"no answer from {self.endpoint} within {seconds:g} s") from error
        except ClientFailure:
            self.close()
            raise
        except OSError as error:
            self.close()
            raise self._explained(error) from error

    def _read_frame(self, deadline: float) -> memoryview:
        head = self._read(4, deadline)
        if not self._ranges and head.startswith(_TLS_ALERT):
            raise AuthenticationFailed(
                f"{self.endpoint} speaks TLS: set security.protocol to SSL or SASL_SSL, or connect to another listener"
            )
        (size,) = _SIZE.unpack(head)
        if not 4 <= size <= self.max_response_bytes:
            raise BadAnswer(f"{self.endpoint} announced an answer of {size} bytes (limit {self.max_response_bytes})")
        return memoryview(self._read(size, deadline)).toreadonly()

    def _read(self, n: int, deadline: float) -> bytearray:
        """Reads exactly `n` bytes. The buffer grows as bytes arrive, so a large announced size alone takes no
        memory."""
        sock = self._live_socket()
        begun = time.monotonic()
        buffer = bytearray(min(n, _FIRST_READ))
        got = 0
        while got < n:
            if got == len(buffer):
                buffer.extend(bytes(min(got, n - got)))
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise TimeoutError
            sock.settimeout(min(remaining, DELAY_SECONDS))
            try:
                with memoryview(buffer) as view:
                    count = sock.recv_into(view[got:])
            except TimeoutError:
                waited = time.monotonic() - begun
                self._on_delay(RequestTimeout(f"{self.endpoint} has not answered for {waited:.0f} s"), waited)
                continue
            if count == 0:
                raise ConnectionResetError("the server closed the connection")
            got += count
        return buffer

    def _decode(self, frame: memoryview, answer: type[M], version: int, tagged: bool) -> M:
        try:
            if tagged:
                frame = _skip_tags(frame)
            return answer.decode(frame, version)
        except Malformed as error:
            self.close()
            raise BadAnswer(f"{self.endpoint} sent a malformed {answer.__name__}: {error}") from error

    def _negotiate(self, timeout: float) -> dict[int, tuple[int, int]]:
        """Asks for the version ranges with our newest ApiVersions, and then with the newest one of the server
        (KIP-511)."""
        version = ApiVersionsRequest.VERSIONS[1]
        for _ in range(2):
            request = ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=SOFTWARE_VERSION)
            frame = self._receive_frame(self.send(request, version), timeout)
            refused = len(frame) >= 2 and _SHORT.unpack_from(frame)[0] == Code.UNSUPPORTED_VERSION
            response = self._decode(frame, ApiVersionsResponse, 0 if refused else version, tagged=False)
            ranges = {key.api_key: (key.min_version, key.max_version) for key in response.api_keys}
            if response.error_code == Code.NONE:
                return ranges
            offered = ranges.get(ApiVersionsRequest.API_KEY)
            if not refused or offered is None:
                raise KafkaError(code_of(response.error_code), f"{self.endpoint} refused ApiVersions")
            version = min(version - 1, offered[1])
        raise UnsupportedApi(f"{self.endpoint} has no version of ApiVersions in common with us")

    # ---- Security

    def _secured(self, sock: socket.socket) -> socket.socket:
        try:
            return self._access.secured(sock, self.endpoint)
        except Disconnected:
            if self._speaks_plainly():
                raise AuthenticationFailed(not_tls(self.endpoint)) from None
            raise

    def _speaks_plainly(self) -> bool:
        """Asked on a second connection: a listener without TLS closes one that begins with a handshake."""
        try:
            Connection(self.endpoint, client_id=self.client_id, timeout=min(self.timeout, DIAL_TIMEOUT)).close()
        except (ClientFailure, KafkaError):
            return False
        return True

    def _log_in(self) -> None:
        if self._access.login is None:
            return
        self._renew_at = math.inf
        begun = time.monotonic()
        lifetime = authenticate(self, self._access.login)
        if lifetime is not None:
            self._renew_at = begun + lifetime * random.uniform(*RENEWAL)
        self.sessions += 1

    def _renew(self) -> None:
        """Authenticates again before the session ends (KIP-368). Nothing else may be under way meanwhile, so the
        answers that are still to come are read first, and kept."""
        early = [*self._early]
        while len(early) < len(self._in_flight):
            early.append(self._next_frame(self.timeout))
        waiting, self._in_flight, self._early = self._in_flight, deque(), deque()
        try:
            self._log_in()
        except BaseException:
            self.close()
            raise
        self._in_flight, self._early = waiting, deque(early)

    def _explained(self, error: OSError) -> ClientFailure:
        if isinstance(error, ssl.SSLError):
            return explained(error, self.endpoint, in_handshake=False)
        if not self._was_answered and self._access.login is None:
            if not self._ranges:
                return Disconnected(
                    f"{self.endpoint} disconnected at the first request: {error}; if its listener is an encrypted one, "
                    "set security.protocol to SSL or SASL_SSL"
                )
            if mechanisms := self._wanted_mechanisms():
                protocol = "SASL_PLAINTEXT" if self._access.context is None else "SASL_SSL"
                return AuthenticationFailed(
                    f"{self.endpoint} wants clients to authenticate: set security.protocol to {protocol}, "
                    f"sasl.mechanism ({', '.join(mechanisms)}) and sasl.jaas.config"
                )
        return Disconnected(f"{self.endpoint} disconnected: {error}")

    def _wanted_mechanisms(self) -> list[str]:
        """Asked on a second connection: a listener with SASL closes one that begins with any other request."""
        if not self.offers(SaslHandshakeRequest):
            return []
        try:
            asking = Connection(
                self.endpoint,
                client_id=self.client_id,
                timeout=min(self.timeout, DIAL_TIMEOUT),
                access=self._access,
            )
            asking._was_answered = True
            try:
                return wanted_mechanisms(asking)
            finally:
                asking.close()
        except (ClientFailure, KafkaError):
            return []

    def _live_socket(self) -> socket.socket:
        if self._socket is None:
            raise Disconnected(f"the connection to {self.endpoint} is closed")
        return self._socket


def _dial(endpoint: Endpoint, timeout: float) -> socket.socket:
    try:
        sock = socket.create_connection(endpoint, timeout)
    except TimeoutError as error:
        raise RequestTimeout(f"{endpoint} did not accept a connection within {timeout:g} s") from error
    except OSError as error:
        raise Disconnected(f"cannot connect to {endpoint}: {error.strerror or error}") from error
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def _skip_tags(frame: memoryview) -> memoryview:
    """Skips the tagged fields of a flexible response header. No tag is defined for it so far."""
    count, at = _uvarint(frame, 0)
    for _ in range(count):
        _, at = _uvarint(frame, at)
        size, at = _uvarint(frame, at)
        at += size
        if at > len(frame):
            raise Malformed("a tagged field of the response header runs past the frame")
    return frame[at:]


def _uvarint(frame: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 35, 7):
        if at >= len(frame):
            break
        byte = frame[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise Malformed("a varint of the response header does not end")
