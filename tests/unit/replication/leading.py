"""A leader of three replicas, and a fetch of one of them: what tests of leaders share."""

from __future__ import annotations

from highwater.model import NodeId
from highwater.replication.follower_progress import Contact
from highwater.replication.leader import Leader, Terms

ME, SECOND, THIRD = NodeId(1), NodeId(2), NodeId(3)
ALL = (ME, SECOND, THIRD)
EPOCHS = {ME: 10, SECOND: 20, THIRD: 30}
LAG = 5.0


def leads(
    isr: tuple[NodeId, ...] = ALL,
    replicas: tuple[NodeId, ...] = ALL,
    *,
    end: int = 10,
    high_watermark: int = 10,
    minimum: int = 1,
    flushes: bool = False,
    now: float = 100.0,
) -> Leader:
    terms = Terms(minimum, flushes, LAG)
    return Leader(ME, 4, end, end, high_watermark, replicas, isr, 7, EPOCHS, terms, now)


def fetch(
    leader: Leader,
    replica: NodeId,
    end: int,
    now: float = 100.0,
    *,
    epoch: int | None = None,
    start: int = 0,
    own_start: int = 0,
) -> int:
    known = EPOCHS[replica] if epoch is None else epoch
    return leader.fetched(replica, known, end, start, own_start, Contact(now), now)
