"""OAuth tokens: from an identity provider (RFC 6749, client_credentials), from a file, or unsecured for development."""

from __future__ import annotations

import base64
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path

from highwater.client.failures import AuthenticationFailed, Disconnected

MOST_BYTES = 1 << 20
HTTP_SECONDS = 10.0
"""As sasl.login.connect.timeout.ms and sasl.login.read.timeout.ms, for which Kafka has no default."""
REFRESH_AT = 0.8
"""The part of its life after which a token is fetched anew (sasl.login.refresh.window.factor)."""

STRING_CLAIM = "unsecuredLoginStringClaim_"
NUMBER_CLAIM = "unsecuredLoginNumberClaim_"
LIST_CLAIM = "unsecuredLoginListClaim_"
PRINCIPAL_CLAIM_NAME = "unsecuredLoginPrincipalClaimName"
LIFETIME = "unsecuredLoginLifetimeSeconds"
UNSECURED = (STRING_CLAIM, NUMBER_CLAIM, LIST_CLAIM, PRINCIPAL_CLAIM_NAME, LIFETIME)

TokenSource = Callable[[], str]


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """The secret is for the one address that was named, so a redirect is an error."""

    def redirect_request(self, *_: object) -> None:
        return None


_opener = urllib.request.build_opener(_NoRedirects)


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


def fetched_token(url: str, client_id: str, client_secret: str, scope: str | None) -> str:
    """From the token endpoint of an identity provider; no error has the secret or the token."""
    login = base64.b64encode(f"{client_id}:{client_secret}".encode()).decode()
    form = {"grant_type": "client_credentials"} | ({"scope": scope} if scope else {})
    request = urllib.request.Request(
        url,
        data=urllib.parse.urlencode(form).encode(),
        headers={"Accept": "application/json", "Authorization": f"Basic {login}"},
    )
    try:
        with _opener.open(request, timeout=HTTP_SECONDS) as response:
            answer = response.read(MOST_BYTES)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code >= 500:
            raise Disconnected(f"{url} gave no token: HTTP status {error.code}") from None
        raise AuthenticationFailed(
            f"{url} gave no token for client {client_id}: HTTP status {error.code}; check "
            "sasl.oauthbearer.client.credentials.client.id, its secret and sasl.oauthbearer.scope"
        ) from None
    except OSError as error:
        raise Disconnected(f"{url} gave no token: {error}") from None
    try:
        token = json.loads(answer)["access_token"]
    except (ValueError, KeyError, TypeError):
        token = None
    if not isinstance(token, str):
        raise AuthenticationFailed(f"{url} answered without an access_token: is it the token endpoint?")
    return token


def token_in_file(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise AuthenticationFailed(
            f"the OAuth token of sasl.oauthbearer.token.endpoint.url cannot be read: {path}: {reason}"
        ) from None


def _number(name: str, value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise ValueError(f"{name} of sasl.jaas.config is not a number") from None


def _encoded(part: Mapping[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")
