"""What every SASL exchange is to the connection that carries it."""

from __future__ import annotations

from typing import Protocol


class Refused(Exception):
    """The server does not accept our credentials, or did not prove that it knows them: trying again is of no use."""


class Exchange(Protocol):
    """One authentication. The messages are sent as they are; the server's answers come back through `answer`."""

    def first(self) -> bytes:
        """The message with which the client begins."""
        ...

    def answer(self, challenge: bytes) -> bytes | None:
        """What the client answers; None if the exchange is complete. Raises Refused."""
        ...
