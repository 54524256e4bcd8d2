"""Topics that belong to the cluster itself. Responses mark them, so that clients can leave them out."""

from __future__ import annotations

INTERNAL = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})


def is_internal(topic: str) -> bool:
    return topic in INTERNAL
