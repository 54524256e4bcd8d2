"""Decides who may use the console: a token, the names in Host and Origin, and the headers of each response."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import secrets
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

TOKEN_BYTES: Final = 24
CHANGE_HEADER: Final = "x-console-token"
MOST_BODY_BYTES: Final = 2 << 20
"""The largest body of a request. A record that is produced from the page is no larger than Kafka's own default."""

HEADERS: Final[tuple[tuple[str, str], ...]] = (
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'self'; form-action 'none'; frame-ancestors 'none'",
    ),
    ("referrer-policy", "no-referrer"),
    ("x-content-type-options", "nosniff"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
)


def new_token() -> str:
    return secrets.token_urlsafe(TOKEN_BYTES)


@dataclass(frozen=True, slots=True)
class Access:
    token: str
    port: int
    """Part of the cookie's name: a browser sends the cookies of a host to all its ports."""
    base_path: str = ""
    hosts: frozenset[str] = frozenset()
    """Host names under which the console is reached, besides localhost and addresses."""

    @property
    def cookie_name(self) -> str:
        return f"highwater_console_{self.port}"

    @property
    def cookie(self) -> str:
        """The value of Set-Cookie. No script can read it, and no other site can make a browser send it."""
        return f"{self.cookie_name}={self.token}; Path={self.base_path or '/'}; HttpOnly; SameSite=Strict"

    @property
    def change_token(self) -> str:
        """What a change has to carry in a header. Only the console's own page can read it."""
        return hmac.new(self.token.encode(), b"changes", hashlib.sha256).hexdigest()

    def is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self.token.encode())

    def is_change_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self.change_token.encode())

    def is_own_host(self, host: str) -> bool:
        """An address is safe: a foreign page reaches this server under a name that it made up (DNS rebinding)."""
        name = _name_of(host)
        if name is None:
            return False
        if name == "localhost" or name in self.hosts:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True

    @staticmethod
    def is_own_origin(origin: str, host: str) -> bool:
        """Whether the page that sent the request came from this server. A proxy may have added TLS."""
        try:
            parts = urlsplit(origin)
        except ValueError:
            return False
        return parts.scheme in ("http", "https") and parts.netloc.lower() == host.lower() and not parts.path

    def cookie_token(self, header: str) -> str:
        """The token in a Cookie header, or an empty text."""
        for pair in header.split(";"):
            name, _, value = pair.strip().partition("=")
            if name == self.cookie_name:
                return value
        return ""


def _name_of(host: str) -> str | None:
    """The host name in a Host header, without the port; None if the header is malformed."""
    try:
        parts = urlsplit(f"//{host}")
        parts.port  # noqa: B018 - it raises if the port is not a number
    except ValueError:
        return None
    if parts.path or parts.query or parts.fragment or parts.username is not None:
        return None
    return parts.hostname


def checked_base_path(text: str) -> str:
    """The path under which a proxy serves the console, without a slash at its end. Raises ValueError."""
    path = text.strip().rstrip("/")
    if path and (not path.startswith("/") or path.startswith("//")):
        raise ValueError(f"a base path begins with one slash: {text}")
    if not all(each.isascii() and (each.isalnum() or each in "/-._~") for each in path) or ".." in path:
        raise ValueError(f"a base path has only letters, digits and / - . _ ~: {text}")
    return path
