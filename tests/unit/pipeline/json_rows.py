"""Rows of a schema with all that JSON can hold, and values that are none."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

RICH = (
    "id INT, price DECIMAL(12, 3), day DATE, at TIMESTAMP, local TIMESTAMP_NTZ, ratio FLOAT, "
    "who STRUCT<name: STRING NOT NULL, born: DATE>, tags ARRAY<STRING>, "
    "lines ARRAY<STRUCT<sku: INT NOT NULL, day: DATE>>"
)

text = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
finite = st.floats(allow_nan=False, allow_infinity=False)
anything = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | finite | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=6,
)

moments = st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1))
rich = st.fixed_dictionaries(
    {
        "id": st.none() | st.integers(-(2**31), 2**31 - 1),
        "price": st.none() | st.decimals(-(10**8), 10**8, places=3),
        "day": st.none() | st.dates(date(1, 1, 1)),
        "at": st.none() | moments.map(lambda when: when.replace(tzinfo=UTC)),
        "local": st.none() | moments,
        "ratio": st.none() | st.floats(width=32, allow_nan=False, allow_infinity=False),
        "who": st.none() | st.fixed_dictionaries({"name": text, "born": st.none() | st.dates(date(1, 1, 1))}),
        "tags": st.none() | st.lists(st.none() | text, max_size=3),
        "lines": st.none()
        | st.lists(
            st.none() | st.fixed_dictionaries({"sku": st.integers(0, 9), "day": st.none() | st.dates(date(1, 1, 1))}),
            max_size=3,
        ),
    }
)


def as_json(value: Any) -> str:
    """Of typed values, numbers written out in full."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(name)}:{as_json(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(as_json, value)) + "]"
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, datetime | date):
        return json.dumps(value.isoformat())
    return json.dumps(value)
