"""The demo's orders: what one is, as JSON and as a row of a table, and one for each number."""

from __future__ import annotations

import json
from typing import NamedTuple
from zlib import crc32

from highwater.client.producer import partition_for_key
from highwater.model import TopicPartition

TOPIC = "orders"
PARTITIONS = tuple(TopicPartition(TOPIC, index) for index in range(3))
REVENUE_TOPIC = "revenue"
REVENUE_PARTITION = TopicPartition(REVENUE_TOPIC, 0)
SCHEMA = "id BIGINT NOT NULL, customer STRING NOT NULL, product STRING NOT NULL, cents BIGINT NOT NULL"
"""The schema of an order's JSON, for Spark."""

CUSTOMERS = 200
PRICES = {"apples": 349, "bread": 420, "coffee": 1190, "honey": 650, "olives": 275, "tea": 480}
PRODUCTS = tuple(PRICES)
MOST_PIECES = 5


class Order(NamedTuple):
    id: int
    customer: str
    product: str
    cents: int

    @property
    def key(self) -> bytes:
        """All orders of a customer are in one partition, so they are in order."""
        return self.customer.encode()

    @property
    def value(self) -> bytes:
        """Equal for equal orders, so that a row of a table can be compared with what was sent."""
        return json.dumps(self._asdict(), separators=(",", ":")).encode()


def number_of(value: bytes) -> int | None:
    """The number of a value that may not be an order."""
    try:
        found = json.loads(value)
    except ValueError:
        return None
    return found["id"] if isinstance(found, dict) and isinstance(found.get("id"), int) else None


def order_of(number: int) -> Order:
    """Always the same order for a number, so the orders that were sent need not be kept."""
    drawn, customer = divmod(crc32(number.to_bytes(8, "big")), CUSTOMERS)
    drawn, product = divmod(drawn, len(PRODUCTS))
    price = PRICES[PRODUCTS[product]]
    return Order(number, f"customer-{customer:03}", PRODUCTS[product], price * (1 + drawn % MOST_PIECES))


def partition_of(order: Order) -> TopicPartition:
    return PARTITIONS[partition_for_key(order.key, len(PARTITIONS))]
