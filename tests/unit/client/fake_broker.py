"""A server of a few APIs on a real socket: answers are given by functions, one per request class."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any

from highwater.model import Endpoint
from highwater.wire.codec import Message
from highwater.wire.messages import index
from highwater.wire.messages.api_versions_request import ApiVersionsRequest
from highwater.wire.messages.api_versions_response import ApiVersion, ApiVersionsResponse

Answer = Callable[[Any, int], Message | bytes | None]
"""From request and version to the response; bytes go out as they are, None closes the connection."""


@contextmanager
def nobody() -> Iterator[Endpoint]:
    """Where dials are refused: a port that is kept, so that no other process can be given it, and never listened at."""
    with socket.socket() as kept:
        kept.bind(("127.0.0.1", 0))
        yield Endpoint("127.0.0.1", kept.getsockname()[1])


class FakeBroker:
    """Serves until the `with` block ends; `seen` lists what came, as (request, version)."""

    def __init__(self, answers: dict[type[Message], Answer] | None = None) -> None:
        self.answers = answers or {}
        self.ranges = {kind.API_KEY: kind.VERSIONS for kind in (*self.answers, ApiVersionsRequest)}
        self.seen: list[tuple[Message, int]] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint("127.0.0.1", self._listener.getsockname()[1])

    def requests(self, kind: type[Message]) -> list[Any]:
        return [request for request, _ in self.seen if isinstance(request, kind)]

    def answer(self, kind: type[Message], answer: Answer) -> None:
        self.answers[kind] = answer
        self.ranges[kind.API_KEY] = kind.VERSIONS

    def __enter__(self) -> FakeBroker:
        self._start(self._accept)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        # Shutting down wakes the threads that wait in accept and recv.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            for connection in self._open:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()

    def _start(self, target: Callable[..., None], *args: object) -> None:
        thread = threading.Thread(target=target, args=args)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                self._open.append(connection)
            self._start(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as stream:
            try:
                while prefix := stream.read(4):
                    reply = self._handle(stream.read(int.from_bytes(prefix, "big")))
                    if reply is None:
                        return
                    connection.sendall(reply)
            except OSError:
                return

    def _handle(self, frame: bytes) -> bytes | None:
        key, version, correlation_id, client_id = struct.unpack_from(">hhih", frame)
        kind = index.load(index.REQUESTS[key])
        body = frame[10 + client_id + (1 if version >= kind.FLEXIBLE else 0) :]
        if kind is ApiVersionsRequest and kind not in self.answers:
            response: Message | bytes | None = self.versions()
            tagged = False
        else:
            request = kind.decode(body, version)
            self.seen.append((request, version))
            response = self.answers[kind](request, version)
            tagged = version >= kind.FLEXIBLE and kind is not ApiVersionsRequest
        if response is None or isinstance(response, bytes):
            return response
        payload = struct.pack(">i", correlation_id) + (b"\0" if tagged else b"") + response.encode(version)
        return struct.pack(">i", len(payload)) + payload

    def versions(self) -> ApiVersionsResponse:
        return ApiVersionsResponse(
            api_keys=[
                ApiVersion(api_key=key, min_version=low, max_version=high) for key, (low, high) in self.ranges.items()
            ]
        )
