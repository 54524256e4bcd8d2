"""The rows of topics in Metadata responses, encoded once and not again for each request: clients ask again and again,
and all of them at once when a leader has died."""

from __future__ import annotations

from typing import cast

from highwater.metadata.brokers import BrokersImage
from highwater.metadata.topics import TopicImage
from highwater.model import Uuid
from highwater.wire.codec import Written
from highwater.wire.messages.metadata_response import MetadataResponseTopic

MOST_BYTES = 4 << 20
"""Of all rows together. When there is no more room, all are forgotten."""

Key = tuple[Uuid, str, int]
"""Topic, listener, and version of the response."""


class TopicRows:
    """A row is the same for all clients of a listener, until its topic or any broker changes: images are immutable, so
    a changed one is another object."""

    __slots__ = ("_brokers", "_bytes", "_rows")

    def __init__(self) -> None:
        self._brokers: BrokersImage | None = None
        self._rows: dict[Key, tuple[TopicImage, MetadataResponseTopic]] = {}
        self._bytes = 0

    def find(
        self, brokers: BrokersImage, topic: TopicImage, listener: str, version: int
    ) -> MetadataResponseTopic | None:
        known = self._rows.get((topic.id, listener, version))
        return known[1] if known is not None and known[0] is topic and self._brokers is brokers else None

    def keep(
        self, brokers: BrokersImage, topic: TopicImage, listener: str, version: int, row: MetadataResponseTopic
    ) -> None:
        """`row` is encoded, and was made from these images alone."""
        size = len(cast(Written, row).data)
        if self._brokers is not brokers or self._bytes + size > MOST_BYTES:
            self._brokers, self._rows, self._bytes = brokers, {}, 0
        if size <= MOST_BYTES:
            self._rows[topic.id, listener, version] = topic, row
            self._bytes += size
