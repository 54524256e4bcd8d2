"""What the driver has to do after an input, and in which order.

Each input of the machine returns one `Ready`. Its parts are carried out in the order of its fields:

1. `election`: persisted and synced before anything below, so that no vote or epoch is told and then forgotten.
2. `truncate_to`, `append`, `epoch_start`, `fetch_snapshot`: applied to the log. Their sync may take its time; the
   driver tells of it with `log_flushed`, and no fetch is sent and no record of this node counted before.
3. `answer` and `requests`: sent.
4. `high_watermark`, `leadership`, `wake_fetches`: applied.

The next input may be fed once 1 and 2 (but for the sync in 2) are done. Readies are sent in the order they came.
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
    """Where a request goes. A bootstrap server, whose node is not known, has an id below -1."""

    id: NodeId
    endpoint: Endpoint | None


@dataclass(frozen=True, slots=True)
class FollowerFetch:
    """A fetch of the metadata log: what its request says about the replica that sends it."""

    replica: ReplicaKey
    leader_epoch: Epoch
    offset: Offset
    last_fetched_epoch: Epoch
    high_watermark: Offset
    """The one the replica knows, so that the leader can tell it of a later one at once (KIP-1166); -1 for none."""
    cluster_id: str | None = None
    waited: bool = False
    """It was counted when it came and has been held since: asking it again is no new sign of life of its replica."""


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
    """Whole batches from the fetch offset on. The leader's driver fills them in from its durable log."""
    can_wait: bool = False
    """Leader only: there is nothing to tell yet. The driver may hold the fetch until `wake_fetches`, and ask again."""

    @property
    def serves_records(self) -> bool:
        return self.error == Code.NONE and self.diverging is None and self.snapshot is None


@dataclass(frozen=True, slots=True)
class Request:
    """To be sent to a peer; its outcome comes back by `answered` or `failed` with the same correlation."""

    peer: Peer
    correlation: int
    message: Message | FollowerFetch


@dataclass(frozen=True, slots=True)
class EpochStart:
    """The control batch that opens a leader's epoch; without it nothing of earlier epochs could be committed."""

    epoch: Epoch
    offset: Offset
    leader_change: LeaderChangeMessage
    kraft_version: KRaftVersionRecord | None = None
    voters: VotersRecord | None = None
    """Both present where the log has no voters yet but those of the bootstrap checkpoint, or the leader has moved."""


@dataclass(frozen=True, slots=True)
class Leadership:
    leader_id: NodeId | None
    epoch: Epoch
    epoch_start: Offset | None = None
    """Set if this node leads: it may decide on its state once that is applied up to beyond this offset."""
    listeners: Listeners = ()


@dataclass(slots=True)
class Ready:
    election: ElectionState | None = None
    truncate_to: Offset | None = None
    append: Buffer | None = None
    """Records of a fetch answer. Those that fail their checks are reported with `records_rejected`."""
    epoch_start: EpochStart | None = None
    fetch_snapshot: LogPosition | None = None
    """To be fetched from the leader as long as `Quorum.fetching_snapshot` names it, then told with `snapshot_done`."""
    answer: Message | FetchAnswer | None = None
    requests: list[Request] = field(default_factory=list)
    high_watermark: Offset | None = None
    leadership: Leadership | None = None
    wake_fetches: bool = False

    @property
    def touches_log(self) -> bool:
        return self.truncate_to is not None or self.append is not None or self.epoch_start is not None
