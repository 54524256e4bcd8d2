"""Commits against other writers of the same table: the loser looks again, and tries again."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")

RACES = 20
"""So often others may be faster before the batch fails, which Spark answers by ending the query."""


def until_won(attempt: Callable[[], Result], *lost: type[Exception]) -> Result:
    """`attempt` starts from the table as it is now, each time."""
    for _ in range(RACES - 1):
        try:
            return attempt()
        except lost:
            continue
    return attempt()
