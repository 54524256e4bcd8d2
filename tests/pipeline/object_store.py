"""An S3 interface on this machine, and a way between whose answers can be lost."""

from __future__ import annotations

import http.client
import json
import logging
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.apache import ROOT

BUCKET = "lake"
KEYS = {"access": "an-id", "secret": "a-secret"}
_HOP = ("connection", "transfer-encoding", "keep-alive", "content-length")
_SECONDS = 120
_CONTROL = "/-/answers"


class ObjectStore:
    """A store with a bucket in it, in a process of its own: calls of deltalake hold on to the interpreter."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self._port = port

    def lose(self, pattern: str) -> None:
        """The answer to the next request of this kind, such as `PUT /lake/table/_delta_log/`."""
        self._asked("POST", pattern)

    @property
    def lost(self) -> list[str]:
        """The requests whose answers were lost."""
        found: list[str] = json.loads(self._asked("GET"))
        return found

    def _asked(self, method: str, body: str | None = None) -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=_SECONDS)
        try:
            connection.request(method, _CONTROL, body)
            return connection.getresponse().read()
        finally:
            connection.close()


@contextmanager
def object_store() -> Iterator[ObjectStore]:
    from pyarrow.fs import S3FileSystem

    process = subprocess.Popen(
        [sys.executable, "-m", __name__], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        store = ObjectStore(int(process.stdout.readline()))
        S3FileSystem(
            access_key=KEYS["access"],
            secret_key=KEYS["secret"],
            endpoint_override=store.url,
            region="us-east-1",
            allow_bucket_creation=True,
        ).create_dir(BUCKET)
        yield store
    finally:
        process.communicate(timeout=_SECONDS)


class _LosingProxy(ThreadingHTTPServer):
    """Passes requests on. For those that it is to lose, the store does as it is asked, and nobody hears of it."""

    daemon_threads = True

    def __init__(self, store: tuple[str, int]) -> None:
        super().__init__(("127.0.0.1", 0), _Passing)
        self.store = store
        self.lost: list[str] = []
        self.losing: list[re.Pattern[str]] = []
        self._lock = threading.Lock()

    def is_lost(self, request: str) -> bool:
        with self._lock:
            for pattern in self.losing:
                if pattern.search(request):
                    self.losing.remove(pattern)
                    self.lost.append(request)
                    return True
        return False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has gone is no news."""


class _Passing(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _LosingProxy

    def _pass(self) -> None:
        body = self._body()
        if self.path == _CONTROL:
            if body is not None:
                self.server.losing.append(re.compile(body.decode()))
            self._answer(200, [], json.dumps(self.server.lost).encode())
            return
        upstream = http.client.HTTPConnection(*self.server.store, timeout=_SECONDS)
        try:
            headers = {name: value for name, value in self.headers.items() if name.lower() not in (*_HOP, "expect")}
            upstream.request(self.command, self.path, body, headers)
            answer = upstream.getresponse()
            content = answer.read()
        finally:
            upstream.close()
        if self.server.is_lost(f"{self.command} {self.path}"):
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        self._answer(answer.status, answer.getheaders(), content, answer.getheader("Content-Length"))

    def _body(self) -> bytes | None:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            length = int(self.headers.get("Content-Length") or 0)
            return self.rfile.read(length) if length else None
        chunks = []
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return b"".join(chunks)

    def _answer(self, status: int, headers: list[tuple[str, str]], content: bytes, size: str | None = None) -> None:
        self.send_response(status)
        for name, value in headers:
            if name.lower() not in _HOP:
                self.send_header(name, value)
        is_head = self.command == "HEAD"
        self.send_header("Content-Length", (size or "0") if is_head else str(len(content)))
        self.end_headers()
        if not is_head:
            self.wfile.write(content)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _pass

    def log_message(self, format: str, *args: Any) -> None:
        """Nobody reads it."""


def main() -> None:
    """Prints the port, and ends when standard input does."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    proxy = _LosingProxy(server.get_host_and_port())
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    print(proxy.server_port, flush=True)
    sys.stdin.read()
    # Nothing of it is kept, and nobody waits for what is under way.
    os._exit(0)


def delta_options(store: ObjectStore, name: str) -> dict[str, str]:
    storage = {
        "aws_endpoint_url": store.url,
        "aws_region": "us-east-1",
        "aws_access_key_id": KEYS["access"],
        "aws_secret_access_key": KEYS["secret"],
        "aws_allow_http": "true",
    }
    options = {f"storage.{key}": value for key, value in storage.items()}
    return {"table": "delta", "path": f"s3://{BUCKET}/{name}"} | options


def iceberg_options(store: ObjectStore, name: str, catalog: str) -> dict[str, str]:
    settings = {
        "type": "sql",
        "uri": catalog,
        "s3.endpoint": store.url,
        "s3.region": "us-east-1",
        "s3.access-key-id": KEYS["access"],
        "s3.secret-access-key": KEYS["secret"],
    }
    options = {f"catalog.{key}": value for key, value in settings.items()}
    return {"table": "iceberg", "path": f"s3://{BUCKET}/{name}", "name": f"default.{name}"} | options


if __name__ == "__main__":
    main()
