"""When a query that failed starts again."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Restart:
    """After a failure the query starts again, each time after twice the wait, until it failed too often in a row."""

    attempts: int = 10
    backoff_seconds: float = 1.0
    max_backoff_seconds: float = 60.0

    def wait(self, failures: int) -> float | None:
        """Before the next attempt, after so many failures without a finished batch between; None: give up."""
        if failures > self.attempts:
            return None
        return min(self.backoff_seconds * 2.0 ** (failures - 1), self.max_backoff_seconds)
