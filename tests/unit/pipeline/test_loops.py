"""A query that reads what it writes itself would never end: it is refused wherever both are known."""

from __future__ import annotations

import pytest

from highwater.model import TopicPartition
from highwater.pipeline.selection import Assigned, BadOption, Matching, Subscribed, check_no_loop, selects
from highwater.pipeline.source import HighwaterDataSource


def test_a_selection_knows_the_topics_that_it_would_read() -> None:
    assert selects(Subscribed(("orders", "bills")), "bills")
    assert not selects(Subscribed(("orders",)), "orders.bad")
    assert selects(Assigned((TopicPartition("orders", 3),)), "orders")
    assert not selects(Assigned((TopicPartition("orders", 3),)), "bills")
    assert selects(Matching("orders"), "my.orders.bad")
    assert not selects(Matching("^orders$"), "orders.bad")


def test_a_source_refuses_to_read_its_own_dead_letters() -> None:
    options = {
        "kafka.bootstrap.servers": "127.0.0.1:9092",
        "subscribePattern": "orders",
        "decode": "json",
        "schema": "id INT",
        "deadLetterTopic": "orders.bad",
    }
    source = HighwaterDataSource(options)
    schema = source.schema()
    assert not isinstance(schema, str)
    for read in (source.reader, source.streamReader):
        with pytest.raises(BadOption, match="'orders.bad', which subscribePattern orders selects"):
            read(schema)
    HighwaterDataSource({**options, "subscribePattern": "orders$"}).streamReader(schema)


def test_a_pattern_for_all_topics_is_refused_only_with_a_dead_letter_topic() -> None:
    check_no_loop(Matching(".*"), None)
    with pytest.raises(BadOption, match="'orders.bad', which subscribePattern"):
        check_no_loop(Matching(".*"), "orders.bad")
