from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from highwater.cli.line_reader import LineReader, LineRecord, lines

KEYS = {"parse.key": "true"}
HEADERS = {"parse.headers": "TRUE "}


@pytest.mark.parametrize(
    ("properties", "line", "record"),
    [
        ({}, "a\tb", LineRecord(None, b"a\tb", [])),
        (KEYS, "a\tb\tc", LineRecord(b"a", b"b\tc", [])),
        (KEYS, "\t", LineRecord(b"", b"", [])),
        ({**KEYS, "key.separator": "::"}, "a::b", LineRecord(b"a", b"b", [])),
        (HEADERS, "h:1,i:2\tv", LineRecord(None, b"v", [("h", b"1"), ("i", b"2")])),
        ({**HEADERS, **KEYS}, "h:1:2\tk\tv", LineRecord(b"k", b"v", [("h", b"1:2")])),
        (
            {**HEADERS, "headers.separator": "[;|]"},
            "a:1;b:2|c:3\tv",
            LineRecord(None, b"v", [("a", b"1"), ("b", b"2"), ("c", b"3")]),
        ),
        (
            {**HEADERS, "headers.delimiter": "!", "headers.key.separator": "="},
            "h=1!v",
            LineRecord(None, b"v", [("h", b"1")]),
        ),
        ({**HEADERS, **KEYS, "null.marker": "-"}, "-\t-\t-", LineRecord(None, None, [])),
        ({**HEADERS, "null.marker": "-"}, "h:-\tv", LineRecord(None, b"v", [("h", None)])),
        ({**KEYS, "ignore.error": "true"}, "no key", LineRecord(None, b"no key", [])),
        ({**HEADERS, "ignore.error": "true"}, "h\tv", LineRecord(None, b"v", [("h", None)])),
    ],
)
def test_a_line_becomes_a_record(properties: dict[str, str], line: str, record: LineRecord) -> None:
    assert LineReader(properties).parse(line) == record


@pytest.mark.parametrize(
    ("properties", "line", "reason"),
    [
        (KEYS, "abc", "No key separator found on line number 2: 'abc'"),
        (HEADERS, "abc", "No headers delimiter found on line number 2: 'abc'"),
        (HEADERS, "h\tv", "No header key separator found in pair 'h' on line number 2"),
        ({**HEADERS, "null.marker": "-"}, "-:1\tv", "Header keys should not be equal to the null marker '-'"),
    ],
)
def test_a_line_that_cannot_be_cut_is_named_with_its_number(properties: dict[str, str], line: str, reason: str) -> None:
    reader = LineReader(properties)
    reader.parse("h:1\tk\tv")
    with pytest.raises(ValueError) as raised:
        reader.parse(line)
    assert reason in str(raised.value)


@pytest.mark.parametrize(
    "properties",
    [
        {"headers.delimiter": ","},
        {"headers.delimiter": ":"},
        {"headers.separator": ":"},
        {"null.marker": "\t"},
        {"null.marker": ","},
        {"null.marker": ":"},
    ],
)
def test_separators_must_differ(properties: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="may not be equal"):
        LineReader(properties)


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


def test_lines_are_given_out_when_whole_and_a_pause_is_reported(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    source = lines(reading, 0.01)
    os.write(writing, b"one\r\ntw")
    assert next(source) == "one"
    assert next(source) is None
    os.write(writing, "o\n\u00e4".encode()[:-1])
    assert next(source) == "two"
    os.write(writing, "\u00e4".encode()[1:] + b"\xff\n\nlast")
    assert [next(source), next(source)] == ["\u00e4\ufffd", ""]
    assert next(source) is None


def test_the_last_line_needs_no_end() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"a\nb")
    os.close(writing)
    assert list(lines(reading, 1)) == ["a", "b"]
    os.close(reading)
