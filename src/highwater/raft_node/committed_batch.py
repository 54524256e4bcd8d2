"""A batch of the metadata log, decoded: its records, and the voter sets in it."""

from __future__ import annotations

from dataclasses import dataclass

from highwater.metadata.pieces import Pieces
from highwater.metadata.records import decoding
from highwater.model import Epoch, Offset
from highwater.quorum import VoterSet
from highwater.raft_node.snapshots import CONTROL_VERSION
from highwater.wire import records
from highwater.wire.codec import Message
from highwater.wire.messages.voters_record import VotersRecord
from highwater.wire.records.control import ControlType, parse_control


@dataclass(frozen=True, slots=True)
class CommittedBatch:
    """A decoded batch of the log. A control batch has no records here, but it takes up offsets."""

    last_offset: Offset
    epoch: Epoch
    records: tuple[Message, ...]
    size: int
    timestamp: int


def voters_in(header: records.Header, data: memoryview) -> list[tuple[Offset, VoterSet]]:
    """The voter sets in a control batch, with the offsets of their records."""
    if not header.is_control:
        return []
    return [
        (control.offset, VoterSet.from_record(VotersRecord.decode(control.value, CONTROL_VERSION)))
        for control in parse_control(data)
        if control.type == ControlType.KRAFT_VOTERS
    ]


def decoded(header: records.Header, data: memoryview) -> Pieces[CommittedBatch]:
    values: tuple[Message, ...] = ()
    if not header.is_control:
        values = yield from decoding(record.value for record in records.iterate(data))
    return CommittedBatch(header.last_offset, header.leader_epoch, values, header.size, header.max_timestamp)
