"""What a page may ask for, besides the streams: records, settings and files. Each runs in a thread of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from highwater.client import Admin, ClientFailure, ConfigSource, ResourceType
from highwater.console import browsing
from highwater.console.browsing import BadQuestion, Question
from highwater.console.clients import Clients
from highwater.console.export import chosen, comma_separated, json_lines
from highwater.console.filters import BadFilter
from highwater.errors import Code, KafkaError
from highwater.model import TopicPartition

EXPORT_SECONDS: Final = 60.0
MOST_EXPORTED: Final = 100_000
FORMATS: Final = {"jsonl": ("application/x-ndjson", json_lines), "csv": ("text/csv", comma_separated)}
NOT_FOUND: Final = (Code.UNKNOWN_TOPIC_OR_PARTITION, Code.UNKNOWN_TOPIC_ID, Code.GROUP_ID_NOT_FOUND)


async def answered(work: Callable[[], dict[str, Any]]) -> Response:
    """What the work returns, or its failure as a status and a reason."""
    try:
        return JSONResponse(await run_in_threadpool(work))
    except (BadQuestion, BadFilter) as wrong:
        return problem(400, str(wrong))
    except KafkaError as error:
        return problem(404 if error.code in NOT_FOUND else 502, f"{error.code.name}: {error}")
    except ClientFailure as failure:
        return problem(504, str(failure))


def problem(status: int, reason: str) -> Response:
    return JSONResponse({"error": reason}, status_code=status)


class Requests:
    def __init__(self, clients: Clients) -> None:
        self._clients = clients

    async def records(self, request: Request) -> Response:
        def work() -> dict[str, Any]:
            question = Question.of(request.path_params["topic"], request.query_params)
            with self._clients.borrowed() as client:
                return browsing.read(client, question)

        return await answered(work)

    async def key_partition(self, request: Request) -> Response:
        def work() -> dict[str, Any]:
            with self._clients.borrowed() as client:
                name, key = request.path_params["topic"], request.query_params.get("key", "")
                return {"partition": browsing.key_partition(client, name, key)}

        return await answered(work)

    async def settings(self, request: Request) -> Response:
        """Of a topic: each value with its source, and the value that it would have without the topic's own."""
        name = request.path_params["topic"]

        def work() -> dict[str, Any]:
            with self._clients.borrowed() as client:
                found = Admin(client).describe_configs(ResourceType.TOPIC, [name], synonyms=True).get(name, [])
                return {"settings": [_setting(row) for row in sorted(found, key=lambda row: row.name)]}

        return await answered(work)

    async def whole(self, request: Request) -> Response:
        """The bytes of one key or value, as a file: no browser shows or runs it."""
        name, query = request.path_params["topic"], request.query_params
        texts = (query.get("partition", ""), query.get("offset", ""))
        if not all(text.isascii() and text.isdecimal() and len(text) <= 19 for text in texts):
            return problem(400, "name a partition and an offset")
        place, offset = TopicPartition(name, int(texts[0])), int(texts[1])

        def work() -> bytes | None:
            with self._clients.borrowed() as client:
                return browsing.whole(client, place, offset, query.get("part") == "key")

        try:
            data = await run_in_threadpool(work)
        except BadQuestion as wrong:
            return problem(404, str(wrong))
        except (KafkaError, ClientFailure) as failure:
            return problem(502, str(failure))
        return Response(data or b"", media_type="application/octet-stream", headers=_attached(f"{place}-{offset}.bin"))

    async def export(self, request: Request) -> Response:
        name, query = request.path_params["topic"], request.query_params
        kind = FORMATS.get(query.get("format", ""))
        if kind is None:
            return problem(400, "format is jsonl or csv")
        try:
            question = Question.of(name, {**query, "limit": "1"})
        except (BadQuestion, BadFilter) as wrong:
            return problem(400, str(wrong))
        media_type, write = kind

        def lines() -> Iterator[str]:
            with self._clients.borrowed() as client:
                scanned = browsing.scan(client, question, EXPORT_SECONDS)
                yield from write(chosen(scanned, question.filter, MOST_EXPORTED))

        safe = "".join(each if each.isalnum() or each in "._-" else "_" for each in name)
        return StreamingResponse(lines(), media_type=media_type, headers=_attached(f"{safe}.{query['format']}"))


def _attached(name: str) -> dict[str, str]:
    return {"content-disposition": f'attachment; filename="{name}"'}


def _setting(row: Any) -> dict[str, Any]:
    inherited = next((each for each in row.synonyms if each.source != ConfigSource.DYNAMIC_TOPIC_CONFIG), None)
    return {
        "name": row.name,
        "value": row.value,
        "source": ConfigSource(row.config_source).name,
        "is_own": row.config_source == ConfigSource.DYNAMIC_TOPIC_CONFIG,
        "read_only": row.read_only,
        "default": None if inherited is None else inherited.value,
    }
