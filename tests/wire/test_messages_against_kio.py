"""The generated messages judged by kio, an independent implementation of the protocol."""

from __future__ import annotations

import dataclasses
import io
import types
import typing
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest
from kio.index import UnknownEntity, load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer
from kio.static import primitive

from highwater.wire.codec import Message
from highwater.wire.messages.index import REQUESTS, RESPONSES, load
from tests.wire.specimens import TEXTS, specimen


def shared_schemas(key: int) -> Iterator[tuple[type[Message], int, Any]]:
    """Every version of the request and the response of one API that both sides know."""
    for names, load_schema in ((REQUESTS, load_request_schema), (RESPONSES, load_response_schema)):
        message = load(names[key])
        for version in range(message.VERSIONS[0], message.VERSIONS[1] + 1):
            try:
                yield message, version, load_schema(key, version)
            except UnknownEntity:
                continue


def written_by_kio(schema: Any, entity: object) -> bytes:
    buffer = io.BytesIO()
    entity_writer(schema)(buffer, entity)
    return buffer.getvalue()


def built_for_kio(annotation: Any, random: Random) -> Any:
    """A random value of one of kio's types."""
    if isinstance(annotation, types.UnionType | typing._UnionGenericAlias):  # type: ignore[attr-defined]
        return built_for_kio(random.choice(typing.get_args(annotation)), random)
    if typing.get_origin(annotation) is tuple:
        return tuple(built_for_kio(typing.get_args(annotation)[0], random) for _ in range(random.randrange(3)))
    if isinstance(annotation, type) and dataclasses.is_dataclass(annotation):
        fields = {field.name: built_for_kio(field.type, random) for field in dataclasses.fields(annotation)}
        return annotation(**fields)
    if annotation is types.NoneType:
        return None
    return built_primitive(annotation, random)


def built_primitive(kind: type, random: Random) -> Any:
    if issubclass(kind, bool):
        return random.random() < 0.5
    if issubclass(kind, ErrorCode):
        return random.choice(list(ErrorCode))
    if issubclass(kind, primitive.Interval):
        return kind(random.randint(kind.__low__, kind.__high__))
    if issubclass(kind, str):
        return kind(random.choice(TEXTS))
    if issubclass(kind, bytes):
        return random.randbytes(random.choice((0, 3, 150)))
    if issubclass(kind, float):
        return random.uniform(-1e6, 1e6)
    if issubclass(kind, timedelta):
        return timedelta(milliseconds=random.randrange(1 << 30))
    if issubclass(kind, datetime):
        return datetime.fromtimestamp(random.randrange(1 << 31), UTC)
    if issubclass(kind, uuid.UUID):
        return uuid.UUID(bytes=random.randbytes(16))
    raise AssertionError(kind)


@pytest.mark.parametrize("key", sorted(REQUESTS))
def test_kio_reads_what_we_write_and_writes_the_same_bytes(key: int) -> None:
    random = Random(key)
    for message, version, schema in shared_schemas(key):
        for _ in range(8):
            ours = specimen(message, version, random, tame=True, foreign=False)
            raw = ours.encode(version)
            theirs, read = entity_reader(schema)(raw, 0)
            assert read == len(raw), (message, version)
            assert written_by_kio(schema, theirs) == raw, (message, version, ours)


@pytest.mark.parametrize("key", sorted(REQUESTS))
def test_we_read_what_kio_writes_and_write_the_same_bytes(key: int) -> None:
    random = Random(key)
    for message, version, schema in shared_schemas(key):
        for _ in range(8):
            raw = written_by_kio(schema, built_for_kio(schema, random))
            assert message.decode(raw, version).encode(version) == raw, (message, version, raw)


def test_kio_knows_nearly_every_version_we_have() -> None:
    shared = sum(1 for key in REQUESTS for _ in shared_schemas(key))
    ours = sum(
        load(name).VERSIONS[1] - load(name).VERSIONS[0] + 1 for name in (*REQUESTS.values(), *RESPONSES.values())
    )
    assert shared >= 0.95 * ours, f"{shared} of {ours}"
