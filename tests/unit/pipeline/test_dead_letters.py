from __future__ import annotations

import pyarrow as pa

from highwater.kernel import NewRecord
from highwater.pipeline.dead_letters import dead_letters, in_batches
from highwater.pipeline.decode import JsonDecoder, Origin, parse_schema


def test_a_dead_letter_is_the_record_as_it_was_with_its_origin_and_the_reason_in_headers() -> None:
    header = pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())])
    batch = pa.RecordBatch.from_pydict(
        {
            "key": pa.array([b"k"], pa.binary()),
            "value": pa.array([b"broken"], pa.binary()),
            "offset": pa.array([17], pa.int64()),
            "timestamp": pa.array([1_700_000_000_123_000], pa.timestamp("us", tz="UTC")),
            "headers": pa.array([[{"key": "trace", "value": b"\xff"}]], pa.list_(header)),
        }
    )
    bad = JsonDecoder(parse_schema("id INT")).decode(batch, Origin("orders", 2)).bad
    assert list(dead_letters(bad, now=5)) == [
        (
            2,
            (
                5,
                b"k",
                b"broken",
                [
                    ("trace", b"\xff"),
                    ("__highwater.errors.topic", b"orders"),
                    ("__highwater.errors.partition", b"2"),
                    ("__highwater.errors.offset", b"17"),
                    ("__highwater.errors.timestamp", b"1700000000123"),
                    ("__highwater.errors.reason", b"not JSON: Expecting value at character 0"),
                ],
            ),
        )
    ]


def test_a_bad_record_dated_beyond_the_calendar_is_a_dead_letter_like_any_other() -> None:
    moments = [253_402_300_800_000_000, 2**63 - 1, -(2**63), -1_000]
    batch = pa.RecordBatch.from_pydict(
        {
            "key": pa.nulls(4, pa.binary()),
            "value": pa.array([b"broken"] * 4, pa.binary()),
            "offset": pa.array(range(4), pa.int64()),
            "timestamp": pa.array(moments, pa.int64()).cast(pa.timestamp("us", tz="UTC")),
        }
    )
    bad = JsonDecoder(parse_schema("id INT")).decode(batch, Origin("orders", 2)).bad
    times = [dict(headers)["__highwater.errors.timestamp"] for _, (_, _, _, headers) in dead_letters(bad, now=5)]
    assert times == [b"253402300800000", b"9223372036854775", b"-9223372036854776", b"-1"]


def test_batches_of_dead_letters_stay_below_the_limit_unless_one_letter_is_larger() -> None:
    letters: list[NewRecord] = [(0, None, b"x" * size, [("h", b"y")]) for size in (400, 400, 400, 5000, 10)]
    batches = list(in_batches(letters, 1000))
    assert [len(batch) for batch in batches] == [2, 1, 1, 1]
    assert [letter for batch in batches for letter in batch] == letters
    assert list(in_batches([], 1000)) == []
