"""What the driver has to do after an input, and in which order.

Each input of the machine returns one `Ready`. The driver carries it out in the order of its fields:

1. `election`: store and sync it before everything below. So no vote or epoch is sent and then forgotten.
2. `truncate_to`, `append`, `epoch_start`, `fetch_snapshot`: apply them to the log. The sync may come later; the driver
   reports it with `log_flushed`. Until then no fetch is sent, and the new records of this node do not count. An append
   of the leader itself (`epoch_start`, and every decision) is also reported at once, with `wrote`.
3. `answer` and `requests`: send them.
4. `high_watermark`, `leadership`, `wake_fetches`: apply them.

The next input may be fed when 1 and 2 are done, except for the sync in 2. Each `Ready` is carried out in its turn.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from highwater.errors import Code
from highwater.model import Endpoint, Epoch, NodeId, Offset
from highwater.quorum.election_state import ElectionState
from highwater.quorum.log_view import LogPosition
from highwater.quorum.voters import Listeners, ReplicaKey
from highwater.wire.codec import Message
from highwater.wire.messages.kraft_version_record import KRaftVersionRecord
from highwater.wire.messages.leader_change_message import LeaderChangeMessage
from highwater.wire.messages.voters_record import VotersRecord

Buffer = bytes | bytearray | memoryview


class Peer(NamedTuple):
    """The target of a request. A bootstrap server has an id below -1, because its node id is not known."""

    id: NodeId
    endpoint: Endpoint | None


@dataclass(frozen=True, slots=True)
class FollowerFetch:
    """A fetch of the metadata log: the position of the replica that sends it."""

    replica: ReplicaKey
    leader_epoch: Epoch
    offset: Offset
    last_fetched_epoch: Epoch
    high_watermark: Offset
    """The high watermark that the replica knows; -1 for none. The leader answers at once if its own is higher
    (KIP-1166). It is higher than any other if the replica does not say it, as before version 18: such a replica would
    fetch without a pause otherwise, because it never seems to know the newest one."""
    cluster_id: str | None = None
    waited: bool = False
    """The fetch was counted when it came, and has been waiting since. To evaluate it again is no new sign of life."""


@dataclass(frozen=True, slots=True)
class FetchAnswer:
    error: Code
    leader_id: NodeId | None
    leader_epoch: Epoch
    high_watermark: Offset = -1
    log_start: Offset = -1
    diverging: LogPosition | None = None
    snapshot: LogPosition | None = None
    leader_endpoint: Endpoint | None = None
    records: Buffer = b""
    """Whole batches from the fetch offset on. The driver of the leader fills them in from its durable log."""
    can_wait: bool = False
    """Leader only: there is nothing new yet. The driver may hold the fetch until `wake_fetches`, and evaluate it
    again."""

    @property
    def serves_records(self) -> bool:
        return self.error == Code.NONE and self.diverging is None and self.snapshot is None


@dataclass(frozen=True, slots=True)
class Request:
    """A request to a peer. Its result comes back through `answered` or `failed`, with the same correlation."""

    peer: Peer
    correlation: int
    message: Message | FollowerFetch


@dataclass(frozen=True, slots=True)
class EpochStart:
    """The control batch that begins a leader's epoch. Without it no record of an earlier epoch could be committed."""

    epoch: Epoch
    offset: Offset
    leader_change: LeaderChangeMessage
    kraft_version: KRaftVersionRecord | None = None
    voters: VotersRecord | None = None
    """Both are set if the voters are only in the bootstrap checkpoint yet, or if the leader's listeners have
    changed."""


@dataclass(frozen=True, slots=True)
class Leadership:
    leader_id: NodeId | None
    epoch: Epoch
    epoch_start: Offset | None = None
    """Set if this node leads. It may decide on its state when everything up to and including this offset is applied."""
    listeners: Listeners = ()


@dataclass(slots=True)
class Ready:
    election: ElectionState | None = None
    truncate_to: Offset | None = None
    append: Buffer | None = None
    """Records of a fetch response. If they fail their checks, the driver reports that with `records_rejected`."""
    epoch_start: EpochStart | None = None
    fetch_snapshot: LogPosition | None = None
    """A snapshot to fetch from the leader, as long as `Quorum.fetching_snapshot` names it. The driver reports the end
    with `snapshot_done` or `snapshot_failed`."""
    answer: Message | FetchAnswer | None = None
    requests: list[Request] = field(default_factory=list)
    high_watermark: Offset | None = None
    leadership: Leadership | None = None
    wake_fetches: bool = False
    resigns_because: str = ""
    """Why this leader has resigned, if nobody asked it to: for the log."""

    @property
    def touches_log(self) -> bool:
        return self.truncate_to is not None or self.append is not None or self.epoch_start is not None
