"""Rows of topics in Metadata responses are kept while nothing that they show has changed."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from highwater.broker.topic_rows import MOST_BYTES, TopicRows
from highwater.metadata.brokers import BrokersImage
from highwater.metadata.topics import TopicImage
from highwater.wire.codec import Written
from highwater.wire.messages.metadata_response import MetadataResponseTopic

BROKERS = BrokersImage()
ORDERS, BILLS = (TopicImage(name, bytes([number]) * 16, {}) for number, name in enumerate(("orders", "bills")))


def row(size: int = 10) -> MetadataResponseTopic:
    return cast(MetadataResponseTopic, Written(bytes(size)))


def test_a_row_is_found_for_its_topic_listener_and_version_alone() -> None:
    rows, kept = TopicRows(), row()
    rows.keep(BROKERS, ORDERS, "PLAINTEXT", 12, kept)
    assert rows.find(BROKERS, ORDERS, "PLAINTEXT", 12) is kept
    assert rows.find(BROKERS, BILLS, "PLAINTEXT", 12) is None
    assert rows.find(BROKERS, ORDERS, "OUTSIDE", 12) is None
    assert rows.find(BROKERS, ORDERS, "PLAINTEXT", 11) is None


def test_a_row_is_made_anew_when_its_topic_or_any_broker_has_changed() -> None:
    rows = TopicRows()
    rows.keep(BROKERS, ORDERS, "PLAINTEXT", 12, row())
    assert rows.find(BROKERS, ORDERS._replace(), "PLAINTEXT", 12) is None
    assert rows.find(replace(BROKERS), ORDERS, "PLAINTEXT", 12) is None


def test_rows_of_earlier_brokers_are_forgotten_with_the_first_row_of_later_ones() -> None:
    rows, later = TopicRows(), replace(BROKERS)
    rows.keep(BROKERS, ORDERS, "PLAINTEXT", 12, row())
    rows.keep(later, BILLS, "PLAINTEXT", 12, row())
    assert rows.find(later, ORDERS, "PLAINTEXT", 12) is None
    assert rows.find(later, BILLS, "PLAINTEXT", 12) is not None


def test_rows_take_no_more_memory_than_their_bound() -> None:
    rows = TopicRows()
    for version in range(20):
        rows.keep(BROKERS, ORDERS, "PLAINTEXT", version, row(MOST_BYTES // 8))
    found = [rows.find(BROKERS, ORDERS, "PLAINTEXT", version) for version in range(20)]
    assert sum(each is not None for each in found) <= 8
    assert found[-1] is not None
    rows.keep(BROKERS, BILLS, "PLAINTEXT", 0, row(MOST_BYTES + 1))
    assert rows.find(BROKERS, BILLS, "PLAINTEXT", 0) is None
