"""Where the log of a replica parts from its leader's. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from highwater.lab.frame import Lane


def leader_of(lanes: Sequence[Lane]) -> Lane | None:
    """None if there is no leader, or if it is dead and another is not chosen yet."""
    return next((lane for lane in lanes if lane.is_leader and lane.label is None and lane.state != "down"), None)


def parts_at(lane: Lane, leader: Lane | None) -> int | None:
    """The first offset at which the replica has another record than its leader, by their epochs; None if there is none.

    Records of the leader's latest epoch are not other ones: the leader's lane was seen a moment before.
    """
    if leader is None or leader.node == lane.node or lane.label is not None or not leader.epochs:
        return None
    latest = leader.epochs[-1][0]
    places = {start for _, start in (*lane.epochs, *leader.epochs)}
    first = max(lane.log_start, leader.log_start)
    for offset in sorted({first, *(place for place in places if place > first)}):
        epoch = _epoch_at(lane, offset)
        if offset < lane.log_end and epoch != _epoch_at(leader, offset) and epoch < latest:
            return offset
    return None


def _epoch_at(lane: Lane, offset: int) -> int:
    return max((epoch for epoch, start in lane.epochs if start <= offset), default=-1)
