"""Rules that Kafka no longer has, as pure functions over what was seen: no node can show them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from highwater.lab.frame import Lane, Words

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


def restarted_by_watermark(lane: Lane) -> Lane:
    """The log of a replica that restarts and cuts off what is above its own high watermark, as before KIP-101."""
    end = min(lane.high_watermark, lane.log_end)
    return replace(lane, log_end=end, high_watermark=end, epochs=_below(lane, end), label=GONE, state="computed")


def followed_by_watermark(lane: Lane, leader: Lane) -> Lane:
    """The log of an old leader that returns under the same rule: above the new leader's end there is nothing left."""
    end = min(lane.log_end, leader.log_end)
    committed = min(lane.high_watermark, end)
    return replace(
        lane,
        log_end=end,
        high_watermark=committed,
        epochs=_below(lane, end),
        label=GONE,
        state="computed",
        is_leader=False,
    )


def _below(lane: Lane, end: int) -> tuple[tuple[int, int], ...]:
    return tuple((epoch, start) for epoch, start in lane.epochs if start < end)
