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
MOST_TOPICS: Final = 20_000
"""Names that are read of all subscriptions of a group, where members that say the same count as one: some 25 ms."""


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """None where one of them cannot be read, or all together are too long, so that nobody knows."""
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
    # Every version begins with the fields of the first, so later ones than we know can be read too.
    return ConsumerProtocolSubscription.read(reader, 0).topics
