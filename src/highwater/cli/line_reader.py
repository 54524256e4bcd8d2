"""Lines of standard input as records: what kafka-console-producer.sh calls its line reader."""

from __future__ import annotations

import codecs
import io
import os
import re
import select
from collections.abc import Iterator, Mapping
from typing import NamedTuple

READ_BYTES = 64 << 10


class LineRecord(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


PROPERTIES = (
    *("parse.key", "parse.headers", "key.separator", "ignore.error", "null.marker"),
    *("headers.delimiter", "headers.separator", "headers.key.separator"),
)


class LineReader:
    """Splits a line into headers, key and value as the reader properties say. Raises ValueError, as `parse` does."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self.parse_key = _is_true(properties, "parse.key")
        self.parse_headers = _is_true(properties, "parse.headers")
        self.ignore_error = _is_true(properties, "ignore.error")
        self.key_separator = properties.get("key.separator", "\t")
        self.headers_delimiter = properties.get("headers.delimiter", "\t")
        self.headers_separator = properties.get("headers.separator", ",")
        self.headers_key_separator = properties.get("headers.key.separator", ":")
        self.null_marker = properties.get("null.marker")
        self._line_number = 0
        self._check_distinct()
        self._between_headers = re.compile(self.headers_separator)

    def _check_distinct(self) -> None:
        named = {
            "headers.delimiter": self.headers_delimiter,
            "headers.separator": self.headers_separator,
            "headers.key.separator": self.headers_key_separator,
        }
        for one, other in (
            ("headers.delimiter", "headers.separator"),
            ("headers.delimiter", "headers.key.separator"),
            ("headers.separator", "headers.key.separator"),
        ):
            if named[one] == named[other]:
                raise ValueError(f"{one} and {other} may not be equal")
        for name, text in (("key.separator", self.key_separator), *named.items()):
            if text == self.null_marker:
                raise ValueError(f"null.marker and {name} may not be equal")

    def parse(self, line: str) -> LineRecord:
        self._line_number += 1
        headers, rest = self._cut(self.parse_headers, line, line, self.headers_delimiter, "headers delimiter")
        key, value = self._cut(self.parse_key, line, rest, self.key_separator, "key separator")
        return LineRecord(
            None if key is None else self._bytes(key),
            self._bytes(value),
            [] if headers is None or headers == self.null_marker else self._headers(headers),
        )

    def _cut(self, enabled: bool, line: str, rest: str, separator: str, what: str) -> tuple[str | None, str]:
        if not enabled:
            return None, rest
        before, found, after = rest.partition(separator)
        if found:
            return before, after
        if self.ignore_error:
            return None, rest
        raise ValueError(f"No {what} found on line number {self._line_number}: '{line}'")

    def _headers(self, text: str) -> list[tuple[str, bytes | None]]:
        parts = self._between_headers.split(text)
        while len(parts) > 1 and not parts[-1]:
            parts.pop()
        return [self._header(part) for part in parts]

    def _header(self, pair: str) -> tuple[str, bytes | None]:
        key, found, value = pair.partition(self.headers_key_separator)
        if not found:
            if self.ignore_error:
                return pair, None
            raise ValueError(f"No header key separator found in pair '{pair}' on line number {self._line_number}")
        if key == self.null_marker:
            raise ValueError(f"Header keys should not be equal to the null marker '{key}' as they can't be null")
        return key, self._bytes(value)

    def _bytes(self, text: str) -> bytes | None:
        return None if text == self.null_marker else text.encode("utf-8", "replace")


def lines(descriptor: int, linger: float, end: int | None = None) -> Iterator[str | None]:
    """Lines as they come, and None whenever none has come for `linger` seconds: then what waits should be sent.

    They end with the input, or once there is something to read from the descriptor `end`.
    """
    watched = [descriptor] if end is None else [descriptor, end]
    decoder = io.IncrementalNewlineDecoder(codecs.getincrementaldecoder("utf-8")("replace"), translate=True)
    pending = ""
    idle = False
    while True:
        ready, _, _ = select.select(watched, [], [], None if idle else linger)
        if end in ready:
            return
        if not ready:
            idle = True
            yield None
            continue
        idle = False
        chunk = os.read(descriptor, READ_BYTES)
        *whole, pending = (pending + decoder.decode(chunk, final=not chunk)).split("\n")
        yield from whole
        if not chunk:
            if pending:
                yield pending
            return


def _is_true(properties: Mapping[str, str], name: str) -> bool:
    return properties.get(name, "").strip().lower() == "true"
