"""An image as the records of a snapshot."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from typing import Final

from highwater.metadata.cluster import MetadataImage
from highwater.wire.codec import Message

BATCH_RECORDS: Final = 1024
"""Kafka's own batch size in snapshots."""


def snapshot_records(image: MetadataImage) -> Iterator[list[Message]]:
    """Batches that recreate `image` from nothing, in Kafka's order of subjects and a fixed order within each.

    Valid at `image.offset`; a transaction in progress is not part of it, as it lies behind that offset.
    """
    records: Iterator[Message] = chain(
        image.features.records(),
        image.brokers.records(),
        image.controllers.records(),
        image.topics.records(),
        image.configs.records(),
        image.quotas.records(),
        image.producer_ids.records(),
        image.acls.records(),
        image.scram.records(),
        image.tokens.records(),
    )
    while batch := list(islice(records, BATCH_RECORDS)):
        yield batch
