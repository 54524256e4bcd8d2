"""Bytes of records as a page shows them: as JSON in its own text, as text, or in hex. Nothing is parsed and written
anew, so a number such as 9007199254740993 stays as it is."""

from __future__ import annotations

import json
from typing import Any, Final

from highwater.kernel import Record

SHOWN_BYTES: Final = 16 << 10
"""How much of a key or a value is sent to the page. The rest is fetched on its own, as a file."""
HEX_BYTES: Final = 2 << 10
HEADERS_SHOWN: Final = 64


def shown(data: bytes | None, most: int = SHOWN_BYTES) -> dict[str, Any] | None:
    """None for null. Otherwise the kind (json, text or hex), the text, and the size of the whole."""
    if data is None:
        return None
    size = len(data)
    text = as_text(data)
    if text is None:
        return {"kind": "hex", "text": data[: min(most, HEX_BYTES)].hex(" "), "size": size, "cut": size > HEX_BYTES}
    cut = size > most
    kind = "json" if not cut and is_json(text) else "text"
    return {"kind": kind, "text": data[:most].decode(errors="ignore") if cut else text, "size": size, "cut": cut}


def as_text(data: bytes) -> str | None:
    """None unless it is UTF-8 without control characters other than tabs and ends of lines."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    is_plain = all(each >= " " or each in "\t\n\r" for each in text) and "\x7f" not in text
    return text if is_plain else None


def is_json(text: str) -> bool:
    """Objects and lists: a bare number or word is shown as text."""
    if text.lstrip()[:1] not in ("{", "["):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def shown_record(partition: int, record: Record, most: int = SHOWN_BYTES) -> dict[str, Any]:
    return {
        "partition": partition,
        "offset": str(record.offset),
        "timestamp": str(record.timestamp),
        "key": shown(record.key, most),
        "value": shown(record.value, most),
        "headers": [
            {"name": header_name(name), "value": shown(value, 1 << 10)}
            for name, value in record.headers[:HEADERS_SHOWN]
        ],
        "more_headers": max(len(record.headers) - HEADERS_SHOWN, 0),
    }


def size_of(record: Record) -> int:
    headers = sum(len(name) + len(value or b"") for name, value in record.headers)
    return len(record.key or b"") + len(record.value or b"") + headers


def header_name(name: str) -> str:
    """Bytes that are not UTF-8 arrive as surrogates, which no page can show."""
    return name.encode(errors="surrogateescape").decode(errors="replace")
