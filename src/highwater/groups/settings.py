"""The settings of groups, in the units that this package uses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 5 * 60_000
"""How long a new member may wait in its first JoinGroup. It has no session yet, and a closed connection is not noticed
while the request waits. Without this bound, every client that gave up and came back would stay a member."""

MOST_MEMBERS: Final = 2_500
"""The most members of a group, even if group.max.size is larger. All of them are answered together when a rebalance
ends, which takes the event loop about 20 ms."""


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """Kafka's settings, with its defaults."""

    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    initial_rebalance_delay_ms: int = 3_000
    max_size: int = 2**31 - 1
    offset_metadata_max_size: int = 4_096
    """In UTF-16 units, as Kafka counts."""
    offsets_retention_ms: int = 7 * 24 * 3_600_000
    offsets_retention_check_interval_ms: int = 600_000
