"""OAuth tokens: kept while they are fresh, and unsecured ones for development."""

from __future__ import annotations

import base64
import json
import math
import time
from collections.abc import Callable, Mapping

REFRESH_AT = 0.8
"""The part of its life after which a token is fetched anew (sasl.login.refresh.window.factor)."""

STRING_CLAIM = "unsecuredLoginStringClaim_"
NUMBER_CLAIM = "unsecuredLoginNumberClaim_"
LIST_CLAIM = "unsecuredLoginListClaim_"
PRINCIPAL_CLAIM_NAME = "unsecuredLoginPrincipalClaimName"
LIFETIME = "unsecuredLoginLifetimeSeconds"
UNSECURED = (STRING_CLAIM, NUMBER_CLAIM, LIST_CLAIM, PRINCIPAL_CLAIM_NAME, LIFETIME)

TokenSource = Callable[[], str]


class Tokens:
    """Keeps a token until most of its life is over: each connection of a client needs one."""

    def __init__(self, source: TokenSource, now: Callable[[], float] = time.time) -> None:
        self._source = source
        self._now = now
        self._token = ""
        self._fresh_until = 0.0

    def token(self) -> str:
        if self._now() >= self._fresh_until:
            self._token = self._source()
            begun = self._now()
            self._fresh_until = begun + REFRESH_AT * max(0.0, expiry(self._token) - begun)
        return self._token


def expiry(token: str) -> float:
    """In seconds since 1970; 0 for a token that is no JWT with `exp`, so that it is never kept."""
    try:
        claims = token.split(".")[1]
        return float(json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))["exp"])
    except (IndexError, KeyError, TypeError, ValueError):
        return 0.0


def unsecured_token(options: Mapping[str, str], now: float) -> str:
    """An unsigned JWT as Kafka's login module makes them. Brokers of production refuse it. Raises ValueError."""
    now = math.floor(now * 1000) / 1000  # a broker compares milliseconds, and refuses a token from the next one
    claims: dict[str, object] = {}
    for name, value in options.items():
        if name.startswith(STRING_CLAIM):
            claims[name.removeprefix(STRING_CLAIM)] = value
        elif name.startswith(NUMBER_CLAIM):
            claims[name.removeprefix(NUMBER_CLAIM)] = _number(name, value)
        elif name.startswith(LIST_CLAIM):
            claims[name.removeprefix(LIST_CLAIM)] = value[1:].split(value[0]) if value else []
    principal = options.get(PRINCIPAL_CLAIM_NAME, "sub")
    if not claims.get(principal):
        raise ValueError(f"sasl.jaas.config has no {STRING_CLAIM}{principal}, the name to log in with")
    claims.setdefault("iat", now)
    claims.setdefault("exp", now + _number(LIFETIME, options.get(LIFETIME, "3600")))
    return f"{_encoded({'alg': 'none'})}.{_encoded(claims)}."


def _number(name: str, value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise ValueError(f"{name} of sasl.jaas.config is not a number") from None


def _encoded(part: Mapping[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")
