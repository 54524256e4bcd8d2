from __future__ import annotations

from highwater.client.security import Security
from highwater.pipeline.ranges import OffsetRange
from highwater.pipeline.reading import Reading
from highwater.pipeline.work_orders import COLUMNS, WorkOrder, are_work_orders, arrow_schema, from_batch, to_batch


def test_ranges_and_how_to_read_them_come_back_from_rows_as_they_were() -> None:
    security = Security.of({"security.protocol": "SSL", "ssl.truststore.location": "/ca.pem"})
    reading = Reading("localhost:9092", read_committed=True, deadline_seconds=7.5, security=security)
    ranges = [OffsetRange("t", "id", 0, 5, 9, 3), OffsetRange("u", "", 2**31 - 1, 0, 2**62)]
    batch = to_batch(ranges, reading)
    assert batch.schema == arrow_schema()
    assert list(from_batch(batch)) == [WorkOrder(range_, reading) for range_ in ranges]


def test_rows_are_work_orders_only_with_exactly_their_columns() -> None:
    assert are_work_orders(COLUMNS)
    assert not are_work_orders([*COLUMNS, "more"])
    assert not are_work_orders(COLUMNS[1:])
