"""What a piece of work takes in memory, in a process that does other things too."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

TRIES = 5


def most_held(work: Callable[[], object], bound: int) -> int:
    """The most bytes that were allocated at once while it ran. Other threads of this process allocate as well, which
    can only add to the figure: from `bound` on it is taken again, and the last one counts."""
    for _ in range(TRIES):
        tracemalloc.start()
        try:
            work()
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        if peak < bound:
            break
    return peak
