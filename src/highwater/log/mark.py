"""The content of a mark of damage: why a log must be fetched again, and how long that holds."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple


class Mark(NamedTuple):
    why: str
    segments: tuple[str, ...] = ()
    """The files of the damaged segments, if the trouble ends with them. Without any it lasts until the log is
    replaced."""

    def encode(self) -> bytes:
        """A line for the reason, and one for each segment."""
        return "".join(f"{line}\n" for line in (self.why, *self.segments)).encode()

    @classmethod
    def decode(cls, data: bytes) -> Mark:
        why, *segments = data.decode(errors="replace").splitlines() or ["an empty mark"]
        return cls(why, tuple(segments))

    def holds_with(self, present: Collection[str]) -> Mark | None:
        """The mark of a log that has these files; None if its damaged segments are gone."""
        left = tuple(name for name in self.segments if name in present)
        return None if self.segments and not left else Mark(self.why, left)

    def covers(self, other: Mark) -> bool:
        """Whether it lasts as long as the other one."""
        return not self.segments or (bool(other.segments) and set(other.segments) <= set(self.segments))
