"""Where a consumer with a rack reads a partition (KIP-392): which replica its leader prefers for it. Pure.

The rule is that of Kafka's RackAwareReplicaSelector. Beyond it, a follower must have been caught up within
replica.lag.time.max.ms. A follower that does not hear from its leader for that time sends consumers back to the leader,
and the leader must not send them to that follower again.
"""

from __future__ import annotations

from collections.abc import Mapping

from highwater.model import NodeId, Offset
from highwater.replication.leader import Leader


def preferred_read_replica(
    leader: Leader, racks: Mapping[NodeId, str], rack: str, offset: Offset, now: float
) -> NodeId | None:
    """The follower from which a consumer in `rack` should read at `offset`; None if it should read from the leader.

    `racks` has the rack of each broker that is unfenced and that the consumer can reach. The follower must be in the
    ISR, and its log must hold the offset. Among several, the one with the highest log end is chosen, then the one that
    was caught up last, then the one with the highest id.
    """
    if racks.get(leader.local) == rack:
        return None
    chosen: tuple[Offset, float, NodeId] | None = None
    for replica in leader.isr:
        progress = leader.followers.get(replica)
        if progress is None or racks.get(replica) != rack:
            continue
        caught_up_at = leader.caught_up_at(replica)
        if caught_up_at is None or now - caught_up_at > leader.terms.lag_seconds:
            continue
        end, start = progress.end, progress.log_start
        if end is not None and start is not None and start <= offset <= end:
            standing = (end, caught_up_at, replica)
            chosen = standing if chosen is None else max(chosen, standing)
    return None if chosen is None else chosen[2]


def may_serve_consumers(is_in_isr: bool, heard_at: float | None, now: float, lag_seconds: float) -> bool:
    """Whether a follower may serve consumers. Its leader last answered it at `heard_at`; None if it follows no leader.
    A follower that has left the ISR, or that hears nothing of its leader, may lag behind for long."""
    return is_in_isr and heard_at is not None and now - heard_at <= lag_seconds
