"""What grows with the number of records is done by pieces: whoever has more to do goes on between them."""

from __future__ import annotations

from collections.abc import Generator
from typing import Final, TypeVar

T = TypeVar("T")

PIECE: Final = 100
"""Records of one: some one and a half milliseconds to decide on, to apply, or to read and write as bytes."""

Pieces = Generator[None, None, T]
"""It yields after each piece, and gives what all of them make."""


def whole(pieces: Pieces[T]) -> T:
    """In one go."""
    try:
        while True:
            next(pieces)
    except StopIteration as end:
        made: T = end.value
        return made
