from __future__ import annotations

import pytest

from highwater.cli.record_formatter import DESERIALIZERS, PRINTED, RecordFormatter
from highwater.kernel import Record

LONG = "org.apache.kafka.common.serialization.LongDeserializer"
RECORD = Record(7, 1000, b"k", b"v", [("h", b"1"), ("i", None)])
EVERYTHING = {f"print.{name}": "true" for name in PRINTED}


@pytest.mark.parametrize(
    ("properties", "line"),
    [
        ({}, b"v\n"),
        ({"print.key": "true"}, b"k\tv\n"),
        (
            EVERYTHING,
            b"CreateTime:1000\tPartition:3\tOffset:7\tDelivery:NOT_PRESENT\tEpoch:NOT_PRESENT\th:1,i:null\tk\tv\n",
        ),
        ({"print.value": "false"}, b""),
        ({"print.key": " TRUE", "print.value": "false"}, b"k\n"),
        (
            {"print.headers": "true", "headers.separator": ";", "null.literal": "-", "key.separator": "|"},
            b"h:1;i:-|v\n",
        ),
        ({"line.separator": "$"}, b"v$"),
    ],
)
def test_columns_are_printed_as_asked(properties: dict[str, str], line: bytes) -> None:
    assert RecordFormatter(properties).format(3, "CreateTime", RECORD) == line


def test_a_missing_key_or_value_is_printed_as_null() -> None:
    formatter = RecordFormatter({"print.key": "true", "print.headers": "true"})
    assert formatter.format(0, "LogAppendTime", Record(0, 0, None, None, [])) == b"NO_HEADERS\tnull\tnull\n"


def test_numbers_are_shown_by_their_deserializer() -> None:
    formatter = RecordFormatter({"value.deserializer": LONG})
    record = RECORD._replace(value=(-5).to_bytes(8, "big", signed=True))
    assert formatter.format(0, "CreateTime", record) == b"-5\n"
    with pytest.raises(ValueError, match="Size of data received by LongDeserializer is not 8"):
        formatter.format(0, "CreateTime", RECORD)


def test_an_unknown_deserializer_is_refused() -> None:
    with pytest.raises(ValueError, match="is not available"):
        RecordFormatter({"key.deserializer": "com.example.Mine"})
    assert LONG in DESERIALIZERS
