"""The door of the console, asked over a real socket."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from highwater.console.access import CHANGE_HEADER, MOST_BODY_BYTES, Access
from highwater.console.guard import Guard
from highwater.console.listening import PortTaken, address, listening
from highwater.console.serving import serve

TOKEN = "a-token-of-the-test"


async def echoed(request: Request) -> Response:
    return JSONResponse({"path": request.url.path, "size": len(await request.body())})


class Served:
    """The guard in front of an application that answers everything."""

    def __init__(self) -> None:
        socket = listening("127.0.0.1", 0)
        self.port = socket.getsockname()[1]
        self.access = Access(TOKEN, self.port)
        routes = [Route("/{rest:path}", echoed, methods=["GET", "POST"])]
        self._over = threading.Event()
        self._thread = threading.Thread(
            target=serve, args=(Guard(Starlette(routes=routes), self.access), socket, self._over.is_set), daemon=True
        )
        self._thread.start()

    def ask(self, path: str, method: str = "GET", body: bytes | None = None, **headers: str) -> tuple[int, Any, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, path, body, {key.replace("_", "-"): value for key, value in headers.items()})
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    @property
    def cookie(self) -> str:
        return f"{self.access.cookie_name}={TOKEN}"

    def close(self) -> None:
        self._over.set()
        self._thread.join(30)


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    running = Served()  # its socket listens already
    yield running
    running.close()


def test_the_right_token_leaves_the_address_by_a_redirect_into_a_cookie(served: Served) -> None:
    status, headers, body = served.ask(f"/topics/orders?start=offset&token={TOKEN}&at=7")
    assert status == 303
    assert headers["location"] == "/topics/orders?start=offset&at=7"
    assert headers["set-cookie"] == served.access.cookie
    assert TOKEN not in headers["location"] and body == b""


def test_the_redirect_never_leads_to_another_host(served: Served) -> None:
    status, headers, _ = served.ask(f"//evil.example/x?token={TOKEN}")
    assert status == 303 and headers["location"] == "/evil.example/x"


@pytest.mark.parametrize("path", ["/", "/?token=wrong", "/?token=", "/api/session", "/topics/orders?token=a-token"])
def test_without_the_right_token_nothing_is_answered(served: Served, path: str) -> None:
    status, headers, body = served.ask(path)
    assert status == 401 and "set-cookie" not in headers and b'"path"' not in body


def test_a_cookie_of_another_port_does_not_open_this_one(served: Served) -> None:
    assert served.ask("/", cookie=f"highwater_console_1={TOKEN}")[0] == 401


def test_a_foreign_host_is_refused_even_with_the_cookie(served: Served) -> None:
    assert served.ask("/", cookie=served.cookie, Host="evil.example")[0] == 403
    assert served.ask(f"/?token={TOKEN}", Host="evil.example")[0] == 403


def test_a_foreign_origin_is_refused_even_with_the_cookie_and_the_token_for_changes(served: Served) -> None:
    secrets = {"cookie": served.cookie, CHANGE_HEADER: served.access.change_token}
    assert served.ask("/x", "POST", b"{}", origin="http://evil.example", **secrets)[0] == 403
    assert served.ask("/x", "POST", b"{}", origin=f"http://127.0.0.1:{served.port}", **secrets)[0] == 200


def test_a_change_needs_the_token_of_the_page_besides_the_cookie(served: Served) -> None:
    assert served.ask("/x", "POST", b"{}", cookie=served.cookie)[0] == 403
    assert served.ask("/x", "POST", b"{}", cookie=served.cookie, **{CHANGE_HEADER: TOKEN})[0] == 403


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "TRACE"])
def test_only_get_head_and_post_are_taken(served: Served, method: str) -> None:
    assert served.ask("/", method, cookie=served.cookie)[0] == 405


def test_a_body_beyond_the_bound_is_refused_unread(served: Served) -> None:
    secrets = {"cookie": served.cookie, CHANGE_HEADER: served.access.change_token}
    status, _, body = served.ask("/x", "POST", b"", content_length=str(MOST_BODY_BYTES + 1), **secrets)
    assert status == 413 and b"bytes" in body


def test_every_response_carries_the_headers_also_a_refusal(served: Served) -> None:
    answers = [served.ask("/", cookie=served.cookie), served.ask("/"), served.ask("/", Host="evil.example")]
    for _, headers, _ in answers:
        assert "default-src 'none'" in headers["content-security-policy"]
        assert headers["referrer-policy"] == "no-referrer" and headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store" and "server" not in headers


def test_the_files_of_the_pages_need_no_token_and_take_no_change(served: Served) -> None:
    status, _, body = served.ask("/static/app.css")
    assert status == 200 and json.loads(body)["path"] == "/static/app.css"
    assert served.ask("/static/app.css", "POST", b"{}")[0] == 401


def test_a_port_that_was_asked_for_and_is_taken_is_an_error_and_otherwise_the_next_is_tried() -> None:
    with listening("127.0.0.1", None) as first:
        taken = first.getsockname()[1]
        with pytest.raises(PortTaken, match=f"port {taken} is taken"):
            listening("127.0.0.1", taken)
        with listening("127.0.0.1", None) as second:
            assert second.getsockname()[1] != taken


def test_the_printed_address_is_one_that_a_browser_on_this_machine_can_open() -> None:
    assert address("0.0.0.0", 8080, "/kafka", "t") == "http://127.0.0.1:8080/kafka/?token=t"
    assert address("::1", 9, "", "t") == "http://[::1]:9/?token=t"
