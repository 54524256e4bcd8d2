"""How the process of a node collects garbage."""

from __future__ import annotations

import gc

_YOUNG, _MIDDLE, _OLD = 10_000, 10, 1_000
"""A collection of the young looks at 10 000 new objects, and one of the middle generation at 100 000. If all of these
stay, as while thousands of partitions are made, that takes 30 ms at most. All objects are looked at after a hundred
million new ones at the earliest."""


def leave_what_is_there() -> None:
    """A node has started: what it has made by now stays, and collections need not look at it."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, _MIDDLE, _OLD)
