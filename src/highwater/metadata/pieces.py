"""Long work is done in pieces, so that other work can run between them. It is long if it grows with the number of
records."""

from __future__ import annotations

from collections.abc import Generator
from typing import Final, TypeVar

T = TypeVar("T")

PIECE: Final = 100
"""The number of records in a piece. To decide on them, to apply them or to encode them takes about 1.5 ms."""

Pieces = Generator[None, None, T]
"""Yields after each piece, and returns the result of all of them."""


def whole(pieces: Pieces[T]) -> T:
    """Does all pieces at once."""
    try:
        while True:
            next(pieces)
    except StopIteration as end:
        made: T = end.value
        return made
