"""The protocol of a state machine that a tenure drives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from highwater.effects import Effect, Now, Write
from highwater.errors import Code


class Machine(Protocol):
    def replay(self, key: bytes, value: bytes | None, producer_id: int) -> None: ...

    def end_transaction(self, producer_id: int, *, commit: bool) -> None: ...

    def loaded(self, now: Now) -> Sequence[Effect]: ...

    def expired(self, now: Now) -> Sequence[Effect]: ...

    @property
    def is_behind(self) -> bool:
        """Whether there is more to do than fits into one turn of the loop."""
        ...

    def proceed(self, now: Now) -> Sequence[Effect]:
        """Does one piece of it."""
        ...

    @property
    def next_deadline(self) -> float | None: ...

    def committed(self, write: Write, now: Now) -> Sequence[Effect]: ...

    def failed(self, write: Write, code: Code, now: Now) -> Sequence[Effect]: ...

    def overdue(self, write: Write, now: Now) -> Sequence[Effect]: ...

    def resigned(self, now: Now) -> Sequence[Effect]: ...
