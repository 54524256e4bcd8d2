"""OAUTHBEARER (RFC 7628): a bearer token, and Kafka's extensions beside it (KIP-342)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

_EXTENSION_NAME = re.compile(r"[A-Za-z]+")
_EXTENSION_VALUE = re.compile(r"[\x21-\x7e \t\r\n]+")
_TOKEN = re.compile(r"[-A-Za-z0-9._~+/]+=*")


class OAuthBearerExchange:
    def __init__(self, token: str, extensions: Mapping[str, str] | None = None) -> None:
        """Raises ValueError for what has no place in the message; it names no part of the token."""
        if not _TOKEN.fullmatch(token):
            raise ValueError("the OAuth token has characters that no bearer token has, or is empty")
        pairs = [f"auth=Bearer {token}"]
        for name, value in (extensions or {}).items():
            if not _EXTENSION_NAME.fullmatch(name) or name == "auth" or not _EXTENSION_VALUE.fullmatch(value):
                raise ValueError(
                    f"extension_{name} of sasl.jaas.config is not a name of letters with a printable value"
                )
            pairs.append(f"{name}={value}")
        self._message = ("n,,\x01" + "\x01".join(pairs) + "\x01\x01").encode()
        self.reason = ""
        """Why the server refuses the token. Its error code comes only with the answer to our last message."""

    def first(self) -> bytes:
        return self._message

    def answer(self, challenge: bytes) -> bytes | None:
        if not challenge:
            return None
        self.reason = _reason(challenge)
        return b"\x01"


def _reason(challenge: bytes) -> str:
    try:
        status = json.loads(challenge)["status"]
    except (ValueError, KeyError, TypeError):
        return "the token is refused"
    return str(status)[:200]
