"""Commits against other writers of the same table: the loser pauses, looks again, and tries again."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")

RACES = 20
"""So often others may be faster before the batch fails, which Spark answers by ending the query."""
FIRST_PAUSE, LAST_PAUSE = 0.02, 2.0
"""Seconds. Writers that lose together would otherwise meet again at once, and again."""


def until_won(
    attempt: Callable[[], Result], *lost: type[Exception], pause: Callable[[float], None] = time.sleep
) -> Result:
    """`attempt` starts from the table as it is now, each time. Pauses double, and each is up to that long."""
    longest = FIRST_PAUSE
    for _ in range(RACES - 1):
        try:
            return attempt()
        except lost:
            pause(random.uniform(0.0, longest))
            longest = min(2 * longest, LAST_PAUSE)
    return attempt()
