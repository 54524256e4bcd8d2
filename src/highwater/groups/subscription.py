"""Which topics the members of a consumer group read, told from what they send when they join.

The bytes belong to the clients' own protocol: a broker relays them and knows nothing of them, except that offsets of
a topic that a group reads are neither expired nor deleted. Whatever cannot be read here never fails a join.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from highwater.wire.codec import Malformed, Reader
from highwater.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription

CONSUMER_PROTOCOL: Final = "consumer"


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """None where one of them cannot be read, so that nobody knows."""
    topics: set[str] = set()
    for subscription in subscriptions:
        try:
            topics.update(_topics_of(subscription))
        except Malformed:
            return None
    return frozenset(topics)


def _topics_of(subscription: bytes) -> list[str]:
    reader = Reader(subscription)
    if reader.int16() < 0:
        raise Malformed("a subscription has no negative version")
    # Every version begins with the fields of the first, so later ones than we know can be read too.
    return ConsumerProtocolSubscription.read(reader, 0).topics
