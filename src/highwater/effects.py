"""What a machine whose memory is a partition is given and gives back: answers and writes, as values, in their order.

The machines are pure, `highwater.groups` is one, and `highwater.coordinator` drives any of them; this is all that they
have in common.

`Answer`: send the response to whoever the token stands for. It may belong to a request of long ago.

`Write`: append the records to the partition as one batch. The driver reports what became of each write, exactly once,
with `committed` (the high watermark passed it) or `failed` (it is not in the log and never will be); commits come in
the order of the writes. `overdue` may come before either: the callers are told to retry, and the write stays open.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from highwater.errors import Code
from highwater.wire.codec import Struct

Token = object
"""Names a waiting request; the driver's own, given back as it came."""


class Now(NamedTuple):
    monotonic: float
    """Seconds; deadlines are counted on it."""
    wall_ms: int
    """What is written into records."""
    aging_ms: int = 2**63 - 1
    """Where it is behind the wall clock, what is kept grows old by it: a leap of that clock counts little by little."""


class Caller(NamedTuple):
    """Who sent a request, and in which version of its API."""

    token: Token
    version: int
    client_id: str = ""
    client_host: str = ""


class Record(NamedTuple):
    key: bytes
    value: bytes | None
    """None is a tombstone."""


class Outcome(Protocol):
    """What depends on a write."""

    def committed(self, now: Now) -> None: ...

    def failed(self, code: Code, now: Now) -> None:
        """The records are not in the log; `code` is what the partition said, not yet what a client is told."""
        ...

    def overdue(self, code: Code, now: Now) -> None:
        """Tell the callers and keep the rest: the records are in the log, and may be committed yet."""
        ...


@dataclass(frozen=True, slots=True)
class Answer:
    token: Token
    response: Struct


@dataclass(frozen=True, slots=True, eq=False)
class Write:
    records: tuple[Record, ...]
    then: Outcome
    about: str = ""
    """What it is, where nobody waits for it: if it is refused, the log of the node says so."""


Effect = Answer | Write


class UnknownWrite(Exception):
    """The driver reported on a write twice, or on one of another machine or an earlier term."""


class Outbox:
    """Collects the effects of one input, and remembers the writes that are under way."""

    def __init__(self) -> None:
        self._effects: list[Effect] = []
        self._open: dict[Write, None] = {}

    @property
    def size(self) -> int:
        """Effects that are not drained yet."""
        return len(self._effects)

    def answer(self, caller: Caller, response: Struct) -> None:
        self._effects.append(Answer(caller.token, response))

    def write(self, records: Sequence[Record], then: Outcome, about: str = "") -> None:
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
