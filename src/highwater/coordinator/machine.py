"""What a tenure drives."""

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
        """Whether it has more to do than one turn of the loop has room for."""
        ...

    def proceed(self, now: Now) -> Sequence[Effect]:
        """A piece of that."""
        ...

    @property
    def next_deadline(self) -> float | None: ...

    def committed(self, write: Write, now: Now) -> Sequence[Effect]: ...

    def failed(self, write: Write, code: Code, now: Now) -> Sequence[Effect]: ...

    def overdue(self, write: Write, now: Now) -> Sequence[Effect]: ...

    def resigned(self, now: Now) -> Sequence[Effect]: ...
