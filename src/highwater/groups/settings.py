"""The settings that groups act on, in the units that the machine counts in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 5 * 60_000
"""How long a new member may wait in its first JoinGroup. It has no session yet, and its connection is not looked at
while the request waits, so without a bound every client that gave up and came back would stay a member."""

MOST_MEMBERS: Final = 2_500
"""Of a group, whatever group.max.size says. All are answered together when a rebalance ends, some 20 ms of the loop."""


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """Kafka's settings, with its defaults."""

    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    initial_rebalance_delay_ms: int = 3_000
    max_size: int = 2**31 - 1
    offset_metadata_max_size: int = 4_096
    """In UTF-16 units, whatever the setting's name says: that is what Kafka counts."""
    offsets_retention_ms: int = 7 * 24 * 3_600_000
    offsets_retention_check_interval_ms: int = 600_000
