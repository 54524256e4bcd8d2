"""Requests that name many things: decided piece by piece, each in a turn of its own, and answered as one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from highwater.net.context import RequestContext
from highwater.net.turns import Work

D = TypeVar("D")
P = TypeVar("P")
R = TypeVar("R")


def decide_in_pieces(
    decide: Callable[[Callable[[], D], Callable[[R | None], None]], None],
    ctx: RequestContext,
    pieces: Sequence[P],
    decision: Callable[[P], D],
    refused: Callable[[P], R],
    respond: Callable[[Sequence[R]], Work],
) -> Work:
    """`decide` is the controller's, for what is decided at once or for what takes long. `respond` gets what was decided
    in the pieces' order, once all of it is committed. `refused` words the answer for a piece that came to a controller
    that is active no longer."""
    decided: dict[int, R] = {}

    def take(at: int, piece: P) -> None:
        def answer(response: R | None) -> None:
            decided[at] = refused(piece) if response is None else response
            if len(decided) == len(pieces):
                ctx.carry_out(respond([decided[each] for each in range(len(pieces))]))

        decide(lambda: decision(piece), answer)

    for at, piece in enumerate(pieces):
        take(at, piece)
        yield None
