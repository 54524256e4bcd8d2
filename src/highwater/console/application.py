"""The addresses of the console: the pages, their files, one stream of events per tab, and what pages ask for."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from html import escape
from pathlib import Path
from typing import Any, Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route, Router
from starlette.types import ASGIApp

from highwater.client import ClientFailure
from highwater.console.access import Access
from highwater.console.browsing import Question, tail
from highwater.console.changes import Changes
from highwater.console.cluster_reader import ClusterReader
from highwater.console.filters import BadFilter
from highwater.console.given import MOST_INT32, MOST_TOPIC_LETTERS, BadQuestion, check_parameters, number
from highwater.console.guard import Guard
from highwater.console.move_requests import MoveRequests
from highwater.console.poller import Poller, View, text_of
from highwater.console.recordings import Recordings
from highwater.console.requests import Requests, problem
from highwater.errors import KafkaError

STATIC: Final = Path(__file__).parent / "static"
KINDS: Final = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
MOST_STREAMS: Final = 200
MOST_TAILS: Final = 20
TAIL_QUEUE: Final = 8
QUESTION: Final = ("start", "at", "partition", "limit", "key", "value", "header", "path")

Endpoint = Callable[[Request], Awaitable[Response]]


class Console:
    def __init__(
        self, access: Access, reader: ClusterReader, changes: Changes, recordings: Recordings | None = None
    ) -> None:
        self._access = access
        self._reader = reader
        self._changes = changes
        self._poller = Poller(reader)
        self._requests = Requests(reader.clients)
        self._moves = MoveRequests(reader.clients, changes, reader.move_reader, reader.mover)
        self._recordings = Recordings(None) if recordings is None else recordings
        self._streams = 0
        self._tails = 0
        self._page = (STATIC / "index.html").read_text().replace("BASE", escape(access.base_path, quote=True))
        self._files = {path.name: path for path in STATIC.iterdir() if path.suffix in KINDS}

    def application(self) -> ASGIApp:
        requests, changes, moves = self._requests, self._changes, self._moves
        recordings = self._recordings
        topic = "/api/topics/{topic}"
        routes = [
            Route("/static/{name}", self._file),
            _route("/api/session", self._session),
            _route("/api/events", self._events, *QUESTION, "view", "topic", "group"),
            _route(f"{topic}/records", requests.records, *QUESTION),
            _route(f"{topic}/records", changes.produce, method="POST"),
            _route(f"{topic}/replay", changes.replay, method="POST"),
            _route(f"{topic}/key", requests.key_partition, "key"),
            _route(f"{topic}/whole", requests.whole, "partition", "offset", "part"),
            _route(f"{topic}/export", requests.export, *QUESTION, "format"),
            _route(f"{topic}/settings", requests.settings),
            _route(f"{topic}/settings", changes.alter_setting, method="POST"),
            _route(f"{topic}/placement", moves.placement, "partition"),
            _route("/api/topics", moves.topics),
            _route(f"{topic}/elect", changes.elect, method="POST"),
            _route("/api/group/preview", changes.preview_reset, "group", method="POST"),
            _route("/api/group/reset", changes.reset, "group", method="POST"),
            *(
                _route(f"/api/move/{each.__name__}", each, method="POST")
                for each in (moves.plan, moves.start, moves.cancel, moves.stop, moves.elect, moves.unthrottle)
            ),
            _route("/api/recordings", recordings.names),
            _route("/api/recordings/{name}", recordings.text),
            _route("/api/fault", changes.fault, method="POST"),
            Route("/api/{rest:path}", self._missing, methods=["GET", "POST"]),
            Route("/{rest:path}", self._shell),
        ]
        mounted = [Mount(self._access.base_path, app=Router(routes))] if self._access.base_path else routes
        return Guard(Starlette(routes=mounted, lifespan=self._lifespan), self._access)

    @contextlib.asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        self._poller.start()
        try:
            yield
        finally:
            await self._poller.stop()
            self._reader.close()
            self._reader.clients.close()

    async def _shell(self, request: Request) -> Response:
        """Every view is an address, and the same page draws them all."""
        return HTMLResponse(self._page)

    async def _missing(self, request: Request) -> Response:
        return problem(404, "there is nothing here")

    async def _file(self, request: Request) -> Response:
        path = self._files.get(request.path_params["name"])
        if path is None:
            return problem(404, "there is no such file")
        return FileResponse(path, media_type=KINDS[path.suffix], headers={"cache-control": "no-cache"})

    async def _session(self, request: Request) -> Response:
        return JSONResponse(
            {
                "token": self._access.change_token,
                "changes": self._changes.are_allowed,
                "faults": self._changes.has_faults,
                "bootstrap": self._reader.clients.bootstrap,
            }
        )

    async def _events(self, request: Request) -> Response:
        if self._streams >= MOST_STREAMS:
            return problem(503, "too many pages are open")
        query = request.query_params
        name, topic = query.get("view", ""), query.get("topic", "")
        view: View
        match name:
            case "overview" | "topics" | "groups" | "moves" | "pipelines":
                view = (name,)
            case "topic" if topic:
                view = (name, topic)
            case "group" if query.get("group"):
                view = (name, query["group"])
            case "lanes" if topic:
                try:
                    view = (name, topic, str(number(query.get("partition", ""), "partition", MOST_INT32)))
                except BadQuestion as wrong:
                    return problem(400, str(wrong))
            case "tail" if topic:
                return self._tailed(topic, request)
            case _:
                return problem(400, "there is no such view")
        return self._streamed(self._poller.watch(view))

    def _tailed(self, topic: str, request: Request) -> Response:
        try:
            question = Question.of(topic, request.query_params)
        except (BadQuestion, BadFilter) as wrong:
            return problem(400, str(wrong))
        if self._tails >= MOST_TAILS:
            return problem(503, f"{MOST_TAILS} pages follow a topic already")
        return self._streamed(self._tail(question))

    async def _tail(self, question: Question) -> AsyncIterator[str]:
        """A thread reads, and waits while the page does not keep up."""
        rows: queue.Queue[dict[str, Any]] = queue.Queue(TAIL_QUEUE)
        is_left = threading.Event()

        def put(found: dict[str, Any]) -> None:
            while not is_left.is_set():
                with contextlib.suppress(queue.Full):
                    rows.put(found, timeout=0.5)
                    return

        def work() -> None:
            try:
                with self._reader.clients.borrowed() as client:
                    for found in tail(client, question, lambda: not is_left.is_set()):
                        put({"records": found})
            except (KafkaError, ClientFailure, BadQuestion) as failure:
                put({"error": str(failure)})

        self._tails += 1
        thread = threading.Thread(target=work, name="console-tail", daemon=True)
        thread.start()
        try:
            while True:
                found = await asyncio.to_thread(_next, rows)
                if found is not None and (found.get("records") or "error" in found):
                    yield text_of(found)
                else:
                    yield ""
                if found is not None and "error" in found:
                    return
        finally:
            is_left.set()
            self._tails -= 1

    def _streamed(self, texts: AsyncIterator[str]) -> Response:
        async def events() -> AsyncIterator[str]:
            self._streams += 1
            try:
                yield ": begun\n\n"
                async for text in texts:
                    yield f"data: {text}\n\n" if text else ": there\n\n"
            finally:
                self._streams -= 1
                await texts.aclose()  # type: ignore[attr-defined]

        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        return StreamingResponse(events(), media_type="text/event-stream", headers=headers)


def _route(path: str, endpoint: Endpoint, *parameters: str, method: str = "GET") -> Route:
    """The endpoint, which gets the parameters that are named here and no other ones."""

    async def checked(request: Request) -> Response:
        try:
            check_parameters(request.query_params.multi_items(), parameters)
        except BadQuestion as wrong:
            return problem(400, str(wrong))
        topic = request.path_params.get("topic", request.query_params.get("topic", ""))
        if len(topic) > MOST_TOPIC_LETTERS:
            return problem(400, f"the name of a topic has {MOST_TOPIC_LETTERS} letters at most")
        return await endpoint(request)

    return Route(path, checked, methods=[method])


def _next(rows: queue.Queue[dict[str, Any]]) -> dict[str, Any] | None:
    try:
        return rows.get(timeout=1.0)
    except queue.Empty:
        return None
