"""The interface between a connection and any SASL exchange."""

from __future__ import annotations

from typing import Protocol


class LoginRefused(Exception):
    """The server refuses our credentials, or did not prove that it knows them. Another attempt cannot help."""


class Exchange(Protocol):
    """One authentication. Its messages are sent unchanged, and the server's answers are passed to `answer`."""

    def first(self) -> bytes:
        """The message with which the client begins."""
        ...

    def answer(self, challenge: bytes) -> bytes | None:
        """The client's next message; None if the exchange is complete. Raises LoginRefused."""
        ...
