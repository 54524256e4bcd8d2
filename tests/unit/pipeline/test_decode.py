"""Typed rows out of JSON values: json.loads is the oracle of what they hold, and no row is lost, shifted or made up."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.pipeline.decode import Decoded, Decoding, JsonDecoder, NullValues, Origin, RawDecoder, parse_schema
from highwater.pipeline.decode.json_values import FEW
from tests.unit.pipeline.json_rows import RICH, anything, as_json, finite, rich, text

pytestmark = pytest.mark.slow

ORIGIN = Origin("orders", 3)
FLAT = "id BIGINT NOT NULL, name STRING, ok BOOLEAN, amount DOUBLE, small TINYINT"


def batch_of(values: list[bytes | None]) -> pa.RecordBatch:
    """As the kernel makes them: the offset of a record is its index here."""
    count = len(values)
    return pa.RecordBatch.from_pydict(
        {
            "key": pa.array([b"k%d" % index for index in range(count)], pa.binary()),
            "value": pa.array(values, pa.binary()),
            "offset": pa.array(range(count), pa.int64()),
            "timestamp": pa.array([index * 1_000_000 for index in range(count)], pa.timestamp("us", tz="UTC")),
        }
    )


def decoded(ddl: str, values: list[bytes | None], null_values: NullValues = NullValues.ROW) -> Decoded:
    return JsonDecoder(parse_schema(ddl), keep=("offset",), null_values=null_values).decode(batch_of(values), ORIGIN)


def reasons(outcome: Decoded) -> dict[int, str]:
    return dict(zip(outcome.bad["offset"].to_pylist(), outcome.bad["reason"].to_pylist(), strict=True))


def rows(outcome: Decoded) -> dict[int, dict[str, Any]]:
    return {row.pop("_offset"): row for row in outcome.rows.to_pylist()}


def fits_flat(value: Any) -> bool:
    """By json.loads: whether a value is a row of FLAT."""
    kinds = {"name": str, "ok": bool, "amount": (int, float), "small": int}
    if not isinstance(value, dict) or not is_whole(value.get("id"), 64):
        return False
    for name, kind in kinds.items():
        found = value.get(name)
        if found is not None and (not isinstance(found, kind) or (isinstance(found, bool) and name != "ok")):
            return False
    return value.get("small") is None or is_whole(value["small"], 8)


def is_whole(value: Any, bits: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -(2 ** (bits - 1)) <= value < 2 ** (bits - 1)


nearly = st.fixed_dictionaries(
    {"id": st.integers(-(2**65), 2**65) | st.integers(0, 99) | anything},
    optional={
        "name": text | anything,
        "ok": st.booleans() | anything,
        "amount": finite | st.integers(-(10**6), 10**6) | anything,
        "small": st.integers(-200, 200) | anything,
        "more": anything,
    },
)
"""Objects that fit FLAT, or do not by one field or several."""
layout = st.sampled_from([None, 1, 4])
"""Pretty-printed values have newlines inside."""
documents = st.builds(lambda value, indent: json.dumps(value, indent=indent).encode(), nearly | anything, layout)
broken = st.sampled_from(
    [
        b"",
        b" ",
        b"{",
        b"}",
        b'{"id":1',
        b'{"id":1}{"id":2}',
        b'{"id":1}\n{"id":2}',
        b'{"a":"}',
        b'{", "id":1}',
        b'{"id":1}\0{}',
    ]
)


@given(st.lists(documents | broken | st.binary(max_size=8), max_size=2 * FEW), st.integers(0, 2 * FEW))
@settings(max_examples=150, deadline=None)
def test_exactly_the_values_that_json_loads_finds_fitting_become_rows(values: list[bytes], padding: int) -> None:
    """Among good rows, too, which is where Arrow reads them together."""
    values = [b'{"id": 0}'] * padding + values
    outcome = decoded(FLAT, list(values))
    found, bad = rows(outcome), reasons(outcome)
    assert list(found) == sorted(found)
    assert sorted([*found, *bad]) == list(range(len(values)))
    for index, value in enumerate(values):
        try:
            expected = json.loads(value.decode())
        except ValueError:
            assert bad[index].startswith("not JSON"), value
            continue
        assert (index in found) == fits_flat(expected), (value, bad.get(index))
        if index in found:
            names = ("id", "name", "ok", "amount", "small")
            assert found[index] == {name: expected.get(name) for name in names}


@given(st.lists(rich, min_size=1, max_size=12), st.booleans())
@settings(max_examples=100, deadline=None)
def test_typed_values_come_back_as_they_were_written(wanted: list[dict[str, Any]], many: bool) -> None:
    """Whether Arrow reads them at once, or they are read by hand because some among them do not fit."""
    values = [as_json(row).encode() for row in wanted]
    outcome = decoded(RICH, [*values, *([b"{"] if many else [])])
    assert list(rows(outcome).values()) == wanted
    assert len(reasons(outcome)) == many


@pytest.mark.parametrize(("precision", "scale"), [(5, 2), (18, 0), (19, 4), (38, 0), (38, 10), (10, 10)])
def test_a_decimal_has_no_more_digits_than_its_type(precision: int, scale: int) -> None:
    largest = 10**precision - 1
    numbers = [sign * (largest + beyond) for sign in (1, -1) for beyond in (0, 1)]
    exact = Context(prec=60)
    values = [f'{{"d": {Decimal(number).scaleb(-scale, exact):f}}}' for number in numbers]
    outcome = decoded(f"d DECIMAL({precision}, {scale})", [value.encode() for value in values])
    assert sorted(reasons(outcome)) == [1, 3]
    fit = [Decimal(number).scaleb(-scale, exact) for number in (largest, -largest)]
    assert [row["d"] for row in rows(outcome).values()] == fit


@pytest.mark.parametrize("neighbours", [0, 5 * FEW])
@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"nonsense", "not JSON: Expecting value at character 0"),
        (b'{"id": 1', "not JSON: Expecting ',' delimiter at character 8"),
        (b'{"id": 1} {"id": 2}', "not JSON: Extra data at character 10"),
        (b'{"id": "\xff"}', "not JSON: byte 8 is not UTF-8"),
        (b"[1]", "wrong type of the value: expected an object, found an array"),
        (b"null", "wrong type of the value: expected an object, found null"),
        (b'{"name": "x"}', "required field id is missing or null"),
        (b'{"id": null}', "required field id is missing or null"),
        (b'{"id": "1"}', 'wrong type of field id: expected a whole number, found "1"'),
        (b'{"id": 1.5}', "wrong type of field id: expected a whole number, found 1.5"),
        (b'{"id": true}', "wrong type of field id: expected a whole number, found true"),
        (b'{"id": 9223372036854775808}', "field id is out of range for int64: 9223372036854775808"),
        (b'{"id": 1, "small": 128}', "field small is out of range for int8: 128"),
        (b'{"id": 1, "name": 5}', "wrong type of field name: expected a string, found 5"),
        (b'{"id": 1, "name": {"a": 1}}', "wrong type of field name: expected a string, found an object"),
        (b'{"id": 1, "ok": "true"}', 'wrong type of field ok: expected a boolean, found "true"'),
        (b'{"id": 1, "amount": 1e400}', "field amount is out of range for double: 1E+400"),
        (b'{"id": 1, "id": 2}', "field id is given twice"),
        (b'{"id": 1, "name": "\\ud800"}', "field name holds half of a surrogate pair"),
    ],
)
def test_every_misfit_has_its_reason_alone_and_in_company(value: bytes, reason: str, neighbours: int) -> None:
    good = [b'{"id": %d}' % index for index in range(neighbours)]
    outcome = decoded(FLAT, [*good, value, *good])
    assert reasons(outcome) == {neighbours: reason}
    assert [row["id"] for row in rows(outcome).values()] == [*range(neighbours), *range(neighbours)]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b'{"day": "2024-02-30"}', 'field day is not a date (YYYY-MM-DD): "2024-02-30"'),
        (b'{"day": 19000}', "wrong type of field day: expected a date in a string, found 19000"),
        (b'{"at": "yesterday"}', 'field at is not a timestamp (ISO 8601): "yesterday"'),
        (b'{"at": "2024-13-01T00:00:00Z"}', "field at is not a timestamp"),
        (b'{"at": "0000-01-01"}', "field at is not a timestamp"),
        (b'{"at": "9999-12-31T23:59:59-01:00"}', "field at is not a timestamp"),
        (b'{"day": "0000-12-31"}', "field day is not a date"),
        (b'{"price": 1.2345}', "field price does not fit decimal(12, 3): 1.2345"),
        (b'{"price": 1234567890}', "field price is out of range for decimal(12, 3): 1234567890"),
        (b'{"price": "1_0"}', 'field price is not a decimal number: "1_0"'),
        (b'{"ratio": 1e39}', "field ratio is out of range for float: 1E+39"),
        (b'{"who": {}}', "required field who.name is missing or null"),
        (b'{"who": {"name": 1}}', "wrong type of field who.name: expected a string, found 1"),
        (b'{"tags": ["a", 1]}', "wrong type of field tags[1]: expected a string, found 1"),
        (b'{"lines": [{"sku": 1}, {}]}', "required field lines[1].sku is missing or null"),
        (b'{"lines": {}}', "wrong type of field lines: expected an array, found an object"),
    ],
)
def test_misfits_of_richer_types_are_named_with_their_path(value: bytes, reason: str) -> None:
    good = [b'{"id": 1, "who": {"name": "a", "born": "2000-01-01"}, "lines": [{"sku": 1}]}'] * (3 * FEW)
    outcome = decoded(RICH, [*good, value, *good])
    [(index, why)] = reasons(outcome).items()
    assert index == len(good)
    assert reason in why
    assert outcome.rows.num_rows == 2 * len(good)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024-01-31", datetime(2024, 1, 31, tzinfo=UTC)),
        ("2024-01-31 01:02:03", datetime(2024, 1, 31, 1, 2, 3, tzinfo=UTC)),
        ("2024-01-31T01:02:03+02:00", datetime(2024, 1, 30, 23, 2, 3, tzinfo=UTC)),
        ("2024-01-31T01:02:03.123Z", datetime(2024, 1, 31, 1, 2, 3, 123000, tzinfo=UTC)),
        ("2024-01-31T01:02:03.123456789Z", datetime(2024, 1, 31, 1, 2, 3, 123456, tzinfo=UTC)),
    ],
)
def test_timestamps_are_read_in_utc_and_cut_to_microseconds(text: str, expected: datetime) -> None:
    assert rows(decoded("at TIMESTAMP", [json.dumps({"at": text}).encode()]))[0] == {"at": expected}


zones = st.sampled_from(["", "Z", "+00:00", "+0530", "-08", "+23:59", "-14:00", "+24:00", "+01:60", "z", "+1"])
times = st.one_of(
    st.just(""),
    st.tuples(st.sampled_from("T "), st.integers(0, 25), st.integers(0, 61), st.integers(0, 61)).map(
        lambda parts: f"{parts[0]}{parts[1]:02}:{parts[2]:02}:{parts[3]:02}"
    ),
    st.sampled_from(["T01", "T01:02", "T01:02:03.1", "T01:02:03.", "T1:02:03", "T010203", "T01:02:03.123456"]),
)
dates = st.tuples(st.integers(0, 2300), st.integers(0, 13), st.integers(0, 32)).map(
    lambda parts: f"{parts[0]:04}-{parts[1]:02}-{parts[2]:02}"
)


@given(dates, times, zones)
@settings(max_examples=300, deadline=None)
def test_a_timestamp_means_the_same_whether_arrow_reads_it_or_not(day: str, time: str, zone: str) -> None:
    value = json.dumps({"at": day + time + zone}).encode()
    many = decoded("at TIMESTAMP", [value] * (FEW + 1))
    alone = decoded("at TIMESTAMP, by_hand MAP<STRING, INT>", [value])
    assert [row["at"] for row in rows(many).values()][:1] == [row["at"] for row in rows(alone).values()]


def test_maps_and_bytes_are_read_too() -> None:
    value = {"counts": {"a": 1, "b": None}, "raw": base64.b64encode(b"\x00\xff").decode()}
    outcome = decoded("counts MAP<STRING, INT>, raw BINARY", [json.dumps(value).encode(), b'{"raw": "?"}'])
    assert rows(outcome)[0] == {"counts": [("a", 1), ("b", None)], "raw": b"\x00\xff"}
    assert reasons(outcome) == {1: 'field raw is not base64: "?"'}


@pytest.mark.parametrize("neighbours", [0, 3 * FEW])
def test_hostile_values_become_bad_records_and_fail_nothing(neighbours: int) -> None:
    deep, digits = b"[" * 100_000, b"9" * 100_000
    hostile = [b'{"id": ' + deep + b"}", b'{"id": ' + deep + b"]" * 100_000 + b"}", b'{"id": ' + digits + b"}"]
    good = [b'{"id": 1}'] * neighbours
    outcome = decoded(FLAT, [*good, *hostile, *good])
    nested, long = "not JSON that can be read: nested too deeply", "not JSON that can be read: a number of thousands"
    assert [why[: len(long)] for why in reasons(outcome).values()] == [nested, nested, long]
    assert outcome.rows.num_rows == 2 * neighbours


def test_bad_records_keep_everything_that_is_known_of_them() -> None:
    outcome = decoded(FLAT, [b'{"id": 1}', b"broken"])
    [bad] = outcome.bad.to_pylist()
    assert bad == {
        "key": b"k1",
        "value": b"broken",
        "offset": 1,
        "timestamp": datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=1),
        "topic": "orders",
        "partition": 3,
        "reason": "not JSON: Expecting value at character 0",
    }


def test_null_values_are_rows_or_dropped_or_bad_as_asked() -> None:
    values: list[bytes | None] = [b'{"name": "a"}', None, b'{"name": "b"}']
    assert [row["name"] for row in rows(decoded("name STRING", values)).values()] == ["a", None, "b"]
    dropped = decoded("name STRING", values, NullValues.DROP)
    assert (list(rows(dropped)), reasons(dropped)) == ([0, 2], {})
    refused = decoded("name STRING", values, NullValues.BAD)
    assert (list(rows(refused)), reasons(refused)) == ([0, 2], {1: "the value is null"})
    required = decoded("name STRING NOT NULL", values)
    assert reasons(required) == {1: "required field name is missing: the value is null"}


def test_an_empty_batch_gives_no_rows_in_the_right_schema() -> None:
    outcome = decoded(RICH, [])
    assert outcome.rows.num_rows == outcome.bad.num_rows == 0
    assert outcome.rows.schema.names[-1] == "_offset"


def test_raw_rows_are_the_records_themselves() -> None:
    outcome = RawDecoder(keep=("key", "topic", "partition", "offset")).decode(batch_of([b"a", None]), ORIGIN)
    assert outcome.rows.to_pylist() == [
        {"value": b"a", "key": b"k0", "topic": "orders", "partition": 3, "offset": 0},
        {"value": None, "key": b"k1", "topic": "orders", "partition": 3, "offset": 1},
    ]
    assert outcome.bad.num_rows == 0


def test_without_a_dead_letter_topic_bad_rows_stay_among_the_rows_with_value_and_reason() -> None:
    decoding = Decoding("json", "id BIGINT NOT NULL", keep=("offset",))
    outcome = decoding.decoder().decode(batch_of([b'{"id": 1}', b"broken"]), ORIGIN)
    kept = decoding.rows(outcome)
    assert kept.schema == decoding.schema()
    assert kept.to_pylist() == [
        {"id": 1, "_offset": 0, "_bad_value": None, "_bad_reason": None},
        {"id": None, "_offset": 1, "_bad_value": b"broken", "_bad_reason": "not JSON: Expecting value at character 0"},
    ]


def test_with_a_dead_letter_topic_the_rows_are_the_good_ones_alone() -> None:
    decoding = Decoding("json", "id BIGINT NOT NULL", dead_letter_topic="orders.bad")
    outcome = decoding.decoder().decode(batch_of([b'{"id": 1}', b"broken"]), ORIGIN)
    assert decoding.rows(outcome).to_pylist() == [{"id": 1}]
    assert decoding.schema() == parse_schema("id BIGINT NOT NULL")


def test_options_are_read_in_any_case() -> None:
    given = {"DECODE": "json", "Schema": "id INT", "keep": "key, offset", "nullvalues": "drop", "deadlettertopic": "d"}
    assert Decoding.from_options(given) == Decoding("json", "id INT", ("key", "offset"), NullValues.DROP, "d")
    assert Decoding.from_options({"subscribe": "orders"}) is None


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"decode": "avro"}, "decode is 'avro': it must be one of raw, json"),
        ({"schema": "id INT"}, "schema is given without decode"),
        ({"decode": "json"}, "decode=json needs a schema"),
        ({"decode": "json", "schema": "id INTT"}, "unknown type 'INTT' of the field id"),
        ({"decode": "json", "schema": "id INT", "keep": "length"}, "keep names 'length'"),
        ({"decode": "json", "schema": "_offset INT", "keep": "offset"}, "field _offset has the name of a column"),
        ({"decode": "json", "schema": "id INT", "nullValues": "skip"}, "nullValues is 'skip'"),
        ({"decode": "raw", "schema": "id INT"}, "schema is given, but decode=raw"),
        ({"decode": "raw", "deadLetterTopic": "d"}, "deadLetterTopic is given, but decode=raw"),
    ],
)
def test_a_wrong_option_is_refused_with_what_is_allowed(options: dict[str, str], reason: str) -> None:
    with pytest.raises(ValueError, match="^.*") as refused:
        Decoding.from_options(options)
    assert reason in str(refused.value)
