"""Clients of the cluster for the threads of the console: a client serves one thread at a time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from highwater.client import Client, Security

IDLE_KEPT: Final = 4
TIMEOUT: Final = 20.0
REQUEST_TIMEOUT: Final = 10.0
"""A page shows that a broker does not answer. It does not wait for as long as a program would."""


class Clients:
    def __init__(self, bootstrap: str, security: Security) -> None:
        self.bootstrap = bootstrap
        self._security = security
        self._idle: list[Client] = []
        self._lock = threading.Lock()

    def new(self) -> Client:
        return Client(
            self.bootstrap,
            client_id="highwater-console",
            timeout=TIMEOUT,
            request_timeout=REQUEST_TIMEOUT,
            security=self._security,
        )

    @contextmanager
    def borrowed(self) -> Iterator[Client]:
        """For the time of one request. A client that was left by an error is closed."""
        with self._lock:
            client = self._idle.pop() if self._idle else self.new()
        try:
            yield client
        except BaseException:
            client.close()
            raise
        with self._lock:
            if len(self._idle) < IDLE_KEPT:
                self._idle.append(client)
                return
        client.close()

    def close(self) -> None:
        with self._lock:
            for client in self._idle:
                client.close()
            self._idle.clear()
