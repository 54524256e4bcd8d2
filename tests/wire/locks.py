"""A lock that counts."""

from __future__ import annotations


class CountedLock:
    """How often it was taken. It keeps nobody out."""

    def __init__(self) -> None:
        self.times = 0

    def __enter__(self) -> None:
        self.times += 1

    def __exit__(self, *_: object) -> None:
        """Nothing to do."""
