"""The door of the console: each request is checked here before anything else sees it."""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qsl, quote, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from highwater.console.access import CHANGE_HEADER, HEADERS, MOST_BODY_BYTES, Access

TOKEN: Final = "token"


class Guard:
    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        refusal = self._refusal(scope)

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS:
                    headers[name] = value
                headers.setdefault("cache-control", "no-store")
            await send(message)

        await (self._app if refusal is None else refusal)(scope, _Bounded(receive), guarded)

    def _refusal(self, scope: Scope) -> Response | None:
        """The answer to a request that goes no further."""
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if not self._access.is_own_host(host):
            return _refused(403, "The console is not reached under this host name. --allow-host adds one.")
        origin = headers.get("origin")
        if origin is not None and not self._access.is_own_origin(origin, host):
            return _refused(403, "Another site may not ask the console.")
        if scope["method"] not in ("GET", "HEAD", "POST"):
            return _refused(405, "The console takes GET, HEAD and POST.")
        pairs = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = [value for name, value in pairs if name == TOKEN]
        if given:
            return self._redirect(scope, given[-1], [pair for pair in pairs if pair[0] != TOKEN])
        if _is_public(scope, self._access.base_path):
            return None
        if not self._access.is_token(self._access.cookie_token(headers.get("cookie", ""))):
            return self._unknown(scope)
        if scope["method"] == "POST":
            return self._change_refusal(headers)
        return None

    def _redirect(self, scope: Scope, token: str, rest: list[tuple[str, str]]) -> Response:
        """The token leaves the address by this redirect: it is in no history, bookmark or screenshot."""
        if not self._access.is_token(token):
            return self._unknown(scope)
        path = quote(scope["path"])
        # A path that begins with two slashes would lead to another host.
        where = "/" + path.lstrip("/") + (f"?{urlencode(rest)}" if rest else "")
        return RedirectResponse(where, status_code=303, headers={"set-cookie": self._access.cookie})

    def _change_refusal(self, headers: Headers) -> Response | None:
        if not self._access.is_change_token(headers.get(CHANGE_HEADER, "")):
            return _refused(403, "A change needs the token of the page.")
        length = headers.get("content-length", "")
        if not length.isdecimal() or int(length) > MOST_BODY_BYTES:
            return _refused(413, f"A request may have {MOST_BODY_BYTES} bytes.")
        return None

    def _unknown(self, scope: Scope) -> Response:
        if "/api/" in scope["path"]:
            return _refused(401, "The token is missing or wrong. Open the address that the console printed.")
        return HTMLResponse(_LOCKED.replace("BASE", self._access.base_path), status_code=401)


class _Bounded:
    """A body that is longer than its Content-Length said is cut off as if the client had left."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._left = MOST_BODY_BYTES

    async def __call__(self) -> Message:
        message = await self._receive()
        self._left -= len(message.get("body", b""))
        return message if self._left >= 0 else {"type": "http.disconnect"}


def _is_public(scope: Scope, base_path: str) -> bool:
    """The files of the pages are the same everywhere, and hold nothing of a cluster."""
    return scope["method"] != "POST" and str(scope["path"]).startswith(f"{base_path}/static/")


def _refused(status: int, reason: str) -> Response:
    return JSONResponse({"error": reason}, status_code=status)


_LOCKED = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Highwater</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="stylesheet" href="BASE/static/app.css"><link rel="icon" href="BASE/static/icon.svg"></head>
<body class="locked"><main class="notice"><h1>This console is locked</h1>
<p>Open the address that the console printed when it started. It ends with <code>?token=…</code>, and is good until the
console ends.</p></main></body></html>
"""
