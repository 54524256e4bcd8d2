"""Writes offsets. They can be read when they are committed, and the client is answered then."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from highwater.effects import Caller, Now, Outbox, Record
from highwater.errors import Code
from highwater.groups.offsets import OffsetTable
from highwater.groups.records import CommittedOffset, offset_record, offset_tombstone
from highwater.groups.registry import Registry
from highwater.model import TopicPartition
from highwater.wire.codec import Struct

Changes = Mapping[TopicPartition, CommittedOffset | None]
"""None removes an offset."""


class Reply:
    """Answers a request once, when its records are written."""

    def __init__(self, outbox: Outbox, caller: Caller, response: Struct, refused: Callable[[Code], Struct]) -> None:
        self._outbox = outbox
        self._caller: Caller | None = caller
        self._response = response
        self._refused = refused

    def send(self, code: Code = Code.NONE) -> None:
        if self._caller is not None:
            self._outbox.answer(self._caller, self._refused(code) if code else self._response)
            self._caller = None


class OffsetsStored:
    def __init__(
        self, registry: Registry, offsets: OffsetTable, group_id: str, changes: Changes, reply: Reply | None = None
    ) -> None:
        self.changes = changes
        self._registry = registry
        self._offsets = offsets
        self._group_id = group_id
        self._reply = reply
        self._awaited_by: list[Callable[[Code], None]] = []
        offsets.begin(group_id, self)

    def records(self) -> list[Record]:
        return [
            offset_tombstone(self._group_id, place) if offset is None else offset_record(self._group_id, place, offset)
            for place, offset in self.changes.items()
        ]

    def when_settled(self, resume: Callable[[Code], None]) -> None:
        self._awaited_by.append(resume)

    def committed(self, now: Now) -> None:
        self._offsets.end(self._group_id, self)
        for place, offset in self.changes.items():
            if offset is None:
                self._offsets.remove(self._group_id, place)
            else:
                self._offsets.put(self._group_id, place, offset)
                self._registry.get_or_create(self._group_id, now.wall_ms).is_recorded = True
        self._settle(Code.NONE, resumed_with=Code.NONE)

    def failed(self, code: Code, now: Now) -> None:
        self._offsets.end(self._group_id, self)
        self._settle(code, resumed_with=Code.NONE)

    def overdue(self, code: Code, now: Now) -> None:
        self._settle(code, resumed_with=code)

    def _settle(self, code: Code, *, resumed_with: Code) -> None:
        if self._reply is not None:
            self._reply.send(code)
        resumed, self._awaited_by = self._awaited_by, []
        for resume in resumed:
            resume(resumed_with)
