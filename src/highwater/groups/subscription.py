"""Finds the topics that the members of a consumer group read, in the metadata of their JoinGroup requests.

The metadata belongs to the clients' own protocol, and a broker only relays it. But offsets of a topic that a group
reads must not expire or be deleted. Metadata that cannot be read here never fails a JoinGroup.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from highwater.wire.codec import Malformed, Reader
from highwater.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription

CONSUMER_PROTOCOL: Final = "consumer"
MOST_TOPICS: Final = 20_000
"""The most topic names that are read from all subscriptions of a group, about 25 ms of work. Equal subscriptions count
once."""


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """None if the topics are unknown: a subscription cannot be read, or all together are too long."""
    topics: set[str] = set()
    left = MOST_TOPICS
    for subscription in dict.fromkeys(subscriptions):
        try:
            named = _topics_of(subscription, left)
        except Malformed:
            return None
        left -= len(named)
        topics.update(named)
    return frozenset(topics)


def _topics_of(subscription: bytes, most: int) -> list[str]:
    reader = Reader(subscription)
    if reader.int16() < 0:
        raise Malformed("a subscription has no negative version")
    if Reader(subscription, reader.pos).int32() > most:
        raise Malformed(f"a subscription to more than {most} topics")
    # Every version begins with the fields of the first one, so unknown later versions can be read, too.
    return ConsumerProtocolSubscription.read(reader, 0).topics
