"""Schema strings are read as Spark reads them, and a mistake in one is named."""

from __future__ import annotations

import pyarrow as pa
import pytest

from highwater.pipeline import Pipeline
from highwater.pipeline.decode import BadSchema, parse_schema
from highwater.pipeline.decode.struct_types import schema_text


def test_every_type_has_its_arrow_type() -> None:
    schema = parse_schema(
        "a BOOLEAN, b TINYINT, c SMALLINT, d INT, e BIGINT, f FLOAT, g DOUBLE, h STRING, i BINARY, j DATE, "
        "k TIMESTAMP, l TIMESTAMP_NTZ, m DECIMAL(12, 3), n DECIMAL, o DECIMAL(5)"
    )
    assert schema.types == [
        pa.bool_(),
        pa.int8(),
        pa.int16(),
        pa.int32(),
        pa.int64(),
        pa.float32(),
        pa.float64(),
        pa.string(),
        pa.binary(),
        pa.date32(),
        pa.timestamp("us", tz="UTC"),
        pa.timestamp("us"),
        pa.decimal128(12, 3),
        pa.decimal128(10, 0),
        pa.decimal128(5, 0),
    ]


def test_types_nest_and_names_may_be_quoted() -> None:
    schema = parse_schema(
        "`order id`: bigint NOT NULL COMMENT 'it''s, the id', lines array<struct<sku: string NOT NULL, n: int>>, "
        "tags map<string, array<double>>"
    )
    assert schema.field("order id") == pa.field("order id", pa.int64(), nullable=False)
    line = pa.struct([pa.field("sku", pa.string(), nullable=False), pa.field("n", pa.int32())])
    assert schema.field("lines").type == pa.list_(pa.field("element", line))
    assert schema.field("tags").type == pa.map_(pa.string(), pa.list_(pa.field("element", pa.float64())))


@pytest.mark.parametrize(
    ("ddl", "reason"),
    [
        ("", "the schema is empty"),
        ("id", "expected the type of the field id, the schema ends"),
        ("id BIGNIT", "unknown type 'BIGNIT' of the field id; known are boolean,"),
        ("id INT name STRING", "expected ',' between two fields, found 'name' at character 8"),
        ("id INT, ID STRING", "the field ID is declared twice"),
        ("id INT NOT", "expected NULL after NOT of the field id"),
        ("id INT COMMENT now", "expected a quoted text after COMMENT of the field id, found 'now' at character 16"),
        ("price DECIMAL(39, 2)", "decimal(39, 2) of the field price: the precision must be 1 to 38"),
        ("price DECIMAL(5, 6)", "the scale 0 to the precision"),
        ("tags ARRAY<STRING", "expected '>' after the element type of the field tags, the schema ends"),
        ("m MAP<INT, INT>", "the keys of the field m are int32: keys of JSON are strings"),
        ("id INT; name STRING", "cannot read '; name STRIN' at character 7 of the schema"),
        ("s STRUCT<a INT, a INT>", "the field a is declared twice"),
    ],
)
def test_a_mistake_is_named_with_its_place(ddl: str, reason: str) -> None:
    with pytest.raises(BadSchema) as refused:
        parse_schema(ddl)
    assert reason in str(refused.value)


def test_a_schema_of_sparks_own_types_says_the_same_in_words() -> None:
    from pyspark.sql import types as spark

    inner = spark.StructType([spark.StructField("x", spark.DecimalType(10, 2), False)])
    schema = spark.StructType(
        [
            spark.StructField("id", spark.LongType(), False),
            spark.StructField("a `b`", spark.ArrayType(inner)),
            spark.StructField("m", spark.MapType(spark.StringType(), spark.TimestampNTZType())),
            spark.StructField("at", spark.TimestampType()),
        ]
    )
    wanted = (
        "id BIGINT NOT NULL, `a ``b``` ARRAY<STRUCT<x: DECIMAL(10, 2) NOT NULL>>, "
        "m MAP<STRING, TIMESTAMP_NTZ>, at TIMESTAMP"
    )
    assert parse_schema(schema_text(schema)) == parse_schema(wanted)
    assert schema_text("id BIGINT") == "id BIGINT"
    said = Pipeline("orders").source("127.0.0.1:9092", topic="orders", decode="json", schema=schema)
    assert parse_schema(said.sink(table="delta", path="t").definition().sink["schema"]) == parse_schema(wanted)
