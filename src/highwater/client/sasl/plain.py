"""PLAIN (RFC 4616): name and password as they are. Only TLS hides them from the network."""

from __future__ import annotations

from highwater.client.sasl.exchange import LoginRefused


class PlainExchange:
    def __init__(self, username: str, password: str) -> None:
        if not username or not password or "\0" in username + password:
            raise ValueError("username and password of sasl.jaas.config must not be empty and must have no NUL")
        self._message = b"\0".join((b"", username.encode(), password.encode()))

    def first(self) -> bytes:
        return self._message

    def answer(self, challenge: bytes) -> bytes | None:
        if challenge:
            raise LoginRefused("it answered PLAIN with a challenge, which that mechanism does not have")
        return None
