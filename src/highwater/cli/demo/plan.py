"""When things happen in a run. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

LONG_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Plan:
    """In seconds since the feed began."""

    seconds: float | None
    """None: until it is interrupted."""

    @property
    def is_short(self) -> bool:
        return self.seconds is not None and self.seconds < LONG_SECONDS

    @property
    def kill_at(self) -> float:
        return 10.0 if self.seconds is None else max(1.0, self.seconds * 0.35)

    @property
    def kill_by(self) -> float:
        """After this time the kill does not wait for landed orders: a short run is over before Spark has begun."""
        return math.inf if self.seconds is None else max(1.0, self.seconds * 0.6)

    @property
    def notice_seconds(self) -> float:
        """Between the announcement of the kill and the kill."""
        return 1.0 if self.is_short else 4.0

    @property
    def down_seconds(self) -> float:
        """How long a killed broker stays dead: long enough to see its lane fall behind."""
        return 2.0 if self.is_short else 6.0

    def wants_kill(self, elapsed: float, has_landed: bool) -> bool:
        return elapsed >= self.kill_at and (has_landed or elapsed >= self.kill_by)

    def is_over(self, elapsed: float) -> bool:
        return self.seconds is not None and elapsed >= self.seconds
