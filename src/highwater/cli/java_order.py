"""The order in which Apache's tools print what they keep in a java.util.HashMap.

Users compare outputs line by line, and scripts cut fields out of them, so ours follow it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

K = TypeVar("K")

DEFAULT_CAPACITY = 16
_WORD = 0xFFFFFFFF


def string_hash(text: str) -> int:
    """java.lang.String.hashCode, as an unsigned number."""
    units = memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H")
    value = 0
    for unit in units:
        value = (31 * value + unit) & _WORD
    return value


def capacity_for(count: int) -> int:
    """The table of a HashMap made for `count` entries before it grows."""
    return 1 << max(count - 1, 0).bit_length()


def hash_map_order(keys: Iterable[K], hash_of: Callable[[K], int], initial_capacity: int = DEFAULT_CAPACITY) -> list[K]:
    """The order in which an empty HashMap returns keys that were put into it in the given order."""
    inserted = list(dict.fromkeys(keys))
    capacity = initial_capacity
    while len(inserted) > capacity * 3 // 4:
        capacity *= 2

    def bucket(key: K) -> int:
        value = hash_of(key)
        return (value ^ value >> 16) & (capacity - 1)

    return sorted(inserted, key=bucket)


def described_order(names: Iterable[str]) -> list[str]:
    """Topics as Admin.describeTopics hands them on: through three maps, the middle one a copy with its own size."""
    ordered = sorted(names)
    exact = capacity_for(len(ordered))
    copied = capacity_for(len(ordered) * 4 // 3 + 1)
    for capacity in (exact, copied, exact):
        ordered = hash_map_order(ordered, string_hash, capacity)
    return ordered
