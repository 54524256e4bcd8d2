"""Whole columns of keys go where Kafka's producers put each of them; `partition_for_key` is checked against those."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.client.producer import partition_for_key
from highwater.pipeline.partitioner import partitions_of_keys


@settings(deadline=None)
@given(st.lists(st.none() | st.binary(max_size=40), max_size=50), st.integers(1, 200))
def test_every_key_goes_where_it_would_go_alone(keys: list[bytes | None], partitions: int) -> None:
    chosen = partitions_of_keys(pa.array(keys, pa.binary()), partitions, for_null=partitions - 1)
    expected = [partitions - 1 if key is None else partition_for_key(key, partitions) for key in keys]
    assert chosen.tolist() == expected
