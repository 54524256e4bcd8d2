"""Converts an image to the records of a snapshot."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from typing import Final

from highwater.metadata.cluster import MetadataImage
from highwater.wire.codec import Message

BATCH_RECORDS: Final = 1024
"""The batch size in snapshots, as in Kafka."""


def snapshot_records(image: MetadataImage) -> Iterator[list[Message]]:
    """Batches that recreate `image` from an empty one, in Kafka's order of kinds and in a fixed order within each kind.

    They are valid at `image.offset`. An open transaction is not part of them, because it is after that offset.
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
