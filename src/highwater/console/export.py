"""Records as a file: JSON lines or CSV. Bytes that are not text are in base64, and say so."""

from __future__ import annotations

import base64
import csv
import io
import json
from collections.abc import Iterable, Iterator
from typing import Final

from highwater.console.decoding import as_text, header_name, size_of
from highwater.console.filters import Filter
from highwater.kernel import Record

MOST_BYTES: Final = 64 << 20
COLUMNS: Final = ("partition", "offset", "timestamp", "key", "key_encoding", "value", "value_encoding", "headers")
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


def json_lines(records: Iterable[tuple[int, Record]]) -> Iterator[str]:
    for partition, record in records:
        yield json.dumps(_fields(partition, record), ensure_ascii=False) + "\n"


def comma_separated(records: Iterable[tuple[int, Record]]) -> Iterator[str]:
    yield _line(COLUMNS)
    for partition, record in records:
        fields = _fields(partition, record)
        fields["headers"] = json.dumps(fields["headers"], ensure_ascii=False)
        yield _line(["" if fields[name] is None else _harmless(str(fields[name])) for name in COLUMNS])


def chosen(records: Iterable[tuple[int, Record]], wanted: Filter, limit: int) -> Iterator[tuple[int, Record]]:
    """Those that match, up to a number and to MOST_BYTES."""
    count = size = 0
    for partition, record in records:
        if not wanted.matches(record):
            continue
        count, size = count + 1, size + size_of(record)
        if count > limit or size > MOST_BYTES:
            return
        yield partition, record


def _fields(partition: int, record: Record) -> dict[str, object]:
    key, key_encoding = _encoded(record.key)
    value, value_encoding = _encoded(record.value)
    return {
        "partition": partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": key,
        "key_encoding": key_encoding,
        "value": value,
        "value_encoding": value_encoding,
        "headers": [[header_name(name), *_encoded(content)] for name, content in record.headers],
    }


def _encoded(data: bytes | None) -> tuple[str | None, str]:
    if data is None:
        return None, "null"
    text = as_text(data)
    return (base64.b64encode(data).decode(), "base64") if text is None else (text, "text")


def _harmless(text: str) -> str:
    """A spreadsheet runs a cell that begins as a formula. A quote in front makes it text."""
    is_number = text.lstrip("-").isdecimal()
    return f"'{text}" if text.startswith(_FORMULA) and not is_number else text


def _line(fields: Iterable[str]) -> str:
    line = io.StringIO()
    csv.writer(line).writerow(fields)
    return line.getvalue()
