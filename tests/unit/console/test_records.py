"""Records as the pages show, filter and export them."""

from __future__ import annotations

import csv
import json

import pytest

from highwater.console.browsing import MOST_RECORDS, Question
from highwater.console.decoding import HEX_BYTES, SHOWN_BYTES, shown, shown_record
from highwater.console.export import chosen, comma_separated, json_lines
from highwater.console.filters import BadFilter, Filter, PathFilter
from highwater.console.given import BadQuestion
from highwater.kernel import Record

ORDER = b'{"id": 9007199254740993, "total": 12.50, "items": [{"sku": "a"}], "ok": true, "none": null}'


def record(
    value: bytes | None, key: bytes | None = None, headers: list[tuple[str, bytes | None]] | None = None
) -> Record:
    return Record(2**60, 1_700_000_000_000, key, value, headers or [])


def test_json_is_shown_in_its_own_text_so_that_no_digit_is_lost() -> None:
    assert shown(ORDER) == {"kind": "json", "text": ORDER.decode(), "size": len(ORDER), "cut": False}


def test_offsets_and_times_travel_as_texts() -> None:
    row = shown_record(3, record(ORDER))
    assert row["offset"] == str(2**60) and row["timestamp"] == "1700000000000" and row["partition"] == 3


@pytest.mark.parametrize(
    "data, kind", [(b"plain", "text"), (b"", "text"), (b"7", "text"), (b"{broken", "text"), (b'["a"]', "json"),
                   (b"\xff\xfe", "hex"), (b"a\x00b", "hex"), (b"\x1b[31m", "hex"), (b"a\tb\nc", "text")],
)  # fmt: skip
def test_bytes_are_json_text_or_hex(data: bytes, kind: str) -> None:
    found = shown(data)
    assert found is not None and found["kind"] == kind


def test_null_is_not_an_empty_value() -> None:
    assert shown(None) is None and shown(b"") is not None


def test_a_large_value_is_cut_and_says_how_large_it_is() -> None:
    text, raw = shown(b"a" * 10_000_000), shown(b"\xff" * 10_000_000)
    assert text is not None and text["cut"] and text["size"] == 10_000_000 and len(text["text"]) == SHOWN_BYTES
    assert raw is not None and raw["cut"] and len(raw["text"]) < 3 * HEX_BYTES


def test_a_value_that_is_cut_within_a_letter_is_still_text() -> None:
    found = shown("é".encode() * SHOWN_BYTES, SHOWN_BYTES - 1)
    assert found is not None and found["kind"] == "text" and set(found["text"]) == {"é"}


def test_json_that_is_nested_too_deeply_to_parse_is_text() -> None:
    found = shown(b"[" * 5000 + b"]" * 5000)
    assert found is not None and found["kind"] == "text"


def test_the_name_of_a_header_that_is_not_utf8_is_shown_with_a_sign_for_it() -> None:
    row = shown_record(0, record(b"v", headers=[("a\udcff", None)]))
    assert row["headers"] == [{"name": "a\N{REPLACEMENT CHARACTER}", "value": None}]
    json.dumps(row, ensure_ascii=False).encode()


@pytest.mark.parametrize(
    "path", ["id = 9007199254740993", "$.id = 9007199254740993", "total = 12.5", "total > 12", "total <= 12.50",
             'items[0].sku = "a"', "items[0].sku = a", "ok = true", "none = null", "id != 1", "id >= 9007199254740993"],
)  # fmt: skip
def test_a_path_finds_a_value_and_compares_it(path: str) -> None:
    assert PathFilter.of(path).matches(ORDER)


@pytest.mark.parametrize(
    "path", ["id = 9007199254740992", "id > 9007199254740993", "items[1].sku = a", "items.sku = a", "sku = a",
             "ok = false", "ok > 0", "items[0].sku > 1"],
)  # fmt: skip
def test_a_path_that_leads_nowhere_or_compares_otherwise_does_not_match(path: str) -> None:
    assert not PathFilter.of(path).matches(ORDER)


@pytest.mark.parametrize("value", [None, b"", b"\xff", b"{", b"7"])
def test_a_value_that_is_no_json_matches_no_path(value: bytes | None) -> None:
    assert not PathFilter.of("id = 7").matches(value)


@pytest.mark.parametrize("text", ["id", "= 7", "id ~ 7", "__import__('os')"])
def test_what_is_no_path_with_a_comparison_is_refused(text: str) -> None:
    with pytest.raises(BadFilter, match="has the form"):
        PathFilter.of(text)


def test_texts_are_looked_for_in_key_value_and_headers_and_all_must_match() -> None:
    found = record(b"a shipped order", b"customer-7", [("source", b"web")])
    assert Filter.of({"key": "7", "value": "shipped", "header": "source=web"}).matches(found)
    assert Filter.of({}).is_empty and Filter.of({}).matches(found)
    for wrong in ({"key": "8"}, {"value": "lost"}, {"header": "source=shop"}, {"key": "7", "value": "lost"}):
        assert not Filter.of(wrong).matches(found)


def test_a_filter_of_thousands_of_letters_is_refused() -> None:
    with pytest.raises(BadFilter, match="200"):
        Filter.of({"value": "a" * 201})


def test_a_question_bounds_how_many_records_it_asks_for() -> None:
    assert Question.of("t", {"limit": "999999"}).limit == MOST_RECORDS
    assert Question.of("t", {}).partitions is None


@pytest.mark.parametrize(
    "query", [{"start": "never"}, {"start": "offset", "at": "7"}, {"limit": "-1"}, {"partition": "x"}, {"at": "9" * 20}]
)
def test_a_question_that_means_nothing_is_refused(query: dict[str, str]) -> None:
    with pytest.raises(BadQuestion):
        Question.of("t", query)


def test_json_lines_hold_each_record_with_how_its_bytes_are_written() -> None:
    rows = [json.loads(line) for line in json_lines([(1, record(ORDER, b"\xff"))])]
    assert [(row["offset"], row["key"], row["key_encoding"]) for row in rows] == [(2**60, "/w==", "base64")]
    assert rows[0]["value"] == ORDER.decode() and rows[0]["value_encoding"] == "text"


def test_a_cell_that_a_spreadsheet_would_run_begins_with_a_quote_and_a_number_does_not() -> None:
    lines = "".join(comma_separated([(0, record(b"=cmd()", b"-5")), (0, record(b'a,"b"\nc'))]))
    rows = list(csv.DictReader(lines.splitlines(keepends=True)))
    assert rows[0]["value"] == "'=cmd()" and rows[0]["key"] == "-5"
    assert rows[1]["value"] == 'a,"b"\nc' and rows[1]["key_encoding"] == "null"


def test_an_export_holds_what_matches_up_to_its_limit() -> None:
    records = [(0, record(b"yes")), (0, record(b"no")), (0, record(b"yes")), (0, record(b"yes"))]
    assert len(list(chosen(records, Filter.of({"value": "yes"}), 2))) == 2
