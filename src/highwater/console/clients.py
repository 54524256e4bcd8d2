"""Clients of the cluster for the threads of the console: a client serves one thread at a time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from highwater.client import Client, Security

IDLE_KEPT: Final = 4
TIMEOUT: Final = 20.0
ROUND_TIMEOUT: Final = 1.0
"""What is asked in rounds is asked again soon. A partition that has just lost its leader holds up no other news."""
REQUEST_TIMEOUT: Final = 10.0
"""A page shows that a broker does not answer. It does not wait for as long as a program would."""


class Clients:
    def __init__(self, bootstrap: str, security: Security) -> None:
        self.bootstrap = bootstrap
        self._security = security
        self._idle: list[Client] = []
        self._lock = threading.Lock()

    def follow(self, bootstrap: str) -> bool:
        """The cluster may have other servers now: it was started again on other ports. Then clients of the old ones are
        closed when they come back, and try no longer until then."""
        with self._lock:
            if bootstrap == self.bootstrap:
                return False
            self.bootstrap = bootstrap
            idle, self._idle = self._idle, []
        for client in idle:
            client.close()
        return True

    def new(self, timeout: float = TIMEOUT) -> Client:
        servers = self.bootstrap
        client = Client(
            servers,
            client_id="highwater-console",
            timeout=timeout,
            request_timeout=REQUEST_TIMEOUT,
            security=self._security,
        )

        def give_up_if_moved(failure: Exception, seconds: float) -> None:
            if servers != self.bootstrap:
                raise failure

        client.on_delay = give_up_if_moved
        return client

    @contextmanager
    def borrowed(self) -> Iterator[Client]:
        """For the time of one request. A client that was left by an error is closed."""
        with self._lock:
            servers = self.bootstrap
            client = self._idle.pop() if self._idle else self.new()
        try:
            yield client
        except BaseException:
            client.close()
            raise
        with self._lock:
            if len(self._idle) < IDLE_KEPT and servers == self.bootstrap:
                self._idle.append(client)
                return
        client.close()

    def close(self) -> None:
        with self._lock:
            for client in self._idle:
                client.close()
            self._idle.clear()


class OwnClient:
    """The client of one thread, for rounds of questions. It is opened anew when the cluster has other servers."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._servers = ""
        self._open: Client | None = None

    def get(self) -> Client:
        if self._open is None or self._servers != self._clients.bootstrap:
            self.close()
            self._servers = self._clients.bootstrap
            self._open = self._clients.new(ROUND_TIMEOUT)
        return self._open

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None
