"""Rules that Kafka no longer has: no node can show them. Pure.

Two are functions over what was seen. The third, truncation to the high watermark, is a follower of its own, which
`highwater.lab.simulated` runs in the simulated world.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from highwater.lab.frame import Lane, Words
from highwater.model import Offset
from highwater.replication.follower import NOTHING, Ends, Follower, Ready

GONE = Words("computed: this rule no longer exists", "계산한 값: 지금은 없는 규칙")


class Sample(NamedTuple):
    """The log ends of a leader and of one follower, at one moment."""

    seconds: float
    leader_end: int
    follower_end: int


def first_out_by_count(trace: Sequence[Sample], max_messages: int) -> Sample | None:
    """When the rule by number of messages would have put the follower out of the ISR; None if never. KIP-16 removed
    the setting."""
    return next((each for each in trace if each.leader_end - each.follower_end > max_messages), None)


def read_to_the_end(leader: Lane) -> Lane:
    """What consumers would see if they could read to the log end of the leader, as before there was replication."""
    return replace(leader, high_watermark=leader.log_end, label=GONE, state="computed")


class WatermarkFollower(Follower):
    """Before KIP-101 a follower cut its log to its own high watermark, before it asked its leader for anything."""

    __slots__ = ()

    def begun(self, log: Ends, high_watermark: Offset) -> Ready:
        """A term begins."""
        if log.end <= high_watermark or not self.fetches:
            return NOTHING
        return self._cut(max(high_watermark, log.start), f"its own high watermark is {high_watermark}")
