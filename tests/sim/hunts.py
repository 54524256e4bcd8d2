"""Seeds that have found a fault once, when its mend was taken back: each fault with the profile that goes after it.

A change of the code gives every seed another story, so that a seed may no longer find its fault. `make mutants` shows
that; then `python tests/mutations/hunt.py --write` looks for others.
"""

from __future__ import annotations

from typing import NamedTuple


class Hunt(NamedTuple):
    name: str
    """The fault's number, as in tests/mutations, and what distinguishes it from its siblings."""
    profile: str
    seed: int


HUNTS: list[Hunt] = [
    Hunt("A2", "crashes", 4),
    Hunt("B10", "incarnations", 0),
    Hunt("B14", "crashes", 3),
    Hunt("C3", "crashes", 7),
    Hunt("C8", "crashes", 3),
    Hunt("F1 emptied", "rot", 88),
    Hunt("F2 unregistered", "incarnations", 4),
    Hunt("F3 failed batch", "short-room", 4),
    Hunt("F6", "deletions", 4),
    Hunt("F7", "failed-logs", 67),
    Hunt("F8", "metadata", 91),
    Hunt("F9 made", "creations", 7),
    Hunt("F10 failed cut", "truncations", 6),
    Hunt("F194", "slow-code", 1),
]
