"""OAuth tokens from elsewhere: from an identity provider (RFC 6749, client_credentials), or from a file.

In a module of its own, since Python's HTTP takes longer to load than the rest of a client.
"""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

from highwater.client.failures import AuthenticationFailed, Disconnected

MOST_BYTES = 1 << 20
HTTP_SECONDS = 10.0
"""As sasl.login.connect.timeout.ms and sasl.login.read.timeout.ms, for which Kafka has no default."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """The secret is for the one address that was named, so a redirect is an error."""

    def redirect_request(self, *_: object) -> None:
        return None


_opener = urllib.request.build_opener(_NoRedirects)


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
