"""What a page may ask for, besides the streams: records, settings and files. Each runs in a thread of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, islice
from typing import Any, Final

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from highwater.client import Admin, ClientFailure, ConfigSource, ResourceType
from highwater.console import browsing
from highwater.console.browsing import Question
from highwater.console.clients import Clients
from highwater.console.export import chosen, comma_separated, json_lines
from highwater.console.filters import BadFilter
from highwater.console.given import MOST_INT32, BadQuestion, number
from highwater.errors import Code, KafkaError
from highwater.model import TopicPartition

EXPORT_SECONDS: Final = 60.0
MOST_EXPORTED: Final = 100_000
FORMATS: Final = {"jsonl": ("application/x-ndjson", json_lines), "csv": ("text/csv", comma_separated)}
STATUS: Final = {
    404: (Code.UNKNOWN_TOPIC_OR_PARTITION, Code.UNKNOWN_TOPIC_ID, Code.GROUP_ID_NOT_FOUND),
    403: (
        Code.TOPIC_AUTHORIZATION_FAILED, Code.GROUP_AUTHORIZATION_FAILED, Code.CLUSTER_AUTHORIZATION_FAILED,
        Code.POLICY_VIOLATION,
    ),
    400: (
        Code.INVALID_TOPIC_EXCEPTION, Code.INVALID_CONFIG, Code.INVALID_REQUEST, Code.INVALID_GROUP_ID,
        Code.INVALID_REPLICA_ASSIGNMENT, Code.INVALID_RECORD, Code.MESSAGE_TOO_LARGE, Code.RECORD_LIST_TOO_LARGE,
        Code.OFFSET_OUT_OF_RANGE,
    ),
}  # fmt: skip
"""By what the cluster answered. Anything else is a failure of the cluster."""


async def answered(work: Callable[[], dict[str, Any] | Response]) -> Response:
    """What the work returns, or its failure as a status and a reason."""
    try:
        found = await run_in_threadpool(work)
        return found if isinstance(found, Response) else JSONResponse(found)
    except (BadQuestion, BadFilter) as wrong:
        return problem(400, str(wrong))
    except KafkaError as error:
        status = next((status for status, codes in STATUS.items() if error.code in codes), 502)
        return problem(status, f"{error.code.name}: {error}")
    except ClientFailure as failure:
        return problem(504, str(failure))


def problem(status: int, reason: str) -> Response:
    """One line."""
    return JSONResponse({"error": " ".join(reason.split())}, status_code=status)


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

        def work() -> Response:
            place = TopicPartition(name, number(query.get("partition", ""), "partition", MOST_INT32))
            offset = number(query.get("offset", ""), "offset")
            with self._clients.borrowed() as client:
                data = browsing.whole(client, place, offset, query.get("part") == "key")
            headers = _attached(f"{_safe(name)}-{place.partition}-{offset}.bin")
            return Response(data or b"", media_type="application/octet-stream", headers=headers)

        return await answered(work)

    async def export(self, request: Request) -> Response:
        name, query = request.path_params["topic"], request.query_params

        def work() -> Response:
            kind = FORMATS.get(query.get("format", ""))
            if kind is None:
                raise BadQuestion("format is jsonl or csv")
            question = Question.of(name, {**query, "limit": "1"})
            media_type, write = kind
            lines = self._lines(question, write)
            next(lines)
            headers = _attached(f"{_safe(name)}.{query['format']}")
            return StreamingResponse(lines, media_type=media_type, headers=headers)

        return await answered(work)

    def _lines(self, question: Question, write: Callable[..., Iterator[str]]) -> Iterator[str]:
        """After the first text, which is empty, the records can be read. A topic that is missing is an answer, and no
        file that is cut off."""
        with self._clients.borrowed() as client:
            records = chosen(browsing.scan(client, question, EXPORT_SECONDS), question.filter, MOST_EXPORTED)
            first = list(islice(records, 1))
            yield ""
            yield from write(chain(first, records))


def _safe(name: str) -> str:
    """As a part of a file's name, and of a header."""
    return "".join(each if each.isascii() and (each.isalnum() or each in "._-") else "_" for each in name)


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
