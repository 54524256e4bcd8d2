"""The effects of a state machine that stores its state in a partition: answers and writes, in order.

`highwater.groups` is such a machine. It is pure, and `highwater.coordinator` drives it. This module is all that they
share.

`Answer`: send the response to the request of this token. The request may have come long ago.

`Write`: append the records to the partition as one batch. The driver reports the result of each write exactly once:
with `committed` (the high watermark has passed it) or with `failed` (it is not in the log and never will be). Commits
come in the order of the writes. `overdue` may come before: then the callers get a retriable error, and the write stays
open.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from highwater.errors import Code
from highwater.wire.codec import Struct

Token = object
"""Stands for a waiting request. The driver passes it in and gets it back unchanged."""


class Now(NamedTuple):
    monotonic: float
    """Seconds, for deadlines."""
    wall_ms: int
    """The timestamp for records."""
    aging_ms: int = 2**63 - 1
    """The clock for retention, if it is behind the wall clock: it follows a leap of the wall clock only slowly."""


class Caller(NamedTuple):
    """The sender of a request, and the version of the API."""

    token: Token
    version: int
    client_id: str = ""
    client_host: str = ""


class Record(NamedTuple):
    key: bytes
    value: bytes | None
    """None is a tombstone."""


class WriteOutcome(Protocol):
    """What happens when the result of a write is known."""

    def committed(self, now: Now) -> None: ...

    def failed(self, code: Code, now: Now) -> None:
        """The records are not in the log. `code` is the error of the partition, not yet translated for clients."""
        ...

    def overdue(self, code: Code, now: Now) -> None:
        """Answer the callers, and change nothing else: the records are in the log and may still be committed."""
        ...


@dataclass(frozen=True, slots=True)
class Answer:
    token: Token
    response: Struct


@dataclass(frozen=True, slots=True, eq=False)
class Write:
    records: tuple[Record, ...]
    then: WriteOutcome
    about: str = ""
    """A description, if no request waits for the write. If it fails, the node logs it."""


Effect = Answer | Write


class UnknownWrite(Exception):
    """The driver reported a write twice, or a write of another machine or of an earlier term."""


class Outbox:
    """Collects the effects of one input, and remembers the writes that are under way."""

    def __init__(self) -> None:
        self._effects: list[Effect] = []
        self._open: dict[Write, None] = {}

    @property
    def size(self) -> int:
        """The number of effects that are not drained yet."""
        return len(self._effects)

    def answer(self, caller: Caller, response: Struct) -> None:
        self._effects.append(Answer(caller.token, response))

    def write(self, records: Sequence[Record], then: WriteOutcome, about: str = "") -> None:
        write = Write(tuple(records), then, about)
        self._open[write] = None
        self._effects.append(write)

    def close(self, write: Write) -> None:
        self.expect(write)
        del self._open[write]

    def expect(self, write: Write) -> None:
        if write not in self._open:
            raise UnknownWrite

    def abandon(self) -> list[Write]:
        writes, self._open = list(self._open), {}
        return writes

    def drain(self) -> list[Effect]:
        effects, self._effects = self._effects, []
        return effects
