"""The demo's orders: what one is, as JSON and as a row of a table, and an endless supply of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import NamedTuple

from highwater.model import TopicPartition

TOPIC = "orders"
PARTITIONS = tuple(TopicPartition(TOPIC, index) for index in range(3))
REVENUE_TOPIC = "revenue"
REVENUE_PARTITION = TopicPartition(REVENUE_TOPIC, 0)
SCHEMA = "id BIGINT NOT NULL, customer STRING NOT NULL, product STRING NOT NULL, cents BIGINT NOT NULL"
"""Of an order's JSON, for Spark."""

CUSTOMERS = 200
PRICES = {"apples": 349, "bread": 420, "coffee": 1190, "honey": 650, "olives": 275, "tea": 480}


class Order(NamedTuple):
    id: int
    customer: str
    product: str
    cents: int

    @property
    def key(self) -> bytes:
        """All orders of a customer are in one partition, and so in order."""
        return self.customer.encode()

    @property
    def value(self) -> bytes:
        """The same for the same order, so that a row of a table can be compared with what was sent."""
        return json.dumps(self._asdict(), separators=(",", ":")).encode()


def orders() -> Iterator[Order]:
    random = Random(1)
    products = sorted(PRICES)
    number = 0
    while True:
        product = random.choice(products)
        customer = f"customer-{random.randrange(CUSTOMERS):03}"
        yield Order(number, customer, product, PRICES[product] * random.randint(1, 5))
        number += 1
